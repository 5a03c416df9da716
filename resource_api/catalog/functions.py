"""Function calls in a manifest's named values: which provider is called, input checks, and the answer.

``values: {address: {invoke: free_address, with: {network: 10.0.0.0/24}}}``. When a function is called is decided by the
plan and the transaction. Pure: calling the provider comes in as a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import canonicalize
from resource_api.catalog.provider_config import select_instance
from resource_api.model.function import Call
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, hint
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import is_secret, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.entries import Definitions
    from resource_api.model.values.errors import Problem

    #: Calls a function with inputs; the third argument: whether its answer is a secret in any case.
    Ask = Callable[[Call, Mapping[str, Any], bool], Any]

_KEYS: Final = ("invoke", "with", "provider")


def find_calls(diagnostics: Diagnostics, definitions: Definitions) -> dict[str, Call | None]:
    """Return the named values that are function calls; None for an invalid one, which is reported."""
    found: dict[str, Call | None] = {}
    for name, body in diagnostics.manifest.values.items():
        if type(body) is dict and "invoke" in body:
            try:
                call = found[name] = _call(body, diagnostics, definitions)
            except (ValueError, DefinitionError) as error:
                diagnostics.value_error(name, (), str(error))
                found[name] = None
                continue
            for path, message in _input_problems(call):
                diagnostics.value_error(name, path, message)
    return found


def _call(body: Mapping[str, Any], diagnostics: Diagnostics, definitions: Definitions) -> Call:
    if unknown := [key for key in body if key not in _KEYS]:
        msg = f"unknown key '{unknown[0]}'{hint(unknown[0], _KEYS)}; a call has {', '.join(_KEYS)}"
        raise ValueError(msg)
    function, given, provider = body["invoke"], body.get("with") or {}, body.get("provider")
    if type(function) is not str or type(given) is not dict:
        msg = "write {invoke: FUNCTION, with: {INPUT: VALUE}}"
        raise ValueError(msg)
    type_name, _, name = function.rpartition(".")
    type_name = type_name[:1].lower() + type_name[1:]
    if provider is not None:
        instance = select_instance(provider, type_name, diagnostics.manifest)
    else:
        instance = type_name or _type_with_function(name, definitions)
    functions = definitions.provider(instance).definition.functions
    if name not in functions:
        msg = f"type '{split_instance(instance)[0]}' has no function '{name}'{hint(name, functions)}"
        raise ValueError(msg)
    return Call(instance, name, functions[name], given)


def _type_with_function(name: str, definitions: Definitions) -> str:
    """Return the only type on the module path that has a function of this name."""
    types = definitions.functions(name)
    if len(types) == 1:
        return types[0]
    if types:
        msg = f"several types have a function '{name}'; write one of {', '.join(f'{each}.{name}' for each in types)}"
        raise ValueError(msg)
    msg = f"no type on the module path has a function '{name}'; write TYPE.FUNCTION"
    raise ValueError(msg)


def _input_problems(call: Call) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with the literal inputs of a call: the path in the named value, and a message."""
    inputs = call.function.inputs
    for name in call.given:
        if name not in inputs.attributes:
            yield ("with", name), f"function '{call}' has no input '{name}'{hint(name, inputs.attributes)}"
    for name in inputs.mandatory:
        if call.given.get(name) is None:
            yield ("with",), f"function '{call}' needs the input '{name}'"
    known = inputs.attributes.keys() & call.given.keys()
    literal = {name: call.given[name] for name in known if expression.is_literal(call.given[name])}
    for problem in _check(call, literal)[1]:
        yield ("with", problem.attribute or ""), problem.message


def _check(call: Call, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    inputs = call.function.inputs
    filled = canonicalize.fill_defaults(inputs, dict(given))
    return filled, canonicalize.check_values(inputs, filled, call.given)


def _with_texts(call: Call, given: Mapping[str, Any]) -> dict[str, Any]:
    from resource_api.model.datatypes.referred_values import with_texts

    known = call.function.inputs.attributes
    return {
        name: with_texts(known[name].datatype, call.given[name], value) if name in known else value
        for name, value in given.items()
    }


def invoke(call: Call, given: Mapping[str, Any], ask: Ask) -> Any:
    """Return a function's answer to known inputs; it is sensitive if an input is or the function declares it so.

    Raises ``ValueError`` with the reason when the inputs are invalid, and whatever ``ask`` raises.
    """
    inputs, problems = _check(call, _with_texts(call, given))
    if problems:
        msg = f"{call}: {'; '.join(problem.message for problem in problems)}"
        raise ValueError(msg)
    plain = {name: value if name in call.function.inputs.sensitive else reveal(value) for name, value in inputs.items()}
    return ask(call, plain, any(map(is_secret, given.values())))
