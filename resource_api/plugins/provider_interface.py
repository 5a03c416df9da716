"""Checks that a provider class has the methods that its type requires, before any of them is called.

The obligations themselves are on ``BaseProvider``. Nothing of the provider is executed here.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from resource_api.provider.base import CONFIG_METHODS, FEATURE_METHODS, BaseProvider, SimpleProvider, takes, variadic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import TypeDefinition

#: The classes of this package that a provider inherits from: their methods are not the provider's own.
_BASES: Final = (SimpleProvider, BaseProvider, object)
#: The methods that any provider may have.
_OPTIONAL: Final = (*FEATURE_METHODS.values(), *CONFIG_METHODS, "suitable", "cancel", "close")


#: What each method is called with, beside ``self``; those of ``get`` and ``set`` depend on features.
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
    "configure": "context, config",
    "check_config": "context, config",
    "diff_config": "context, is_, should",
    "set": "context, changes",
    "cancel": "",
    "close": "",
}
#: The same of the methods that ``set`` of ``SimpleProvider`` calls.
_SIMPLE: Final = {
    "create": "context, name, should",
    "update": "context, name, should",
    "delete": "context, name",
}
#: The methods whose result nobody looks at: one with a ``yield`` would do nothing when it is called.
_ACTIONS: Final = {"set", "refresh", "configure", *_SIMPLE}
#: Methods of providers of Puppet's older kind → ours.
_ELSEWHERE: Final = {"destroy": "delete", "instances": "get", "flush": "update"}
#: Flags of the code of a function: ``async def``, also with a ``yield``; and a ``yield`` alone.
_ASYNC: Final = 0x280
_GENERATOR: Final = 0x20
#: The parameter of ``set`` that the feature ``noop_handler`` adds.
_NOOP: Final = "noop"


def interface_problems(definition: TypeDefinition, provider: type[Any]) -> Sequence[str]:
    """Return what does not fit between a type's declaration and its provider's methods: missing and undeclared ones."""
    type_name, features = definition.name, definition.features
    needed = (*(("get", "set") if definition.attributes else ()), *definition.functions)
    misspelt = _misspelt_methods(definition, provider)
    problems = [
        f"provider of '{type_name}' has the method '{method}', which nothing calls; did you mean '{right}'?"
        " (the name of a helper begins with '_')"
        for right, method in misspelt.items()
    ]
    missing = [method for method in needed if method not in misspelt and not _has(provider, method)]
    problems += [f"provider of '{type_name}' has no method '{method}'{_advice(provider, method)}" for method in missing]
    for feature, method in FEATURE_METHODS.items():
        has = callable(getattr(provider, method, None))
        if feature in features and not has and method not in misspelt:
            problems.append(f"provider of '{type_name}' has no method '{method}', which feature '{feature}' requires")
        elif has and feature not in features:
            problems.append(
                f"provider of '{type_name}' has the method '{method}' but its type does not declare the feature"
                f" '{feature}'; declare it, or call the helper '_{method}'"
            )
    problems += [] if "configure" in misspelt else _config_problems(definition, provider)
    problems += _suitability_problems(type_name, provider)
    if not problems and definition.attributes:
        problems += _signature_problems(type_name, features, provider)
    arguments = {name: ", ".join(["context", *each.inputs.attributes]) for name, each in definition.functions.items()}
    simple = _SIMPLE if getattr(provider, "set", None) is SimpleProvider.set else {}
    get = "context, names" if "simple_get_filter" in features else "context"
    methods = {"get": get, **_ARGUMENTS, **simple, **arguments}
    return problems or [
        *_plain_problems(type_name, provider, methods),
        *_argument_problems(type_name, provider, methods),
    ]


def _advice(provider: type[Any], method: str) -> str:
    """Return what to do about a missing method, after a semicolon; empty if there is nothing but to write it."""
    if method == "set" and any(callable(getattr(provider, each, None)) for each in _SIMPLE):
        return "; inherit it from SimpleProvider, and it calls create, update and delete"
    return ""


def _misspelt_methods(definition: TypeDefinition, provider: type[Any]) -> Mapping[str, str]:
    """Return the provider's own public methods that stand for a method that it lacks, by the latter.

    They are one letter from it, or have the name that it has in Puppet's older providers.

    A method that the provider itself uses is a helper, and no mistake.
    """
    known = (*_OPTIONAL, *(("get", "set") if definition.attributes else ()), *definition.functions)
    if issubclass(provider, SimpleProvider):
        known = (*known, "create", "update", "delete")
    own = {
        name: value for each in reversed(provider.__mro__) if each not in _BASES for name, value in vars(each).items()
    }
    functions = {name: value for name, value in own.items() if isinstance(value, _FUNCTIONS)}
    unknown = [name for name in functions if name[0] != "_" and name not in known]
    found = {
        right: name
        for name in unknown
        for right in known
        if right not in own and (_ELSEWHERE.get(name) == right or _is_one_letter_off(right, name))
    }
    if not found:
        return {}
    codes = [getattr(getattr(value, "__func__", value), "__code__", None) for value in functions.values()]
    used = {name for code in codes if code is not None for name in _used_names(code)}
    return {right: name for right, name in found.items() if name not in used}


_FUNCTIONS: Final = (FunctionType, staticmethod, classmethod)


def _used_names(code: CodeType) -> Iterator[str]:
    """Yield the names of attributes and globals in a function and the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used_names(constant)


def _is_one_letter_off(word: str, other: str) -> bool:
    """Whether two different words are one letter apart: added, dropped, changed, or swapped with its neighbour."""
    if abs(len(word) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    left, right = word[start:], other[start:]
    return left[1:] in (right, right[1:]) or left == right[1:] or (left[:2] == right[1::-1] and left[2:] == right[2:])


def by_preference(providers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the providers of a type by name, those of the highest ``priority`` first; equals keep their order."""
    return dict(sorted(providers.items(), key=lambda each: -getattr(each[1], "priority", 0)))


def _suitability_problems(type_name: str, provider: type[Any]) -> list[str]:
    """Check what decides between several providers of a type."""
    problems = []
    if type(getattr(provider, "priority", 0)) is not int:
        problems.append(f"provider of '{type_name}': priority must be an integer")
    if not callable(getattr(provider, "suitable", _suitability_problems)):
        problems.append(f"provider of '{type_name}': suitable must be a method")
    return problems


def _has(provider: type[Any], method: str) -> bool:
    """Whether a provider has a method of its own: ``get`` and ``set`` of the base class only state the obligations."""
    found = getattr(provider, method, None)
    return callable(found) and found not in (BaseProvider.get, BaseProvider.set)


def _config_problems(definition: TypeDefinition, provider: type[Any]) -> list[str]:
    """Check the methods for configuration against ``config`` of the type."""
    if definition.config.attributes:
        has = callable(getattr(provider, "configure", None))
        return [] if has else [f"provider of '{definition.name}' has no method 'configure', which 'config' requires"]
    return [
        f"provider of '{definition.name}' has the method '{method}' but its type declares no 'config'; declare it, or"
        f" call the helper '_{method}'"
        for method in CONFIG_METHODS
        if callable(getattr(provider, method, None))
    ]


def _signature_problems(type_name: str, features: Collection[str], provider: type[Any]) -> list[str]:
    """Check the two methods whose parameters depend on a feature."""
    problems = _get_problems(type_name, features, provider.get)
    if "simple_get_filter" in features and not takes(provider.get, "names", 2):
        problems.append(f"provider of '{type_name}': get takes no 'names', which feature 'simple_get_filter' requires")
    if "noop_handler" in features and not takes(provider.set, "noop"):
        problems.append(f"provider of '{type_name}': set takes no 'noop', which feature 'noop_handler' requires")
    if "noop_handler" not in features and takes(provider.set, "noop") and not variadic(provider.set):
        problems.append(
            f"provider of '{type_name}': set takes 'noop' but its type does not declare the feature 'noop_handler'"
        )
    return problems


def _get_problems(type_name: str, features: Collection[str], get: Any) -> list[str]:
    """Check the parameter ``names``: it is passed with the feature only, and all are asked for by None."""
    code, defaults = getattr(get, "__code__", None), getattr(get, "__defaults__", None) or ()
    if code is None:
        return []
    optional = dict(zip(code.co_varnames[: code.co_argcount][::-1], defaults[::-1], strict=False))
    required = code.co_varnames[2 : code.co_argcount - len(optional)]
    problems = [
        f"get is called with 'names' only for a type with the feature 'simple_get_filter'; write '{name}=None'"
        for name in required[:1]
        if "simple_get_filter" not in features
    ]
    problems += [
        f"get is called with None for all resources, not with {value!r}; write '{name}=None'"
        for name, value in optional.items()
        if value is not None and not value
    ]
    return [f"provider of '{type_name}': {problem}" for problem in problems]


def _plain_problems(type_name: str, provider: type[Any], methods: Iterable[str]) -> list[str]:
    """Check that no method is one whose code does not run when it is called."""
    problems = []
    for method in methods:
        flags = getattr(getattr(getattr(provider, method, None), "__code__", None), "co_flags", 0)
        if flags & _ASYNC:
            problems.append(f"provider of '{type_name}': {method} is async, and nothing awaits it; write a plain 'def'")
        elif flags & _GENERATOR and method in _ACTIONS:
            problems.append(f"provider of '{type_name}': {method} has a 'yield', so that it would do nothing")
    return problems


def _argument_problems(type_name: str, provider: type[Any], methods: Mapping[str, str]) -> list[str]:
    """Check the number of arguments of plain methods; decorated and variadic ones take what they want."""
    problems = []
    for method, arguments in methods.items():
        function: Any = next((vars(each)[method] for each in provider.__mro__ if method in vars(each)), None)
        code = getattr(function, "__code__", None)
        if code is None or isinstance(function, (staticmethod, classmethod)) or code.co_flags & 0x0C:
            continue
        most, number = code.co_argcount + code.co_kwonlyargcount - 1, len(arguments.split())
        # Whether the parameter of a feature is right is checked with the feature.
        required = code.co_varnames[1 : code.co_argcount - len(function.__defaults__ or ())]
        least = sum(name != _NOOP for name in required)
        if not least <= number <= most:
            problems.append(
                f"provider of '{type_name}': {method} is called with {arguments or 'no arguments'}, but takes {least}"
                f"{'' if least == most else f' to {most}'} argument{'' if most == 1 else 's'} beside self"
            )
    return problems
