"""Read the resources of a type, and change one of them, without a manifest.

Reading imports neither the planner nor the transaction.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.model.provider_functions import canonical_name, canonical_names
from resource_api.model.values.errors import ManifestError, Problem, ProviderError, UnknownName, UsageError, nearest
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import copy_resource, reveal
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.report import Report
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.implementations import Suitability
    from resource_api.plugins.registry import Registry
    from resource_api.provider.context import RunContext
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime


class ResourceReader:
    """Reads resources with the types and providers of a registry."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Use ``registry``, and ``run`` for the log, cancellation and isolation; nothing is read yet."""
        self.registry = registry
        self.run = run
        registry.send_warnings(lambda message: run.log.write("warning", "", message))

    def resources(
        self,
        type_name: str,
        names: Sequence[Any] | None = None,
        *,
        strict: str = "error",
        provider: str | None = None,
        manifest: Source | None = None,
        inputs: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the resources of a type: all that exist, or those called ``names``, in any spelling, each once.

        A name is the value of the namevar; of several a tuple, or a title. One that does not exist is returned with
        ``ensure: absent``. ``strict`` is ``error``, ``warning`` or ``off``:
        what happens to rows that break the type's declaration. Raise ``ProviderError`` naming every resource that
        cannot be read.

        For a type with a configuration: ``provider`` is an entry of ``providers`` in ``manifest``, which gets
        ``inputs``, or in ``providers.yaml`` in a directory of the module path; ``config`` is the configuration itself.
        Raise ``UsageError`` for what is no name of the type, an unknown provider, an invalid ``config`` and a type
        without resources, ``ManifestError`` for an invalid entry.
        """
        if isinstance(names, (str, bytes)):
            msg = f"names must be a list of names, not {names!r}"
            raise UsageError(msg)
        selected = self.select(type_name, provider=provider, manifest=manifest, inputs=inputs, config=config)
        wanted = None if names is None else partial(_canonical, names)
        return self.read_all(type_name, wanted, strict=strict, selected=selected)

    def select(
        self,
        type_name: str,
        *,
        provider: str | None = None,
        manifest: Source | None = None,
        inputs: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> SelectedProvider | None:
        """Return the configured provider that ``resources`` uses; None for the provider of a type that needs none."""
        definition = self.registry.type(type_name)
        check_has_resources(definition)
        given = inputs or any(each is not None for each in (provider, manifest, config))
        if not given and not definition.config.attributes:
            return None
        from resource_api.runtime.configured_provider import ProviderSelector

        return ProviderSelector(self.registry, self.run).select(type_name, provider, manifest, inputs or {}, config)

    def read(
        self,
        type_name: str,
        names: Sequence[Any] | Callable[[ProviderFunctions], Sequence[Any]] | None = None,
        *,
        strict: str = "error",
        selected: SelectedProvider | None = None,
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Return the resources that can be read, as ``resources`` does, and the reference → reason of the others.

        ``names`` may be a function that returns them with the provider that reads them. Raise ``ProviderError`` when
        none can be read, and ``UsageError`` for another ``strict``. ``selected`` is the result of ``select``.
        """
        if strict != "error":
            from resource_api.model.options import to_options

            to_options({"strict": strict})
        with ProviderPool(self.registry, self.run) as providers:
            tools = self._tools(providers, type_name, selected)
            names = names(tools) if callable(names) else names
            rows, failures = Snapshot(providers, strict).existing(tools.definition, names)
        return rows, {str(Reference(type_name, _title(name))): why for name, why in failures.items()}

    def read_all(
        self,
        type_name: str,
        names: Sequence[Any] | Callable[[ProviderFunctions], Sequence[Any]] | None = None,
        *,
        strict: str = "error",
        selected: SelectedProvider | None = None,
    ) -> list[dict[str, Any]]:
        """Return the resources as ``read`` does. Raise ``ProviderError`` naming every one that cannot be read."""
        rows, failures = self.read(type_name, names, strict=strict, selected=selected)
        if failures:
            raise ProviderError("\n".join(f"{reference}: {why}" for reference, why in failures.items()))
        return rows

    def unlisted(
        self, definition: TypeDefinition, rows: Sequence[Mapping[str, Any]], selected: SelectedProvider | None = None
    ) -> dict[str, str]:
        """Return reference → why, of the resources that would be changed or refused if declared as they were read.

        Only a provider's own comparison or check finds one, such as a file whose rules the kernel has not loaded.
        """
        if not definition.features & {"custom_insync", "validate"} or not rows:
            return {}
        defaults = {name: attribute.fresh_default() for name, attribute in definition.defaults}
        declared = [defaults | {key: row[key] for key in row.keys() - definition.read_only} for row in rows]
        names = [[name for name in definition.compared if name in should] for should in declared]
        with ProviderPool(self.registry, self.run) as providers:
            tools = self._tools(providers, definition.name, selected)
            identities = map(definition.name_of, rows)
            questions = zip(identities, names, map(copy_resource, rows), map(copy_resource, declared), strict=True)
            verdicts = list(tools.insync(questions)) if tools.insync is not None else []
            checks = list(tools.validate(list(map(copy_resource, declared)))) if tools.validate is not None else []
        references = [str(Reference(definition.name, definition.title_of(row))) for row in rows]
        asked = zip(references, names, verdicts, strict=False)
        changed = {each: _differences(compared, verdict) for each, compared, verdict in asked}
        refused = {each: _messages(problems) for each, problems in zip(references, checks, strict=False)}
        found = {each: f"it would be changed ({'; '.join(whys)})" for each, whys in changed.items() if whys}
        return found | {each: f"it would be refused ({'; '.join(whys)})" for each, whys in refused.items() if whys}

    def suitability(self, type_name: str) -> list[Suitability]:
        """Return for each of several providers of a type whether it is suitable here; empty for an ordinary type.

        A provider that cannot be loaded is a ``DefinitionError``.
        """
        with ProviderPool(self.registry, self.run) as providers:
            return providers.suitability(type_name)

    def _tools(self, providers: ProviderPool, type_name: str, selected: SelectedProvider | None) -> ProviderFunctions:
        if selected is not None:
            type_name = selected.instance
            providers.select_versions({type_name: selected.version})
            providers.select_implementations({type_name: selected.implementation})
            providers.configure(type_name, selected.config)
        return providers.functions(type_name)


def check_has_resources(definition: TypeDefinition) -> None:
    """Raise ``UsageError`` for a type that has only functions."""
    if not definition.attributes:
        msg = f"{capitalize_type(definition.name)}: its type has functions and no resources"
        raise UsageError(msg)


def _differences(names: Sequence[str], verdicts: list[Any] | Exception) -> list[str]:
    """Return the attributes of which a provider says that they differ, with its reason; none where it fails."""
    answers = [] if isinstance(verdicts, Exception) else zip(names, verdicts, strict=False)
    given = [(name, answer if isinstance(answer, tuple) else (answer, "")) for name, answer in answers]
    return [f"{name}: {answer[1]}" if answer[1] else name for name, answer in given if answer[0] is False]


def _messages(problems: list[Problem] | Exception) -> list[str]:
    """Return the messages of a provider's check; none where it fails."""
    return [] if isinstance(problems, Exception) else [problem.message for problem in problems]


def _canonical(names: Sequence[Any], tools: ProviderFunctions) -> list[Name]:
    """Return the canonical forms of names. Raise ``UsageError`` for what is no name of the type."""
    try:
        return canonical_names(tools, names)
    except ValueError as error:
        msg = f"{capitalize_type(tools.definition.name)}: {error}"
        raise UsageError(msg) from error


def _title(name: Name) -> str:
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def change_resource(
    runtime: Runtime,
    definition: TypeDefinition,
    reference: Reference,
    row: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    selected: SelectedProvider | None = None,
    noop: bool = False,
    strict: Any = "error",
) -> Report:
    """Change one resource, which is as ``row``, to the ``given`` attributes. Raise ``ManifestError`` without places.

    What is not given stays as it is, except where ``given`` excludes it: there a default takes its place.
    """
    # An existing resource must be declared with its mandatory attributes too, and the others would get their defaults.
    declared = {key: reveal(row[key]) for key in definition.mandatory if row.get(key) is not None} | dict(given)
    defaulted = {key: reveal(row[key]) for key in _with_default(definition, row) if key not in given}
    with suppress(ManifestError):
        return runtime.change(_manifest_of(reference, {**defaulted, **declared}, selected), noop=noop, strict=strict)
    for key, value in defaulted.items():
        if _is_valid(runtime, _manifest_of(reference, {key: value, **declared}, selected)):
            declared[key] = value
    try:
        return runtime.change(_manifest_of(reference, declared, selected), noop=noop, strict=strict)
    except ManifestError as error:
        raise ManifestError([problem._replace(file="") for problem in error.problems]) from error


def _manifest_of(
    reference: Reference, declared: Mapping[str, Any], selected: SelectedProvider | None
) -> dict[str, Any]:
    from resource_api.model.values.expression import literal

    body = literal(dict(declared))
    if selected is None:
        return {"resources": {str(reference): body}}
    body["provider"] = selected.name
    return {"resources": {str(reference): body}, "providers": literal(selected.section)}


def _with_default(definition: TypeDefinition, row: Mapping[str, Any]) -> list[str]:
    """Return the attributes that have a default, and in an existing resource a value."""
    names = definition.compared if exists(row) else ()
    return [name for name in names if definition.attributes[name].has_default and row.get(name) is not None]


def _is_valid(runtime: Runtime, manifest: Mapping[str, Any]) -> bool:
    try:
        runtime.compile(manifest)
    except ManifestError:
        return False
    return True


def canonical_identity(
    definition: TypeDefinition, title: str, given: Mapping[str, Any], tools: ProviderFunctions
) -> list[Name]:
    """Return the canonical name of a title of the command line, with the namevars among the ``given`` attributes."""
    parse_name = {key: value for key, value in given.items() if key in definition.namevars}
    try:
        return [canonical_name(tools, title, parse_name)]
    except ValueError as error:
        msg = f"{Reference(definition.name, title)}: {error}"
        raise UsageError(msg) from error


def parse_name(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> tuple[str, dict[str, Any]]:
    """Return the title that NAME means, and the values of the ``ATTR=VALUE`` pairs, see ``attributes``.

    Where NAME is such a pair itself, the namevars among the pairs name the resource. Raise ``UsageError``, also where
    one is missing, and for an empty NAME, which is that of a variable that is not set.
    """
    if not name:
        msg = "NAME is empty"
        raise UsageError(msg)
    first, equals, _ = name.partition("=")
    if equals and first in definition.attributes:
        changes = [name, *changes]
        texts = {attribute: text for attribute, _, text in (pair.partition("=") for pair in changes)}
        row = {namevar: attribute.default for namevar, attribute in definition.defaults} | texts
        if missing := next((namevar for namevar in definition.namevars if not row.get(namevar)), None):
            msg = f"NAME is missing before '{first}='; write it there, or {missing}=VALUE"
            raise UsageError(msg)
        name = definition.title_of(row)
    return name, parse_attributes(definition, name, changes, read_secret)


def parse_attributes(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> dict[str, Any]:
    """Return the values of ``ATTR=VALUE`` pairs, coerced to each attribute's data type. Raise ``UsageError``.

    ``read_secret`` returns what the text of a sensitive attribute means, from its name and the text.
    """
    from resource_api.model.datatypes import from_text

    found: dict[str, Any] = {}
    for pair in changes:
        attribute, equals, text = pair.partition("=")
        if not equals:
            msg = f"'{pair}': write ATTR=VALUE"
            raise UsageError(msg)
        if attribute not in definition.attributes:
            hint = nearest(attribute, definition.attributes, "attribute", definition.name)
            msg = f"{Reference(definition.name, name)}: unknown attribute '{attribute}'" + (f"; {hint}" if hint else "")
            raise UnknownName(msg, attribute)
        try:
            declared = definition.attributes[attribute]
            if declared.datatype.sensitive:
                text = read_secret(attribute, text)
            value = from_text.coerce(declared.datatype, text, declared.must_be)
        except ValueError as error:
            msg = f"{Reference(definition.name, name)}: {attribute} {error}"
            raise UsageError(msg, attribute) from error
        found[attribute] = value
    return found
