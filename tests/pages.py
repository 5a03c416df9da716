"""Documents of runs of any size, for the tests of pages."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from resource_api.render.run_text import HostOverview

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.json_documents import OverviewJson

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


#: The time of the simulated overviews.
NOW = 1795772000.0
_FAILURES = (
    ("Package[nginx]", "apt-get returned 100: E: Unable to fetch some archives", "web.yaml", 12),
    ("File[/srv/app/config.yaml]", "cannot be written: No space left on device", "app.yaml", 40),
    ("Service[app]", "did not converge: ensure is 'stopped', should be 'running'", "app.yaml", 61),
)
_DRIFTING = ("File[/etc/ssh/sshd_config]", "Service[chrony]", "File[/etc/motd]", "Sysctl[net.ipv4.ip_forward]")


def overviews(count: int, text: str = "") -> list[HostOverview]:
    """Return the overviews of ``count`` simulated machines; ``text`` is added to each text that a machine sends."""
    chance = random.Random(count)  # noqa: S311 - the same page in every run
    hosts = []
    for number in range(1, count + 1):
        name = f"{chance.choice(['web', 'db', 'app', 'cache'])}{number:03}.example.org"
        dice = chance.random()
        if dice < 0.015:
            error = chance.choice(["connection refused", "no answer within 10 s"])
            hosts.append(HostOverview(name, "unreachable", f"unreachable: {error}{text}"))
        elif dice < 0.02:
            hosts.append(HostOverview(name, "refused", f"refused: state is damaged{text}"))
        else:
            overview = _overview(chance, text)
            hosts.append(HostOverview(name, overview["status"], overview=overview))
    return hosts


def _overview(chance: random.Random, text: str) -> OverviewJson:
    status = chance.choices(["failing", "drifted", "changed", "unchanged", "silent"], [4, 12, 25, 60, 2])[0]
    age = chance.choice([86400 * 3, 86400 * 9]) if status == "silent" else chance.random() * 1800
    slow = chance.random() ** 6 * 400 + 2
    reference, error, file, line = chance.choice(_FAILURES)
    last: Any = {
        "run": f"{chance.getrandbits(64):016x}", "project": f"web{text}", "stack": "default", "command": "apply",
        "ended": NOW - age, "seconds": slow, "exit_code": int(status == "failing"), "changes": 0,
        "failed": int(status == "failing"),
    }  # fmt: skip
    changed = chance.choice([["Package[openssl]", "Service[nginx]"], ["File[/etc/motd]"], ["User[alice]"]])
    moment = NOW - chance.choice([1200, 7200, 86400 * 2, 86400 * 20])
    drift = chance.sample(_DRIFTING, chance.choice([1, 1, 2])) if status == "drifted" else []
    runs = 0 if status == "silent" else chance.randrange(40, 49)
    return {
        "kind": "overview", "format_version": 1, "since": NOW - 86400, "until": NOW, "status": status, "runs": runs,
        "failed_runs": chance.randrange(1, 30) if status == "failing" else 0,
        "changes": chance.randrange(1, 9) if status in {"changed", "drifted"} else 0,
        "drifted": chance.randrange(1, 20) if status == "drifted" else 0, "longest": slow, "last": last,
        "last_change": {**last, "ended": moment, "changes": len(changed), "exit_code": 0, "failed": 0,
                        "resources": [{"reference": item + text, "action": "update"} for item in changed]},
        "failing": [{"reference": reference + text, "error": error + text, "file": file + text, "line": line,
                     "project": "web", "stack": "default", "since": NOW - chance.choice([3600, 90000])}]
        if status == "failing" else [],
        "drift": [{"reference": item + text, "runs": chance.randrange(1, 9), "last": NOW - 900,
                   "attributes": ["content" + text]} for item in drift],
        "slow": [{"method": "set", "first": f"Package[nginx]{text}", "resources": 3, "seconds": slow}],
    }  # fmt: skip
