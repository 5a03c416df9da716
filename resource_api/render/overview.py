"""Render the overviews of machines as text: one in lines, many as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape, rough_duration
from resource_api.render.run_text import call_text, duration
from resource_api.render.text import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.model.json_documents import FailingResourceJson, FinishedRunJson, OverviewJson

#: The statuses of machines, the worst first, and their words.
STATUSES: Final[Mapping[str, str]] = {
    "unreachable": "unreachable",
    "refused": "refused",
    "failed": "without an answer",
    "failing": "failing",
    "silent": "without a run",
    "drifted": "drifted",
    "changed": "changed",
    "unchanged": "unchanged",
}
#: The statuses of machines of which nothing is known.
UNKNOWN: Final = frozenset({"unreachable", "refused", "failed"})
#: The statuses of machines that need attention.
BAD: Final = frozenset({*UNKNOWN, "failing"})


class HostOverview(NamedTuple):
    """A machine with its status: that of its overview, or the reason why there is none."""

    name: str
    status: str
    error: str = ""
    overview: OverviewJson | None = None


def counts(hosts: Iterable[HostOverview]) -> dict[str, int]:
    """Return the numbers of machines by status, the worst first, without statuses of none."""
    statuses = [host.status for host in hosts]
    return {status: statuses.count(status) for status in STATUSES if status in statuses}


def counts_text(numbers: Mapping[str, int]) -> str:
    """Return ``2 unreachable, 3 failing, 295 unchanged``."""
    return ", ".join(f"{number:,} {STATUSES[status]}" for status, number in numbers.items())


def ago(overview: OverviewJson, moment: float) -> str:
    """Return ``5 min ago`` for a time of the machine by its own clock."""
    return f"{rough_duration(max(0.0, overview['until'] - moment))} ago"


def row(host: HostOverview) -> dict[str, object]:
    """Return the row of a machine in a table; without an overview its status alone."""
    if (overview := host.overview) is None:
        return {"host": host.name, "status": host.status}
    last = overview["last"]
    return {
        "host": host.name,
        "status": host.status,
        "last run": ago(overview, last["ended"]) if last else "never",
        "runs": overview["runs"],
        "changes": overview["changes"],
        "drifted": overview["drifted"],
        "failing": len(overview["failing"]),
    }


def lines(overview: OverviewJson) -> Iterator[str]:
    """Yield the lines of the overview of one machine."""
    numbers = f"{overview['failed_runs']} failed, {overview['changes']} changes, {overview['drifted']} drifted"
    yield f"{STATUSES[overview['status']]}: {overview['runs']} runs since {time_of(overview['since'])} UTC, {numbers}"
    if (last := overview["last"]) is not None:
        yield f"Last run: {run_text(last)}, {ago(overview, last['ended'])}"
    if (change := overview["last_change"]) is not None:
        yield f"Last change: {run_text(change)}, {ago(overview, change['ended'])}"
        yield from (f"  {escape(item['action'])} {escape(item['reference'])}" for item in change["resources"])
    if overview["failing"]:
        yield "Failing:"
        yield from (
            f"  {_failure(failing)}, for {rough_duration(overview['until'] - failing['since'])}"
            for failing in overview["failing"]
        )
    if overview["drift"]:
        yield "Drifted:"
        for drift in overview["drift"]:
            names = escape(", ".join(drift["attributes"]))
            yield f"  {escape(drift['reference'])} before {runs_text(drift['runs'])}: {names}"
    if overview["slow"]:
        yield "Slow:"
        yield from (f"  {duration(call['seconds']):>8}  {call_text(call)}" for call in overview["slow"])


def run_text(run: FinishedRunJson) -> str:
    """Return ``apply of web, 3 changes, exit code 1``."""
    code = f", exit code {run['exit_code']}" if run["exit_code"] else ""
    changes = f", {run['changes']} change{'' if run['changes'] == 1 else 's'}" if run["changes"] else ""
    stack = f", stack {escape(run['stack'])}" if run["stack"] != "default" else ""
    return f"{escape(run['command'])} of {escape(run['project'])}{stack}{changes}{code}"


def _failure(failing: FailingResourceJson) -> str:
    """Return ``File[/a]: disk full (site.yaml:4)``; without a reference the error alone."""
    position = f" ({escape(failing['file'])}:{failing['line']})" if failing["file"] else ""
    subject = f"{escape(failing['reference'])}: " if failing["reference"] else ""
    return f"{subject}{escape(failing['error'])}{position}"


def runs_text(number: int) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{number:,} run{'' if number == 1 else 's'}"
