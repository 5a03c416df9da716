"""Constants of Python manifests whose values are literals, read without executing the manifest."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any


def constant(raw: bytes, name: str) -> Any:
    """Return a constant of a module whose value is a literal, without executing the module; otherwise None."""
    value: object = None
    with suppress(SyntaxError, ValueError):
        for statement in ast.parse(raw).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == name for target in targets
            ):
                value = ast.literal_eval(statement.value)
    return value
