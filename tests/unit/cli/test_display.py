"""What hosts send is shown, or told to be wrong: nothing of it ends the command."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from resource_api.cli.hosted_display import plan_lines
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from resource_api.render.changes import Style
from resource_api.runtime import saved_plan
from resource_api.runtime.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value within a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*above, key)
        yield from _places(item, (*above, key))


def test_a_plan_with_values_of_other_kinds_is_an_error_of_its_host(tmp_path: Path) -> None:
    """Each value is replaced by each other kind: there are always lines, and none has a control character."""
    registry = Registry(ModulePath([BUNDLED], distributions=False))
    runtime = Runtime(registry, state=f"sqlite:{tmp_path}/state.db")
    planned = runtime.plan({"project": "p", "resources": {f"File[{tmp_path}/a]": {"content": "b"}}})
    document = json.loads(json.dumps(saved_plan.document(planned)))
    del document["manifest"]
    assert next(iter(plan_lines(document, registry, Style()))) == f"+ File[{tmp_path}/a]"
    wrong = 0
    for path in _places(document):
        for value in (None, 1, "\x1b[2J", ["\x1b[2J"], {"\x1b[2J": 1}):
            changed = copy.deepcopy(document)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            lines = list(plan_lines(changed, registry, Style()))
            assert all("\x1b" not in line for line in lines), (path, value)
            wrong += any(line.startswith("Error: plan: this is not a plan as it was saved: ") for line in lines)
    assert wrong > 100
