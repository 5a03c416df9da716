"""What providers answer from their arguments alone, taken over: on copies, with secrets unwrapped and wrapped again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.columnar import are_flat
from resource_api.model.values.errors import Problem, ProviderError
from resource_api.model.values.text import show
from resource_api.model.values.values import Sensitive, copy_resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.type_definition import Resource, TypeDefinition
    from resource_api.provider.context import RunContext

_SEVERITIES: Final = ("error", "warning")


def canonicalized(
    run: RunContext, definition: TypeDefinition, call: Callable[..., Any], resources: list[Resource]
) -> list[Resource]:
    """Canonicalize copies; values that are secret only here are unwrapped for the provider and wrapped again."""
    plain = are_flat(resources)
    copies: list[Resource] = list(map(dict, resources)) if plain else []
    wrapped: dict[int, set[str]] = {}
    for index, resource in enumerate(() if plain else resources):
        copy = copy_resource(resource)
        copies.append(copy)
        wrapped[index] = {key for key in copy.keys() - definition.sensitive if isinstance(copy[key], Sensitive)}
        for key in wrapped[index]:
            run.log.mask.add(copy[key])
            copy[key] = copy[key].reveal()
    answer = call("canonicalize", copies)
    if not isinstance(answer, list) or len(answer) != len(resources) or not all(type(r) is dict for r in answer):
        msg = f"{definition.name}: canonicalize must return the resources that it was given, a list of mappings"
        raise ProviderError(msg)
    for index, secret in wrapped.items():
        for key in secret & answer[index].keys():
            answer[index][key] = Sensitive(answer[index][key])
    return answer


def problems(answer: Any) -> list[Problem]:
    """Give what ``validate`` said as problems. Raises ``ProviderError`` for one of no known severity."""
    given: Sequence[Any] = [answer] if isinstance(answer, (str, Problem)) else list(answer)
    found = [problem if isinstance(problem, Problem) else Problem(None, str(problem)) for problem in given]
    for problem in found:
        if problem.severity not in _SEVERITIES:
            msg = f"a problem is an 'error' or a 'warning', not {show(problem.severity)}: {problem.message}"
            raise ProviderError(msg)
    return found
