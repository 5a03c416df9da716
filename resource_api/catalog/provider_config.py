"""Build the configured providers of a manifest and the calls of their functions, and check both.

``values: {address: {invoke: free_address, with: {network: 10.0.0.0/24}}}``. A configuration value that only the state
of a resource yields stays pending; the plan and the transaction decide when a function is called. Pure: methods of
providers come in as plain functions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import canonicalize
from resource_api.catalog.expression_scope import InputError
from resource_api.model.datatypes import referred_values
from resource_api.model.declaration import ProviderInstance
from resource_api.model.type_definition import FunctionCall
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, Problem, ProviderError, hint, reason, suggestion
from resource_api.model.values.reference import capitalize_type, instance_name, split_instance, uncapitalize_type
from resource_api.model.values.values import (
    SCALAR_TYPES,
    UNKNOWN,
    Sensitive,
    copy_resource,
    is_secret,
    is_unknown,
    leaves,
    reveal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.entry_values import Evaluator
    from resource_api.catalog.resource_table import Definitions, ResourceTable
    from resource_api.model.attribute import Attribute
    from resource_api.model.declaration import ConfiguredProvider, FilePosition, Input, Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions

    #: Calls a function with inputs; the third argument: whether its answer is a secret in any case.
    Ask = Callable[[FunctionCall, Mapping[str, Any], bool], Any]


def build_instances(
    table: ResourceTable,
    evaluator: Evaluator,
    diagnostics: Diagnostics,
    calls: Mapping[str, FunctionCall | None],
    purges: Mapping[str, tuple[FilePosition, str]],
) -> dict[str, ProviderInstance]:
    """Return the provider instances (a provider with one configuration) that a run needs, by name; report invalid ones.

    A run needs the instances that the manifest configures, and those that its resources, the functions in ``calls``,
    the rules in ``purges`` (instance → position and name of the rule) or the command (``manifest.selected``) use. An
    instance's resources are ordered after the references in its configuration.
    """
    users: dict[str, list[Entry]] = {}
    manifest = diagnostics.manifest
    # A program with a family of types, such as a Terraform provider, is configured with each of them that is in use.
    families = {name for name, declared in manifest.providers.items() if declared.is_program}
    declared_for = {
        declared.instance: declared for declared in manifest.providers.values() if declared.type not in families
    }
    for name, definition in table.instances().items():
        if definition.config.attributes or name in declared_for:
            users[name] = [entry for entry in table.entries if entry.instance == name]
    callers = dict(purges)
    for name, call in calls.items():
        if call is not None:
            callers[call.instance] = diagnostics.manifest.place(("values", name)), f"value '{name}'"
    if manifest.selected:
        callers[manifest.selected] = manifest.place(("providers",)), f"provider '{manifest.selected}'"
    called = [name for name in callers if table.provider(name).definition.config.attributes]
    builder = _InstanceBuilder(table, evaluator, diagnostics, callers)
    instances = {
        name: builder.build(name, declared_for.get(name) or _configured(name, manifest), users.get(name, []))
        for name in dict.fromkeys([*declared_for, *users, *called])
    }
    return {name: instance for name, instance in instances.items() if instance is not None}


def select_instance(name: object, type_name: str, manifest: Manifest) -> str:
    """Return the name of the provider instance that ``provider: name`` selects for resources of a type.

    An empty ``type_name``, of a component, accepts a provider of any type. Raise ``ValueError`` with a message for
    users.
    """
    declared = manifest.providers.get(name) if type(name) is str else None
    if declared is None:
        machine = suggestion(str(name), (), "configured")
        msg = f"unknown provider '{name}'; " + (machine or f"name it under providers:{hint(name, manifest.providers)}")
        raise ValueError(msg)
    # One program serves many types: ``google`` serves ``google_compute_disk``.
    if type_name and family_of(type_name, manifest) == declared.type:
        return instance_name(type_name, None if declared.name == declared.type else declared.name)
    if type_name and type_name != declared.type:
        msg = f"provider '{name}' is for {capitalize_type(declared.type)}, not for {capitalize_type(type_name)}"
        raise ValueError(msg)
    return declared.instance


def family_of(type_name: str, manifest: Manifest) -> str:
    """Return the name of the entry of ``providers`` whose program serves a type, or "".

    Such a program, as a Terraform provider, serves a family of types: ``google`` serves ``google_compute_disk``.
    """
    name, separator, _ = type_name.partition("_")
    declared = manifest.providers.get(name)
    return name if separator and declared is not None and declared.is_program else ""


def _configured(instance: str, manifest: Manifest) -> ConfiguredProvider | None:
    """Return the entry of ``providers`` with the configuration of an instance or of its family, or None.

    ``vm_host@lab`` is configured by ``lab``, ``google_compute_disk`` by ``google``, and ``vm_host`` by ``vm_host``.
    An entry with that name, but for another type, does not configure the instance.
    """
    type_name, name = split_instance(instance)
    declared = manifest.providers.get(name or family_of(type_name, manifest) or type_name)
    if declared is None or declared.instance == instance or family_of(type_name, manifest) == declared.type:
        return declared
    return None


def unknown_implementation(stated: str | None, provider: ProviderFunctions) -> str:
    """Return the error that a type has no provider ``stated`` under ``implementation``, or ""."""
    if not stated or stated in provider.implementations:
        return ""
    names = ", ".join(provider.implementations)
    return f"unknown implementation '{stated}' of {capitalize_type(provider.definition.name)}; there are: {names}"


def default_config(provider: ProviderFunctions, values: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the configuration of a type's default provider, for the command ``resource TYPE``, which has no manifest.

    Raise ``ProviderError``, with the ways to configure the provider, if ``values`` are invalid.
    """
    config, problems = validate_config(provider, values)
    if problems:
        messages = "; ".join(problem.message for problem in problems)
        msg = (
            f"{provider.definition.name}: the configuration of its provider: {messages};"
            " a manifest or providers.yaml can set it under providers:, --provider NAME selects that; or use --config"
        )
        raise ProviderError(msg)
    return config


def reduce_to_providers(manifest: Manifest) -> Manifest:
    """Return a manifest with only the inputs and values that its providers' configurations use, directly or not.

    A command that uses the providers but no resource then needs no other input.
    """
    inputs: dict[str, Input] = {}
    values: dict[str, object] = {}
    waiting: list[object] = [declared.config for declared in manifest.providers.values()]
    while waiting:
        for path in expression.find_paths(waiting.pop()):
            name = path.keys[0]
            if path.root == "inputs" and name in manifest.inputs:
                inputs[name] = manifest.inputs[name]
            elif path.root == "values" and name in manifest.values and name not in values:
                values[name] = manifest.values[name]
                waiting.append(values[name])
    return manifest._replace(inputs=inputs, values=values)


def reduce_to_provider(manifest: Manifest, name: str, types_with_function: Callable[[str], Sequence[str]]) -> Manifest:
    """Return a manifest without resources, with one provider and those whose functions its configuration calls.

    A command that reads one resource by this provider then needs only the inputs that these configurations use.
    """
    needed = [name]
    for provider in needed:  # which grows
        reduced = reduce_to_providers(manifest._replace(providers={provider: manifest.providers[provider]}))
        for called in _called_providers(reduced.values.values(), types_with_function):
            if called in manifest.providers and called not in needed:
                needed.append(called)
    reduced = reduce_to_providers(
        manifest._replace(providers={provider: manifest.providers[provider] for provider in needed})
    )
    return reduced._replace(resources=(), outputs={}, moved=(), removed=(), defaults={})


def _called_providers(values: Iterable[Any], types_with_function: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Yield the names of the providers whose functions the named ``values`` call.

    A call without ``provider`` is answered by the default provider, which has the name of its type.
    """
    for body in values:
        function = body.get("invoke") if type(body) is dict else None
        if type(function) is str:
            type_name, _, name = function.rpartition(".")  # Type.function, or the function alone
            types = [uncapitalize_type(type_name)] if type_name else types_with_function(name)
            yield from types if body.get("provider") is None else [str(body["provider"])]


class _InstanceBuilder:
    """Builds the provider instances of a manifest, and reports invalid configurations."""

    def __init__(
        self,
        table: ResourceTable,
        evaluator: Evaluator,
        diagnostics: Diagnostics,
        callers: Mapping[str, tuple[FilePosition, str]],
    ) -> None:
        """Prepare to build the instances for entries of ``table`` and ``callers``; errors go to ``diagnostics``."""
        self._table = table
        self._evaluator = evaluator
        self._diagnostics = diagnostics
        #: Instance → position and name of a named value that calls one of its functions, of a rule of ``purge``, or of
        #: the selected provider.
        self._callers = callers

    def build(self, name: str, declared: ConfiguredProvider | None, users: list[Entry]) -> ProviderInstance | None:
        """Return the provider instance ``name``, with its configuration evaluated and checked; None for a broken type.

        ``declared``: its entry in ``providers``. ``users``: its resources. An instance with reported errors is returned
        too: they end the compilation before its use.
        """
        report = partial(self._report, name, declared, users)
        try:
            provider = self._table.provider(name)
        except DefinitionError as error:
            report(("type",), str(error))
            return None
        config = declared.config if declared else {}
        attributes = provider.definition.config.attributes
        for key in config.keys() - attributes.keys():
            takes_none = f"type '{provider.definition.name}' takes no configuration"
            unknown = f"unknown configuration '{key}'{hint(key, attributes)}"
            report(("config", key), unknown if attributes else takes_none)
        version, stated = (declared.type_version, declared.implementation) if declared else ("", "")
        if wrong := unknown_implementation(stated, provider):
            report(("implementation",), wrong)
        arguments = {key: config[key] for key in attributes if key in config}
        values, pending, ephemeral = self._evaluate(arguments, attributes, users, report)
        checked, problems = validate_config(provider, values, written=arguments)
        for problem in problems:
            report(("config", problem.attribute) if problem.attribute else ("config",), problem.message)
        position = self._position(name, declared, users)
        return ProviderInstance(
            name, position, version, config=checked, pending=pending, implementation=stated, ephemeral=ephemeral
        )

    def _evaluate(
        self,
        config: Mapping[str, object],
        attributes: Mapping[str, Attribute],
        users: list[Entry],
        report: Callable[[tuple[str, ...], str], None],
    ) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """Return a configuration's values, its pending ones as written, and the keys of those from ephemeral inputs.

        A pending value, which only a resource yields, is ``UNKNOWN`` among the values; invalid ones go to ``report``
        with their key path. ``users``, the instance's resources, are ordered after the references in the configuration.
        """
        values: dict[str, object] = {}
        pending: dict[str, object] = {}
        ephemeral: list[str] = []
        for key, value in config.items():
            try:
                targets = self._evaluator.prerequisites(value)
                values[key] = referred_values.with_texts(
                    attributes[key].datatype, value, self._evaluator.evaluate(value)
                )
                ephemeral += [key] if self._evaluator.scope.ephemeral_input(value) else []
            except ValueError as error:
                report(("config", key), str(error))
                values[key] = UNKNOWN
                continue
            if is_unknown(values[key]):
                pending[key], values[key] = value, UNKNOWN
                for message in self._evaluator.misfits(key, attributes[key], value):
                    report(("config", key), message)
            for entry in users if targets else ():
                self._evaluator.references[entry] = [*self._evaluator.references.get(entry, ()), *targets]
        return values, pending, ephemeral

    def _report(
        self, name: str, declared: ConfiguredProvider | None, users: list[Entry], path: tuple[str, ...], message: str
    ) -> None:
        """Report an error at ``path`` in an instance's entry under ``providers``.

        An instance that is used without an entry has the error at its first resource or caller, with the advice to
        configure it.
        """
        text = f"the configuration of its provider: {message}"
        advice = f"configure it under providers: with {split_instance(name)[0]}: {{config: {{...}}}}"
        if declared is None and users:
            self._diagnostics.resource_error(users[0], None, text, "provider", advice)
            return
        position = self._position(name, declared, users, path)
        if declared is not None:
            self._diagnostics.error_at(position, f"provider '{declared.name}': {message}", "provider")
        else:
            _, caller = self._callers[name]
            self._diagnostics.error_at(position, f"{caller}: {text}; {advice}", "provider")

    def _position(
        self, name: str, declared: ConfiguredProvider | None, users: list[Entry], path: tuple[str, ...] = ()
    ) -> FilePosition:
        """Return the position of ``path`` in an instance's entry under ``providers``, for errors.

        Without an entry it is the position of the instance's first resource or caller.
        """
        if declared is not None:
            return declared.origin.place(*path)
        if users:
            return self._diagnostics.manifest.place(users[0].declaration)
        position, _ = self._callers[name]
        return position


def validate_config(
    provider: ProviderFunctions,
    values: Mapping[str, object],
    former: Mapping[str, object] | None = None,
    *,
    written: Mapping[str, object] | None = None,
) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return a provider's configuration with defaults, and its problems by data types and ``check_config``.

    The provider's ``check_config`` receives the known values and may add others. It also receives ``former``, the
    recorded configuration if that differs, and may keep values of it. ``written``: ``values`` with their references,
    for messages.
    """
    definition = provider.definition.config
    config = canonicalize.fill_defaults(definition, dict(values))
    problems = canonicalize.check_values(definition, config, written)
    if problems or provider.check_config is None:
        return config, problems or _missing(provider, config)
    try:
        answer = provider.check_config(
            copy_resource({key: value for key, value in config.items() if not is_unknown(value)}),
            None if former is None else copy_resource(former),
        )
    except Exception as error:  # noqa: BLE001 - an author's method may raise anything
        message = reason(error)
        # A worker sends text. A KeyError may be about a mandatory value that the method looked up.
        missing = _missing(provider, config) if message.startswith("KeyError: ") else []
        return config, missing or [Problem(None, message)]
    if not hasattr(answer, "keys") or not answer.keys() <= definition.attributes.keys():
        return config, [
            Problem(None, "check_config must return the configuration, a mapping of what the type declares")
        ]
    unknown = {key: value for key, value in config.items() if is_unknown(value)}
    config = canonicalize.fill_defaults(definition, {**answer, **unknown})
    return config, canonicalize.check_values(definition, config) or _missing(provider, config)


def _missing(provider: ProviderFunctions, config: Mapping[str, object]) -> list[Problem]:
    """Return a problem for each mandatory value that a configuration lacks."""
    absent = [name for name in provider.definition.config.mandatory if name not in config]
    return [Problem(None, f"'{name}' is missing; it is mandatory") for name in absent]


_KEYS: Final = ("invoke", "with", "provider")


def find_calls(diagnostics: Diagnostics, definitions: Definitions) -> dict[str, FunctionCall | None]:
    """Return the named values that are calls, ``{invoke: FUNCTION, with: INPUTS}``; None for an invalid one."""
    calls: dict[str, FunctionCall | None] = {}
    for name, body in diagnostics.manifest.values.items():
        if type(body) is dict and "invoke" in body:
            try:
                call = calls[name] = _call(body, diagnostics, definitions)
            except (ValueError, DefinitionError) as error:
                diagnostics.value_error(name, (), str(error))
                calls[name] = None
                continue
            for path, message in _input_problems(call):
                diagnostics.value_error(name, path, message)
                calls[name] = None
    return calls


def _call(body: Mapping[str, object], diagnostics: Diagnostics, definitions: Definitions) -> FunctionCall:
    """Return the call in a named value, with its inputs as written. Raise ``ValueError`` or ``DefinitionError``."""
    if unknown := [key for key in body if key not in _KEYS]:
        raise ValueError(f"unknown key '{unknown[0]}'{hint(unknown[0], _KEYS)}; a call has {', '.join(_KEYS)}")
    function, arguments, provider = body["invoke"], body.get("with") or {}, body.get("provider")
    if type(function) is not str or type(arguments) is not dict:
        raise ValueError("write {invoke: FUNCTION, with: {INPUT: VALUE}}")
    type_name, _, name = function.rpartition(".")
    type_name = uncapitalize_type(type_name)
    if provider is not None:
        instance = select_instance(provider, type_name, diagnostics.manifest)
    else:
        instance = type_name or _type_with_function(name, definitions)
    functions = definitions.provider(instance).definition.functions
    if name not in functions:
        raise ValueError(f"type '{split_instance(instance)[0]}' has no function '{name}'{hint(name, functions)}")
    return FunctionCall(instance, name, functions[name], arguments)


def _type_with_function(name: str, definitions: Definitions) -> str:
    """Return the only type on the module path with a function ``name``. Raise ``ValueError`` for none or more."""
    types = definitions.functions(name)
    if len(types) == 1:
        return types[0]
    if types:
        names = ", ".join(f"{type_name}.{name}" for type_name in types)
        raise ValueError(f"several types have a function '{name}'; write one of {names}")
    raise ValueError(f"no type on the module path has a function '{name}'; write TYPE.FUNCTION")


def _input_problems(call: FunctionCall) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the problems of a call's inputs before its evaluation, each as the key path in the call and a message.

    They are unknown, missing and wrong literal inputs; ``invoke`` checks the values of expressions.
    """
    inputs = call.function.inputs
    for name in call.arguments:
        if name not in inputs.attributes:
            yield ("with", name), f"function '{call}' has no input '{name}'{hint(name, inputs.attributes)}"
    for name in inputs.mandatory:
        if call.arguments.get(name) is None:
            yield ("with",), f"function '{call}' needs the input '{name}'"
    names = inputs.attributes.keys() & call.arguments.keys()
    literal = {name: call.arguments[name] for name in names if expression.is_literal(call.arguments[name])}
    for problem in _check(call, literal)[1]:
        yield ("with", problem.attribute or ""), problem.message


def _check(call: FunctionCall, arguments: Mapping[str, object]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the inputs of a function with its defaults filled in, and the problems that their data types report."""
    inputs = call.function.inputs
    filled = canonicalize.fill_defaults(inputs, dict(arguments))
    return filled, canonicalize.check_values(inputs, filled, call.arguments)


def _with_texts(call: FunctionCall, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of a function, with numbers from references as text for inputs that take only text.

    So the number 8080 of ``${inputs.port}`` is accepted like the text "8080".
    """
    attributes = call.function.inputs.attributes
    return {
        name: referred_values.with_texts(attributes[name].datatype, call.arguments[name], value)
        if name in attributes
        else value
        for name, value in arguments.items()
    }


def invoke(call: FunctionCall, arguments: Mapping[str, object], ask: Ask) -> Any:
    """Return a function's result for known inputs, by ``ask``; all of it is a secret if an input has one.

    A function that keeps secrets, such as one that sorts a list, receives the secrets in collections wrapped: then only
    these are secret in its result. Raise ``InputError`` for invalid inputs, and all exceptions of ``ask``.
    """
    inputs, problems = _check(call, _with_texts(call, arguments))
    if problems:
        raise InputError(f"{call}: {'; '.join(problem.message for problem in problems)}", problems[0].attribute)
    if call.function.keeps_secrets and all(map(_has_secret_parts_only, arguments.values())):
        return ask(call, inputs, False)  # noqa: FBT003 - whether all of it is a secret
    plain = {name: value if name in call.function.inputs.sensitive else reveal(value) for name, value in inputs.items()}
    return ask(call, plain, any(map(is_secret, arguments.values())))


def _has_secret_parts_only(value: object) -> bool:
    """Return whether the secrets in an input are only scalars in collections: a function can pass these on unchanged.

    A secret as a whole, or a secret collection, has to be opened for the function, so its result becomes a secret.
    """
    if isinstance(value, Sensitive):
        return False
    secrets = (leaf.reveal() for _, leaf in leaves(value) if isinstance(leaf, Sensitive))
    return all(type(secret) in SCALAR_TYPES for secret in secrets)
