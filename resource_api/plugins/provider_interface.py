"""Check that a provider class has the methods that its type requires, before any of them is called.

The obligations themselves are on ``BaseProvider``. Nothing of the provider is executed here.
"""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.type_definition import FEATURE_METHODS
from resource_api.provider.base import CONFIG_METHODS, BaseProvider, SimpleProvider, takes, variadic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import TypeDefinition

#: The classes of this package that a provider inherits from: their methods are not the provider's own.
_BASES: Final = (SimpleProvider, BaseProvider, object)
#: The methods that any provider may have.
_OPTIONAL: Final = (*FEATURE_METHODS.values(), *CONFIG_METHODS, "suitable", "cancel", "close")
#: Method → the arguments that it is called with, beside ``self``; those of ``get`` and ``set`` depend on features.
_ARGUMENTS: Final[Mapping[str, str]] = {
    "canonicalize": "context, resources",
    "insync": "context, name, attribute, is_, should",
    "refresh": "context, names",
    "due": "context, name, should",
    "validate": "context, should",
    "plan": "context, name, is_, should",
    "upgrade": "version, values",
    "preflight": "context, changes",
    "side_effects": "context, changes",
    "import_": "context, name, id",
    "configure": "context, config",
    "check_config": "context, config",
    "diff_config": "context, is_, should",
    "set": "context, changes",
    "cancel": "",
    "close": "",
}
#: The same of the methods that ``set`` of ``SimpleProvider`` calls.
_SIMPLE: Final = {"create": "context, name, should", "update": "context, name, should", "delete": "context, name"}
#: The methods whose result is ignored: one with a ``yield`` would do nothing when it is called.
_ACTIONS: Final = {"set", "refresh", "configure", *_SIMPLE}
#: Our methods → their names in Puppet's older providers.
_OLDER_NAMES: Final = {"delete": "destroy", "get": "instances", "update": "flush"}
#: The parameter of ``set`` that the feature ``noop_handler`` adds.
_NOOP: Final = "noop"


def interface_problems(definition: TypeDefinition, provider: type[object]) -> Sequence[str]:
    """Return the mismatches between a type's declaration and its provider's methods, as lines for the author.

    A method may be missing, misspelt, not declared as a feature, or have other parameters than it is called with: all
    of this would otherwise show in the middle of a run.
    """
    subject = f"provider of '{definition.name}'"
    problems = [f"{subject} {text}" for text in _method_problems(definition, provider)]
    problems += [f"{subject}: {text}" for text in _suitability_problems(provider)]
    if problems:
        return problems  # parameters are compared once all methods are there
    texts = list(_signature_problems(definition.features, provider)) if definition.attributes else []
    return [f"{subject}: {text}" for text in texts or _call_problems(definition, provider)]


def _method_problems(definition: TypeDefinition, provider: type[object]) -> Iterator[str]:
    """Yield the problem of each method that is missing, misspelt, or not declared as a feature or by ``config``.

    A method of an undeclared feature would never be called. A misspelt one is reported once, and not as missing, too.
    """
    required = (*(("get", "set") if definition.attributes else ()), *definition.functions)
    misspelt = _misspelt_methods(provider, required)
    for right, method in misspelt.items():
        yield (
            f"has the method '{method}', which nothing calls; did you mean '{right}'?"
            " (the name of a helper begins with '_')"
        )
    for method in required:
        if method not in misspelt and not _has(provider, method):
            yield f"has no method '{method}'{_advice(provider, method)}"
    for feature, method in FEATURE_METHODS.items():
        is_declared, has = feature in definition.features, _has(provider, method)
        if is_declared and not has and method not in misspelt:
            yield f"has no method '{method}', which feature '{feature}' requires"
        elif has and not is_declared:
            yield (
                f"has the method '{method}' but its type does not declare the feature '{feature}'; declare it, or call"
                f" the helper '_{method}'"
            )
    if "configure" not in misspelt:
        yield from _config_problems(definition, provider)


def _advice(provider: type[object], method: str) -> str:
    """Return the remedy for a missing ``set``, after a semicolon, or "" for another method.

    A provider with ``create``, ``update`` or ``delete`` needs no ``set`` of its own, only the base class.
    """
    if method == "set" and any(_has(provider, name) for name in _SIMPLE):
        return "; inherit it from SimpleProvider, and it calls create, update and delete"
    return ""


def _misspelt_methods(provider: type[object], required: Collection[str]) -> Mapping[str, str]:
    """Return missing method → the provider's public method that was meant to be it, for the error.

    Such a method differs in one letter, or has the name in Puppet's older providers, as ``destroy`` for ``delete``.
    ``required``: the methods that this type needs, beside the optional ones.
    """
    expected = {*_OPTIONAL, *required, *(_SIMPLE if issubclass(provider, SimpleProvider) else ())}
    members: dict[str, object] = {}
    for kind in reversed(provider.__mro__):
        if kind not in _BASES:
            members.update(vars(kind))
    uncalled = _uncalled_methods(members, expected)
    if not uncalled:
        return {}
    from difflib import get_close_matches  # nearly no provider has a method that is not known

    misspelt: dict[str, str] = {}
    for method in sorted(expected - members.keys()):
        one_letter_off = (len(method) - 1) / len(method)  # the likeness of two names that differ in one letter
        if (older := _OLDER_NAMES.get(method)) in uncalled:
            misspelt[method] = older
        elif similar := get_close_matches(method, uncalled, 1, one_letter_off):
            misspelt[method] = similar[0]
    return misspelt


def _uncalled_methods(members: Mapping[str, object], expected: Collection[str]) -> list[str]:
    """Return the public methods among a provider's ``members`` that are none of the ``expected`` ones.

    A method that the provider itself calls is a helper, and left out.
    """
    functions = {
        name: value for name, value in members.items() if isinstance(value, (FunctionType, staticmethod, classmethod))
    }
    unexpected = [name for name in functions if name[0] != "_" and name not in expected]
    if not unexpected:
        return []
    called: set[str] = set()
    for value in functions.values():
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None:
            called.update(_names_in(code))
    return [name for name in unexpected if name not in called]


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of attributes and globals in a function and the functions within it.

    The methods that it calls are among them, by which a provider's helpers are recognized.
    """
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _suitability_problems(provider: type[object]) -> Iterator[str]:
    """Yield the problems of ``priority`` and ``suitable``, by which the provider of a type is chosen."""
    if type(getattr(provider, "priority", 0)) is not int:
        yield "priority must be an integer"
    if hasattr(provider, "suitable") and not callable(provider.suitable):
        yield "suitable must be a method"


def _has(provider: type[object], method: str) -> bool:
    """Return whether a provider defines a method: ``get`` and ``set`` of the base class do not count."""
    value = getattr(provider, method, None)
    return callable(value) and value not in (BaseProvider.get, BaseProvider.set)


def _config_problems(definition: TypeDefinition, provider: type[object]) -> Iterator[str]:
    """Yield the mismatches between a type's ``config`` and the provider's methods for it, such as ``configure``."""
    if definition.config.attributes:
        if not _has(provider, "configure"):
            yield "has no method 'configure', which 'config' requires"
        return
    for method in CONFIG_METHODS:
        if _has(provider, method):
            yield (
                f"has the method '{method}' but its type declares no 'config'; declare it, or call the helper"
                f" '_{method}'"
            )


def _signature_problems(features: Collection[str], provider: type[Any]) -> Iterator[str]:
    """Yield the problems of ``get`` and ``set``, whose parameters depend on the features of the type."""
    yield from _get_problems(features, provider.get)
    if "simple_get_filter" in features and not takes(provider.get, "names", 2):
        yield "get takes no 'names', which feature 'simple_get_filter' requires"
    if "noop_handler" in features and not takes(provider.set, _NOOP):
        yield "set takes no 'noop', which feature 'noop_handler' requires"
    if "noop_handler" not in features and takes(provider.set, _NOOP) and not variadic(provider.set):
        yield "set takes 'noop' but its type does not declare the feature 'noop_handler'"


def _get_problems(features: Collection[str], get: object) -> Iterator[str]:
    """Yield the problems of the parameter ``names`` of ``get``.

    It is passed only with the feature ``simple_get_filter``, and None means all resources, so None must be its default.
    """
    if not inspect.isfunction(get):
        return
    parameters = [parameter for parameter in _parameters(get)[2:] if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if required and "simple_get_filter" not in features:
        yield (
            "get is called with 'names' only for a type with the feature 'simple_get_filter';"
            f" write '{required[0]}=None'"
        )
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if default is not None and not default:  # such as names=()
            yield f"get is called with None for all resources, not with {default!r}; write '{name}=None'"


def _parameters(function: FunctionType) -> list[inspect.Parameter]:
    """Return the parameters of a function, with ``self``; of a decorated one, those of the wrapper that is called."""
    return list(inspect.signature(function, follow_wrapped=False).parameters.values())


def _call_problems(definition: TypeDefinition, provider: type[object]) -> Iterator[str]:
    """Yield the problem of each method that cannot be called with its arguments, or does not run when it is called.

    ``create``, ``update`` and ``delete`` are checked only if ``SimpleProvider.set`` calls them.
    """
    functions = {name: ", ".join(["context", *call.inputs.attributes]) for name, call in definition.functions.items()}
    simple = _SIMPLE if getattr(provider, "set", None) is SimpleProvider.set else {}
    get = "context, names" if "simple_get_filter" in definition.features else "context"
    methods = {"get": get, **_ARGUMENTS, **simple, **functions}
    yield from _plain_problems(provider, methods)
    yield from _argument_problems(provider, methods)


def _plain_problems(provider: type[object], methods: Iterable[str]) -> Iterator[str]:
    """Yield the problem of each method whose code does not run when it is called: an async one, or a generator."""
    for method in methods:
        function = getattr(provider, method, None)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            yield f"{method} is async, and nothing awaits it; write a plain 'def'"
        elif method in _ACTIONS and inspect.isgeneratorfunction(function):
            yield f"{method} has a 'yield', so that it would do nothing"


def _argument_problems(provider: type[object], methods: Mapping[str, str]) -> Iterator[str]:
    """Yield the problem of each method that cannot take its ``methods`` → arguments, such as ``context, name``.

    Only their number is compared, as arguments are passed by position. Decorated methods and those with ``*args`` or
    ``**kwargs`` are not checked: their parameters are unknown.
    """
    for method, arguments in methods.items():
        function = inspect.getattr_static(provider, method, None)
        if not inspect.isfunction(function):
            continue
        parameters = _parameters(function)
        if any(parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} for parameter in parameters):
            continue
        least, most = sum(map(_is_required, parameters[1:])), len(parameters) - 1
        if not least <= len(arguments.split()) <= most:  # "context, name" are two
            yield (
                f"{method} is called with {arguments or 'no arguments'}, but takes {least}"
                f"{'' if least == most else f' to {most}'} argument{'' if most == 1 else 's'} beside self"
            )


def _is_required(parameter: inspect.Parameter) -> bool:
    """Return whether a call must pass a positional parameter; ``noop`` of ``set`` is checked with its feature."""
    has_default = parameter.default is not parameter.empty
    return not has_default and parameter.kind is not parameter.KEYWORD_ONLY and parameter.name != _NOOP
