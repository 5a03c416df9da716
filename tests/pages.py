"""Documents of runs of any size, for the tests of pages."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_BEFORE = "".join(f"line {number}\n" for number in range(20))
_AFTER = _BEFORE.replace("line 7", "line seven") + "line 20\n"


def run_document(count: int, text: Callable[[int], str] = lambda number: f"/srv/app/{number:05d}") -> dict[str, Any]:
    """Return the document of a run of ``count`` resources in four workers; ``text`` is in titles, values, errors."""
    chance, free = random.Random(count), [0.0] * 4  # noqa: S311 - the same pages in every run
    steps: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    while len(steps) < count:
        kind, worker, seconds = chance.choice(["File", "Package", "Exec"]), free.index(min(free)), chance.random() * 3
        size = min(count - len(steps), chance.choice([1, 2, 12]))
        names = [f"{kind}[{text(number)} {number}]" for number in range(len(steps), len(steps) + size)]
        call = {"worker": worker + 1, "provider": kind.lower(), "method": "set", "started": free[worker]}
        calls.append({**call, "seconds": seconds, "resources": size, "first": names[0]})
        steps += [_step(name, text(number), len(calls) - 1, chance) for number, name in enumerate(names, len(steps))]
        free[worker] += seconds
    counts = Counter(step["status"] for step in steps)
    names = [step["reference"] for step in steps]
    drift = [{"attribute": "mode", "was": text(0), "is": "0600"}]
    return {
        "kind": "run", "format_version": 1, "tool_version": "0.1.0", "project": "web", "stack": "default",
        "run": "b1a8cc4ed5e40819", "command": "apply", "started": 1795398516.8, "ended": 1795398616.9, "parallel": 4,
        "summary": {"created": counts["success"], "failed": counts["failed"], "skipped": counts["skipped"],
                    "unchanged": 14, "exit_code": 1},
        "drifted": 1, "seconds": max(free), "critical_path": list(range(0, len(calls), 5)), "problems": [],
        "steps": steps, "calls": calls, "drift": [{"reference": names[0], "changes": drift}],
        "notifications": [{"from": names[0], "to": names[-1]}],
    }  # fmt: skip


def _step(reference: str, text: str, call: int, chance: random.Random) -> dict[str, Any]:
    status = chance.choices(["success", "failed", "skipped"], [20, 1, 1])[0]
    content = {"attribute": "content", "is": _BEFORE + text, "should": _AFTER + text, "message": None}
    mode = {"attribute": "mode", "is": text, "should": "0644", "message": text}
    return {
        "reference": reference, "action": chance.choice(["create", "update"]), "status": status,
        "changes": chance.choice([[mode], [content, mode]]),
        "error": None if status == "success" else f"{text}\nsecond", "corrective": False, "seconds": 1.5, "call": call,
        "file": "site.yaml" if status == "failed" else None, "line": 3,
    }  # fmt: skip
