"""Functions in a manifest's values: which provider is asked what, checked before it is, and how its answer is taken.

``values: {address: {invoke: free_address, with: {network: 10.0.0.0/24}}}``. When they are called is the business of the
plan and the transaction. Pure: whoever is asked comes in as a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import canonicalize
from resource_api.model.attribute import hint
from resource_api.model.function import Call
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, nearest
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import is_secret, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.resources import Definitions
    from resource_api.model.function import Function
    from resource_api.model.values.errors import Problem

    #: Ask for a function, with inputs, and whether its answer is a secret whatever it says.
    Ask = Callable[[Call, Mapping[str, Any], bool], Any]

_KEYS: Final = ("invoke", "with", "provider")


def calls(diagnostics: Diagnostics, definitions: Definitions) -> dict[str, Call | None]:
    """Give the values of a manifest that are asked of functions, by name; complain of those that cannot be: None."""
    found: dict[str, Call | None] = {}
    for name, body in diagnostics.manifest.values.items():
        if type(body) is dict and "invoke" in body:
            try:
                call = found[name] = _call(body, diagnostics, definitions)
            except (ValueError, DefinitionError) as error:
                diagnostics.of_value(name, (), str(error))
                found[name] = None
                continue
            for path, message in _flaws(call):
                diagnostics.of_value(name, path, message)
    return found


def _call(body: Mapping[str, Any], diagnostics: Diagnostics, definitions: Definitions) -> Call:
    if unknown := [key for key in body if key not in _KEYS]:
        msg = f"unknown key '{unknown[0]}'{hint(unknown[0], _KEYS)}; a call has {', '.join(_KEYS)}"
        raise ValueError(msg)
    wanted, given, provider = body["invoke"], body.get("with") or {}, body.get("provider")
    if type(wanted) is not str or type(given) is not dict:
        msg = "write {invoke: FUNCTION, with: {INPUT: VALUE}}"
        raise ValueError(msg)
    type_name, _, name = wanted.rpartition(".")
    if provider is not None:
        instance = _instance(provider, type_name, diagnostics)
    else:
        instance = type_name[:1].lower() + type_name[1:] if type_name else _owner(name, definitions)
    functions = definitions.tools(instance).definition.functions
    if name not in functions:
        msg = f"type '{split_instance(instance)[0]}' has no function '{name}'{hint(name, functions)}"
        raise ValueError(msg)
    return Call(instance, name, functions[name], given)


def _instance(provider: Any, type_name: str, diagnostics: Diagnostics) -> str:
    configured = diagnostics.manifest.providers
    declared = configured.get(provider) if type(provider) is str else None
    if declared is None:
        advice = nearest(str(provider), configured)
        msg = f"unknown provider '{provider}'; name it under providers:" + (f"; {advice}" if advice else "")
        raise ValueError(msg)
    if type_name and type_name[:1].lower() + type_name[1:] != declared.type:
        msg = f"provider '{provider}' is for '{declared.type}', not for '{type_name}'"
        raise ValueError(msg)
    return declared.instance


def _owner(name: str, definitions: Definitions) -> str:
    """Give the only type on the module path that has a function of a name."""
    owners = definitions.functions(name)
    if len(owners) == 1:
        return owners[0]
    if owners:
        msg = f"several types have a function '{name}'; write one of {', '.join(f'{owner}.{name}' for owner in owners)}"
        raise ValueError(msg)
    msg = f"no type on the module path has a function '{name}'; write TYPE.FUNCTION"
    raise ValueError(msg)


def _flaws(call: Call) -> list[tuple[tuple[str, ...], str]]:
    """Give what is wrong with the inputs of a call as far as they are written out, each with where it stands."""
    inputs = call.function.inputs
    flaws: list[tuple[tuple[str, ...], str]] = [
        (("with", name), f"function '{call}' has no input '{name}'{hint(name, inputs.attributes)}")
        for name in call.given
        if name not in inputs.attributes
    ]
    flaws += [
        (("with",), f"function '{call}' needs the input '{name}'")
        for name in inputs.mandatory
        if call.given.get(name) is None
    ]
    known = inputs.attributes.keys() & call.given.keys()
    literal = {name: call.given[name] for name in known if expression.is_literal(call.given[name])}
    flaws += [(("with", problem.attribute or ""), problem.message) for problem in _check(call.function, literal)[1]]
    return flaws


def _check(function: Function, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    filled = canonicalize.fill_defaults(function.inputs, dict(given))
    return filled, canonicalize.check_values(function.inputs, filled)


def invoke(call: Call, given: Mapping[str, Any], ask: Ask) -> Any:
    """Give what a function answers to inputs that are known; a secret where one went in or it says so.

    Raises ``ValueError`` with why there is no answer.
    """
    inputs, problems = _check(call.function, given)
    if problems:
        msg = f"{call}: {'; '.join(problem.message for problem in problems)}"
        raise ValueError(msg)
    plain = {name: value if name in call.function.inputs.sensitive else reveal(value) for name, value in inputs.items()}
    return ask(call, plain, any(map(is_secret, given.values())))
