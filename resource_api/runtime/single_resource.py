"""Read the resources of a type, and change one of them, without a manifest.

Reading imports neither the planner nor the transaction.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from resource_api.model.change import exists
from resource_api.model.datatypes import from_text
from resource_api.model.options import to_options
from resource_api.model.provider_functions import ProviderFunctions, canonical_name, canonical_names
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ProviderError, UnknownName, UsageError, suggestion
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import copy_resource, literal, reveal
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.plugins.registry import Registry
from resource_api.runtime import configured_provider
from resource_api.snapshot.batched_get import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.implementations import Suitability
    from resource_api.provider.context import RunContext
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.manifest_compiler import Source

    #: Computes the names of the resources to read with the functions of their provider, such as ``canonicalize``.
    NamesOf = Callable[[ProviderFunctions], Sequence[object]]


class ResourceReader:
    """Reads resources with the types and providers of a registry."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Use the types of ``registry``, and ``run`` for log, cancellation and isolation; read nothing yet.

        Raise ``TypeError`` for another object than a registry, such as a path, with the call that makes one.
        """
        if not isinstance(registry, Registry):
            raise TypeError(f"a Runtime needs a registry, not {registry!r:.80}; write Registry.from_path(DIRECTORY)")
        self.registry = registry
        self.run = run
        registry.send_warnings(lambda message: run.log.write("warning", "", message))

    def resources(
        self,
        type_name: str,
        names: Sequence[object] | None = None,
        *,
        strict: str = "error",
        provider: str | None = None,
        manifest: Source | None = None,
        inputs: Mapping[str, object] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[dict[str, object]]:
        """Return the resources of a type: all that exist, or those called ``names``, in any spelling, each once.

        A name is the value of the namevar, or for several namevars a tuple or a title. A missing resource is returned
        with ``ensure: absent``. ``strict``: whether rows that break the type's declaration are an ``error``, a
        ``warning``, or ignored (``off``). Raise ``ProviderError`` naming every resource that cannot be read.

        For a type with a configuration: ``provider`` is an entry of ``providers`` in ``manifest``, which gets
        ``inputs``, or in ``providers.yaml`` in a directory of the module path; ``config`` is the configuration itself.
        Raise ``UsageError`` for an invalid name, an unknown provider, an invalid ``config`` and a type without
        resources, ``ManifestError`` for an invalid entry.
        """
        if isinstance(names, (str, bytes)):
            raise UsageError(f"names must be a list of names, not {names!r}")
        selected = self.select(type_name, provider=provider, manifest=manifest, inputs=inputs, config=config)
        canonical = None if names is None else partial(_canonical, names)
        return self.read_all(type_name, canonical, strict=strict, selected=selected)

    def select(
        self,
        type_name: str,
        *,
        provider: str | None = None,
        manifest: Source | None = None,
        inputs: Mapping[str, object] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> SelectedProvider | None:
        """Return the configured provider to read a type with.

        It is the entry ``provider`` of ``manifest`` or of ``providers.yaml``, or one with the configuration ``config``.
        Return None if no argument selects a provider and the type has no configuration: its provider needs none.
        """
        definition = self.registry.type(type_name)
        check_has_resources(definition)
        is_selected = inputs or any(argument is not None for argument in (provider, manifest, config))
        if not is_selected and not definition.config.attributes:
            return None
        selector = configured_provider.ProviderSelector(self.registry, self.run)
        return selector.select(type_name, provider, manifest, inputs or {}, config)

    def read(
        self,
        type_name: str,
        names: NamesOf | None = None,
        *,
        strict: str = "error",
        selected: SelectedProvider | None = None,
    ) -> tuple[list[dict[str, object]], dict[str, str]]:
        """Return the rows of resources that can be read, and reference → error of the unreadable ones.

        ``names`` returns the canonical names to read from the functions of the provider, which may have its own
        canonical form; None: read all resources. ``selected``: the result of ``select``. Raise ``ProviderError`` if
        none can be read, and ``UsageError`` for another ``strict``.
        """
        to_options({"strict": strict})
        with ProviderPool(self.registry, self.run) as providers:
            functions = self._functions(providers, type_name, selected)
            requested = None if names is None else names(functions)
            rows, failures = Snapshot(providers, strict).existing(functions.definition, requested)
        return rows, {str(Reference(type_name, _title(name))): error for name, error in failures.items()}

    def read_all(
        self,
        type_name: str,
        names: NamesOf | None = None,
        *,
        strict: str = "error",
        selected: SelectedProvider | None = None,
    ) -> list[dict[str, object]]:
        """Return the rows of resources as ``read`` does, for callers that need all of them.

        Raise ``ProviderError`` with every resource that cannot be read.
        """
        rows, failures = self.read(type_name, names, strict=strict, selected=selected)
        if failures:
            raise ProviderError("\n".join(f"{reference}: {error}" for reference, error in failures.items()))
        return rows

    def unlisted(
        self, definition: TypeDefinition, rows: Sequence[Mapping[str, object]], selected: SelectedProvider | None = None
    ) -> dict[str, str]:
        """Return reference → reason of the resources that a generated manifest must omit, so that it changes nothing.

        The provider's own comparison or check would change or refuse them although they are declared as they were read,
        such as a file whose rules the kernel has not loaded. Types with ``identity`` are not checked: names of their
        resources exist only in manifests, and the provider would find no resource by them.
        """
        has_own_rules = definition.features & {"custom_insync", "validate"}
        if not rows or not has_own_rules or definition.identity is not None:
            return {}
        defaults = {name: attribute.fresh_default() for name, attribute in definition.defaults}
        declared = [defaults | {key: row[key] for key in row.keys() - definition.read_only} for row in rows]
        with ProviderPool(self.registry, self.run) as providers:
            functions = self._functions(providers, definition.name, selected)
            changes, refusals = _changes(functions, rows, declared), _refusals(functions, declared)
        references = [str(Reference(definition.name, definition.title_of(row))) for row in rows]
        reasons = [refusal or change for change, refusal in zip(changes, refusals, strict=True)]
        return {reference: reason for reference, reason in zip(references, reasons, strict=True) if reason}

    def suitability(self, type_name: str) -> list[Suitability]:
        """Return whether each provider of a type with several is suitable here, or why not; empty for an ordinary type.

        Raise ``DefinitionError`` for a provider that cannot be loaded.
        """
        with ProviderPool(self.registry, self.run) as providers:
            return providers.suitability(type_name)

    def _functions(
        self, providers: ProviderPool, type_name: str, selected: SelectedProvider | None
    ) -> ProviderFunctions:
        """Return the functions of the ``selected`` provider, which is configured first, since ``get`` needs that.

        ``selected``: None for the default provider of the type.
        """
        if selected is not None:
            type_name = selected.instance
            providers.select_versions({type_name: selected.version})
            providers.select_implementations({type_name: selected.implementation})
            providers.configure(type_name, selected.config)
        return providers.functions(type_name)


def check_has_resources(definition: TypeDefinition) -> None:
    """Raise ``UsageError`` for a type that has only functions."""
    if not definition.attributes:
        raise UsageError(f"{capitalize_type(definition.name)}: its type has functions and no resources")


def _changes(
    functions: ProviderFunctions, rows: Sequence[Mapping[str, object]], declared: Sequence[Mapping[str, object]]
) -> list[str]:
    """Return for each row the reason that ``apply`` would change it if it is declared as it was read, or "".

    The provider's own comparison (``insync``) may find differences between a row and its declaration.
    """
    if functions.insync is None:
        return [""] * len(rows)
    definition = functions.definition
    compared = [[name for name in definition.compared if name in should] for should in declared]
    identities = map(definition.name_of, rows)
    questions = zip(identities, compared, map(copy_resource, rows), map(copy_resource, declared), strict=True)
    reasons = []
    for names, verdicts in zip(compared, functions.insync(questions), strict=True):
        differences = _differences(names, verdicts)
        reasons.append(f"it would be changed ({'; '.join(differences)})" if differences else "")
    return reasons


def _differences(names: Sequence[str], verdicts: list[object] | Exception) -> list[str]:
    """Return the attributes that the provider's comparison finds different, with its reasons, for a message.

    ``verdicts``: for each of ``names`` True, False, None for no opinion, or a pair of such a verdict and a reason. An
    exception means that the comparison failed: then no difference is reported.
    """
    if isinstance(verdicts, Exception):
        return []
    answers = [verdict if isinstance(verdict, tuple) else (verdict, "") for verdict in verdicts]
    pairs = zip(names, answers, strict=False)  # the number of answers is the provider's
    return [f"{name}: {reason}" if reason else name for name, (in_sync, reason) in pairs if in_sync is False]


def _refusals(functions: ProviderFunctions, declared: Sequence[Mapping[str, object]]) -> list[str]:
    """Return for each declaration the reason that the provider's ``validate`` refuses it, or "".

    A ``validate`` that fails itself refuses nothing here.
    """
    if functions.validate is None:
        return [""] * len(declared)
    reasons = []
    for problems in functions.validate(list(map(copy_resource, declared))):
        messages = [] if isinstance(problems, Exception) else [problem.message for problem in problems]
        reasons.append(f"it would be refused ({'; '.join(messages)})" if messages else "")
    return reasons


def _canonical(names: Sequence[object], functions: ProviderFunctions) -> list[Name]:
    """Return the canonical forms of names. Raise ``UsageError`` for an invalid name."""
    with errors_as(UsageError, begin=f"{capitalize_type(functions.definition.name)}: "):
        return canonical_names(functions, names)


def _title(name: Name) -> str:
    """Return a title for a resource that cannot be read: its type could make one only of a row."""
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def values_of_change(
    definition: TypeDefinition, row: Mapping[str, object], attributes: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the declaration that changes ``attributes`` of a row, and further present values to declare with it.

    The former includes the mandatory attributes, without which no declaration is valid. The latter are of attributes
    with a default, to which the change would otherwise reset them. The names are as spelt in manifests.
    """
    spelling, present = definition.spelling, {name: value for name, value in row.items() if value is not None}
    declared = {spelling(name): reveal(present[name]) for name in definition.mandatory if name in present}
    changed = declared | {spelling(name): value for name, value in attributes.items()}
    retained = {}
    for name in definition.compared if exists(row) else ():
        if definition.attributes[name].has_default and name in present and name not in attributes:
            retained[spelling(name)] = reveal(present[name])
    return changed, retained


def manifest_of(
    reference: Reference, declared: Mapping[str, object], selected: SelectedProvider | None
) -> dict[str, object]:
    """Return the manifest of one resource and its configured provider, by which a command changes the resource.

    ``${`` in a value is escaped, as values of the command line are texts, not expressions.
    """
    body = literal(dict(declared))
    if selected is None:
        return {"resources": {str(reference): body}}
    body["provider"] = selected.name
    return {"resources": {str(reference): body}, "providers": literal(selected.section)}


def canonical_identity(
    definition: TypeDefinition, title: str, attributes: Mapping[str, object], functions: ProviderFunctions
) -> list[Name]:
    """Return the canonical name of one resource, in the list of names that ``ResourceReader.read_all`` reads.

    It is made from ``title`` and the namevars among ``attributes``. Raise ``UsageError`` if they are invalid.
    """
    namevars = {name: value for name, value in attributes.items() if name in definition.namevars}
    with errors_as(UsageError, begin=f"{Reference(definition.name, title)}: "):
        return [canonical_name(functions, title, namevars)]


def parse_name(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> tuple[str, dict[str, object]]:
    """Return the title of the resource ``name`` of the command line, and the values of the ``ATTR=VALUE`` pairs.

    The values are converted to the data types of their attributes. ``name`` may be such a pair itself: the title is
    then made from the namevars among the pairs. Raise ``UsageError``, also for a missing namevar, and for an empty
    name, as from an unset variable. ``read_secret`` returns the value of a sensitive attribute from its name and text.
    """
    if not name:
        raise UsageError("NAME is empty")
    first, equals, _ = name.partition("=")
    if equals and definition.attribute_spelt(first) in definition.attributes:
        changes = [name, *changes]
        texts = {attribute: text for attribute, _, text in (pair.partition("=") for pair in changes)}
        # A namevar with a default may be left out of the pairs.
        row = {namevar: attribute.default for namevar, attribute in definition.defaults} | definition.renamed(texts)
        if missing := [namevar for namevar in definition.namevars if not row.get(namevar)]:
            raise UsageError(f"NAME is missing before '{first}='; write it there, or {missing[0]}=VALUE")
        name = definition.title_of(row)
    return name, parse_attributes(definition, name, changes, read_secret)


def parse_attributes(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> dict[str, object]:
    """Return attribute → value of ``ATTR=VALUE`` pairs, converted to each attribute's data type. Raise ``UsageError``.

    ``read_secret`` returns the value of a sensitive attribute from its name and its text, since a secret on the command
    line would be visible to other users.
    """
    values: dict[str, object] = {}
    for pair in changes:
        attribute, equals, text = pair.partition("=")
        attribute = definition.attribute_spelt(attribute)
        if not equals:
            raise UsageError(f"'{pair}': write ATTR=VALUE")
        if attribute not in definition.attributes:
            hint = suggestion(attribute, definition.attributes, "attribute", definition.name)
            msg = f"{Reference(definition.name, name)}: unknown attribute '{attribute}'" + (f"; {hint}" if hint else "")
            raise UnknownName(msg, attribute)
        try:
            declared = definition.attributes[attribute]
            if declared.datatype.sensitive:
                text = read_secret(attribute, text)
            value = from_text.coerce(declared.datatype, text, declared.must_be)
        except ValueError as error:
            raise UsageError(f"{Reference(definition.name, name)}: {attribute} {error}", attribute) from error
        values[attribute] = value
    return values
