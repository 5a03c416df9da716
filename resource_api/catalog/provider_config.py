"""The configured providers of a manifest: what each is configured with, checked; who waits for what that refers to.

What only a resource's state tells stays pending. Pure: what providers check comes in as plain functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import canonicalize
from resource_api.model.attribute import hint
from resource_api.model.provider_instance import ProviderInstance
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, Problem, ProviderError, reason
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import UNKNOWN, copy_resource, is_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.evaluate import Evaluator
    from resource_api.catalog.resources import ResourceTable
    from resource_api.model.declaration import ConfiguredProvider, Input, Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions


def build_instances(
    table: ResourceTable, evaluator: Evaluator, diagnostics: Diagnostics
) -> dict[str, ProviderInstance]:
    """Give the instances that the manifest names or its resources need, by name; complains of what is wrong.

    The resources of an instance come after what its configuration refers to.
    """
    users: dict[str, list[Entry]] = {}
    wanted = {declared.instance: declared for declared in diagnostics.manifest.providers.values()}
    for name, definition in table.instances().items():
        if definition.config.attributes or name in wanted:
            users[name] = [entry for entry in table.entries if entry.instance == name]
    needed = {name: wanted.get(name) for name in (*wanted, *users)}
    made = _Maker(table, evaluator, diagnostics)
    return {
        name: instance
        for name, declared in needed.items()
        if (instance := made.instance(name, declared, users.get(name, []))) is not None
    }


def default_config(tools: ProviderFunctions) -> Mapping[str, Any]:
    """Give the configuration of a type's default provider where no manifest says it. Raises ``ProviderError``."""
    config, problems = validate_config(tools, {})
    if problems:
        name = tools.definition.name
        said = "; ".join(problem.message for problem in problems)
        msg = f"{name}: the configuration of its provider: {said}; a manifest can say it under providers:"
        raise ProviderError(msg)
    return config


def reduce_to_providers(manifest: Manifest) -> Manifest:
    """Give a manifest with no inputs and values but those that its providers are configured with."""
    inputs: dict[str, Input] = {}
    values: dict[str, Any] = {}
    waiting: list[Any] = [declared.config for declared in manifest.providers.values()]
    while waiting:
        for path in expression.find_paths(waiting.pop()):
            name = path.keys[0]
            if path.root == "inputs" and name in manifest.inputs:
                inputs[name] = manifest.inputs[name]
            elif path.root == "values" and name in manifest.values and name not in values:
                values[name] = manifest.values[name]
                waiting.append(values[name])
    return manifest._replace(inputs=inputs, values=values)


class _Maker:
    def __init__(self, table: ResourceTable, evaluator: Evaluator, diagnostics: Diagnostics) -> None:
        self._table = table
        self._evaluator = evaluator
        self._diagnostics = diagnostics

    def instance(self, name: str, declared: ConfiguredProvider | None, users: list[Entry]) -> ProviderInstance | None:
        """Give an instance, or None when nothing can be said of it."""
        try:
            tools = self._table.tools(name)
        except DefinitionError as error:
            self._complain(declared, users, "type", str(error))
            return None
        config = declared.config if declared else {}
        known = tools.definition.config.attributes
        for key in config.keys() - known.keys():
            what = (
                f"unknown configuration '{key}'" if known else f"type '{tools.definition.name}' takes no configuration"
            )
            self._complain(declared, users, ("config", key), what + (hint(key, known) if known else ""))
        values, pending = self._evaluate(declared, {key: config[key] for key in known if key in config}, users)
        checked, problems = validate_config(tools, values)
        for problem in problems:
            where = ("config", problem.attribute) if problem.attribute else "config"
            self._complain(declared, users, where, problem.message)
        place = declared.place() if declared else self._diagnostics.manifest.place(users[0].declaration)
        return ProviderInstance(name, place, declared.version if declared else "", checked, pending)

    def _evaluate(
        self, declared: ConfiguredProvider | None, config: Mapping[str, Any], users: list[Entry]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give the values with what they refer to, ``UNKNOWN`` where only a state tells, and those that are pending."""
        values: dict[str, Any] = {}
        pending: dict[str, Any] = {}
        for key, value in config.items():
            try:
                targets = self._evaluator.referred(value)
                values[key] = self._evaluator.check(value)
            except ValueError as error:
                self._complain(declared, users, ("config", key), str(error))
                values[key] = UNKNOWN
                continue
            if is_unknown(values[key]):
                pending[key], values[key] = value, UNKNOWN
            for entry in users if targets else ():
                self._evaluator.references[entry] = [*self._evaluator.references.get(entry, ()), *targets]
        return values, pending

    def _complain(
        self, declared: ConfiguredProvider | None, users: list[Entry], where: str | tuple[str, str], message: str
    ) -> None:
        """Complain of a provider at its place; of one that is not declared, at the first resource that needs it."""
        if declared is not None:
            self._diagnostics.of_provider(declared, where, message)
        else:
            name = split_instance(users[0].instance)[0]
            advice = f"configure it under providers: with {name}: {{config: {{...}}}}"
            self._diagnostics.of(users[0], None, f"the configuration of its provider: {message}", "provider", advice)


def validate_config(tools: ProviderFunctions, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """Give a configuration with defaults, held to its data types and to what the provider says; or what is wrong.

    The provider sees what is known and may add what is not given: a default that only it can tell.
    """
    definition = tools.definition.config
    config = canonicalize.fill_defaults(definition, dict(given))
    problems = canonicalize.check_values(definition, config)
    if problems or tools.check_config is None:
        return config, problems or _missing(tools, config)
    try:
        answer = tools.check_config(
            copy_resource({key: value for key, value in config.items() if not is_unknown(value)})
        )
    except Exception as error:  # noqa: BLE001 - a foreign method may fail in any way
        return config, [Problem(None, reason(error))]
    if not hasattr(answer, "keys") or not answer.keys() <= definition.attributes.keys():
        return config, [
            Problem(None, "check_config must return the configuration, a mapping of what the type declares")
        ]
    unknown = {key: value for key, value in config.items() if is_unknown(value)}
    config = canonicalize.fill_defaults(definition, {**answer, **unknown})
    return config, canonicalize.check_values(definition, config) or _missing(tools, config)


def _missing(tools: ProviderFunctions, config: Mapping[str, Any]) -> list[Problem]:
    absent = [name for name in tools.definition.config.mandatory if name not in config]
    return [Problem(None, f"'{name}' is missing; it is mandatory") for name in absent]
