"""Policies on the module path: ``policies/NAME.py`` with ``def resource(resource)``, ``def plan(plan)``, or both.

All of them hold for every run; what they judge and what follows is the stages' business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import DefinitionError
from resource_api.plugins import loader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.policy import Policy
    from resource_api.plugins.module_path import ModulePath


def load(finder: ModulePath) -> Sequence[Policy]:
    """Give the policies in the directories of the module path, by name; distributions are not asked.

    Raises ``DefinitionError`` for a file that is broken: what cannot be judged must not pass.
    """
    return [_policy(finder, name) for name in finder.names("policies", installed=False)]


def _policy(finder: ModulePath, name: str) -> Policy:
    path = finder.find("policies", name, installed=False)
    assert path is not None  # noqa: S101 - it has just been listed
    module = loader.execute(path, f"resource_api.policies.{name}")
    functions = {word: getattr(module, word, None) for word in ("resource", "plan")}
    return made(name, path, functions)


def made(name: str, file: str, functions: dict[str, object]) -> Policy:
    """Give a policy of its functions. Raises ``DefinitionError`` when none is there, or one is no function."""
    for word, function in functions.items():
        if function is not None and not callable(function):
            msg = f"{file}: '{word}' must be a function, not {type(function).__name__}"
            raise DefinitionError(msg)
    if not any(functions.values()):
        msg = f"{file}: defines neither resource(resource) nor plan(plan)"
        raise DefinitionError(msg)
    from resource_api.model.policy import Policy  # noqa: PLC0415 - most have none

    return Policy(name, file, functions["resource"], functions["plan"])  # type: ignore[arg-type] # callable, just seen
