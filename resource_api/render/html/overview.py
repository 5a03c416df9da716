"""Render the overviews of many hosts as one HTML page: a map of all, hosts that need attention, and each host.

All times of a host are by its own clock. ``anchors``: name of a host → id of its line on the page.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Final, TypeVar

from resource_api.model.action import Action
from resource_api.model.values.text import counted, rough_duration
from resource_api.render.fleet import hosts_of
from resource_api.render.html.elements import (
    Page,
    PageRow,
    Section,
    chunked,
    e,
    link,
    row_anchors,
    rows_section,
    table,
    write,
)
from resource_api.render.run_text import (
    BAD,
    STATUSES,
    UNKNOWN,
    HostOverview,
    ago,
    call_text,
    counts_text,
    duration,
    run_summary,
    runs_text,
    status_counts,
)
from resource_api.render.text import time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import ChangedResourcesJson, OverviewJson

    K = TypeVar("K")
    V = TypeVar("V")
    #: Folds the names of hosts: ``web[1:3]``.
    Fold = Callable[[Iterable[str]], Sequence[str]]

#: Status → the sign of a host.
_SIGNS: Final[Mapping[str, str]] = {
    "unreachable": "x",
    "refused": "x",
    "failed": "x",
    "failing": "!",
    "silent": "?",
    "drifted": "~",
    "changed": "+",
    "unchanged": "",
}
#: The columns of the list of hosts.
_COLUMNS: Final = ("host", "status", "last run", "runs", "changes", "drifted", "failing", "longest run")
#: Hosts that are linked in a row, resources that are named of one host, rows of a list, slow calls.
_LINKED: Final = 30
_NAMED: Final = 8
_MOST: Final = 200
_SLOWEST: Final = 25
#: The most rows of a section that is open initially.
_FEW: Final = 12


def page(hosts: Sequence[HostOverview], fold: Fold, moment: float, period: float, version: str) -> str:
    """Return the HTML page of ``hosts``' overviews for the ``period`` before ``moment``; ``fold`` shortens names."""
    anchors = row_anchors(host.name for host in hosts)
    view = _View(hosts, fold, anchors)
    sections = [
        Section("All at a glance", _cells(hosts, anchors)),
        *(view.without_answer(status) for status in STATUSES if status in UNKNOWN),
        view.failing(),
        view.silent(),
        view.drift(),
        view.changes(),
        view.slow(),
        Section("Hosts", _rows(hosts, anchors), len(hosts)),
    ]
    overviews = [host.overview for host in hosts if host.overview]
    facts = [
        ("made", f"{time_of(moment)} UTC"),
        ("runs", f"{sum(overview['runs'] for overview in overviews):,}"),
        ("changes", f"{sum(overview['changes'] for overview in overviews):,}"),
        ("drifted resources", f"{sum(overview['drifted'] for overview in overviews):,}"),
        ("resource-api", version),
    ]
    title = f"{hosts_of(len(hosts))} in the last {rough_duration(period)}"
    return write(Page(title, counts_text(status_counts(hosts)), facts, sections))


class _View:
    """The sections about hosts with equal contents."""

    def __init__(self, hosts: Sequence[HostOverview], fold: Fold, anchors: Mapping[str, str]) -> None:
        """Use the overviews of all hosts; ``fold`` shortens many names, ``anchors``: host → id of its line."""
        self._hosts = hosts
        self._fold = fold
        self._anchors = anchors
        #: The number of rows in all sections so far: the next row has the id ``g7`` after seven.
        self._number = 0

    def without_answer(self, status: str) -> Section:
        """Return the section of the hosts with one ``status`` that means that they have sent no overview.

        One is ``unreachable``. Hosts with equal errors are one row, since they mostly have one cause.
        """
        by_error = _grouped((host.error or status, host.name) for host in self._hosts if host.status == status)
        rows = [self._row(error, _SIGNS[status], names, bad=True) for error, names in by_error]
        return self._section(STATUSES[status].capitalize(), rows, sum(len(names) for _, names in by_error))

    def silent(self) -> Section:
        """Return the section of hosts without a run in the period, whose timer or agent may have stopped.

        Hosts whose last runs have the same age are one row.
        """
        silent = [(host.name, overview) for host, overview in self._answered() if host.status == "silent"]
        by_age = _grouped((_age_of_last_run(overview), name) for name, overview in silent)
        rows = [self._row(age or "no run is recorded", _SIGNS["silent"], names) for age, names in by_age]
        return self._section("Without a run", rows, sum(len(names) for _, names in by_age))

    def failing(self) -> Section:
        """Return the section of failing resources; hosts with the same failure are one row."""
        by_failure = _grouped(
            ((failing["reference"], failing["error"]), (host, overview["until"] - failing["since"], failing))
            for host, overview in self._answered()
            for failing in overview["failing"]
        )
        rows = []
        for (reference, error), failures in by_failure:
            longest = max(seconds for _, seconds, _ in failures)
            first = failures[0][2]
            position = f'<p class="label">{e(first["file"])}:{e(first["line"])}</p>' if first["file"] else ""
            body = f'<p class="error">{e(error)}</p>{position}'
            names = list(dict.fromkeys(host.name for host, *_ in failures))
            note = f"for {rough_duration(longest)}"
            title = reference or f"{first['project']}, stack {first['stack']}"
            rows.append(self._row(title, _SIGNS["failing"], names, note, body, bad=True))
        return self._section("Failing", rows, len(rows))

    def drift(self) -> Section:
        """Return the section of drifted resources, each with its hosts, those with most hosts first."""
        drifted = [(host.name, drift) for host, overview in self._answered() for drift in overview["drift"]]
        by_reference = _grouped((drift["reference"], (name, drift)) for name, drift in drifted)
        rows = []
        for reference, drifts in by_reference:
            attributes = list(dict.fromkeys(name for _, drift in drifts for name in drift["attributes"]))[:_NAMED]
            body = f'<p><span class="label">attributes</span> {e(", ".join(attributes))}</p>' if attributes else ""
            note = f"before {runs_text(sum(drift['runs'] for _, drift in drifts))}"
            rows.append(self._row(reference, _SIGNS["drifted"], [name for name, _ in drifts], note, body))
        return self._section("Drift", rows, len(rows))

    def changes(self) -> Section:
        """Return the section of the hosts' last changes, the newest first; hosts with equal changes are one row.

        So a roll-out is one row, however many hosts have made it. The last change of a host has a list of the changed
        resources, or only their number.
        """
        by_change = _grouped(
            ((change["command"], *_change_lines(change)), (host.name, overview, change))
            for host, overview in self._answered()
            if (change := overview["last_change"])
        )
        # A group is as old as its newest change; the age of each is by the clock of its host, which may be wrong.
        by_change.sort(key=lambda group: min(overview["until"] - change["ended"] for _, overview, change in group[1]))
        rows = []
        for (command, *changes), changed_hosts in by_change:
            _, overview, change = changed_hosts[0]
            first = changes[0] if changes else f"  {counted(change['changes'], 'change')}"
            more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
            body = "".join(f"<p><code>{e(item)}</code></p>" for item in changes)
            note = f"{command} {ago(overview, change['ended'])}"
            names = [name for name, *_ in changed_hosts]
            # ``first`` begins with the sign of the action and a space: "~ File[/etc/motd]".
            rows.append(self._row(first[2:] + more, first[:1].strip(), names, note, body))
        return self._section("Last changes", rows, len(rows))

    def slow(self) -> Section:
        """Return the section with a table of the longest calls of providers on any host."""
        calls = [(host.name, call) for host, overview in self._answered() for call in overview["slow"]]
        slowest = nlargest(_SLOWEST, calls, key=lambda pair: pair[1]["seconds"])
        rows = ([duration(call["seconds"]), link(name, self._anchors), e(call_text(call))] for name, call in slowest)
        return Section("Slow calls", table(("took", "host", "call"), rows, numbers=1), len(slowest))

    def _answered(self) -> Iterator[tuple[HostOverview, OverviewJson]]:
        """Yield the hosts that have sent an overview, each with it."""
        return ((host, host.overview) for host in self._hosts if host.overview)

    def _row(
        self, title: str, sign: str, names: Sequence[str], note: str = "", body: str = "", *, bad: bool = False
    ) -> PageRow:
        """Return a row about the hosts ``names`` with their common ``title``; its details have links to the hosts.

        Only the first ``_LINKED`` hosts get a link. If there are more, the folded names, ``web[1:300]``, stand above.
        """
        linked = ", ".join(link(name, self._anchors) for name in names[:_LINKED])
        more = f" and {len(names) - _LINKED:,} more" if len(names) > _LINKED else ""
        folded = f'<p class="label">{e(",".join(self._fold(names)))}</p>' if more else ""
        body += f"{folded}<p>{linked}{more}</p>"
        return PageRow(title, sign, " · ".join(filter(None, (hosts_of(len(names)), note))), body, bad=bad)

    def _section(self, title: str, rows: Sequence[PageRow], number: int) -> Section:
        """Return a section with the first ``_MOST`` rows, for a browser to open it, and ``number`` in its heading.

        The ids of its rows are unique on the page. In a short section with failures all rows are open, so that the
        errors are visible without a click.
        """
        visible = rows[:_MOST]
        anchors = {row.reference: f"g{self._number + index}" for index, row in enumerate(visible)}
        self._number += len(visible)
        section = rows_section(title, visible, anchors, opened=len(visible) <= _FEW and any(row.bad for row in visible))
        rest = f'<p class="legend">and {len(rows) - _MOST:,} more</p>' if len(rows) > _MOST else ""
        return section._replace(body=section.body + rest, number=number)


def _age_of_last_run(overview: OverviewJson) -> str:
    """Return ``last run 5 min ago``, or an empty text where no run is recorded."""
    last = overview["last"]
    return f"last run {ago(overview, last['ended'])}" if last else ""


def _grouped(pairs: Iterable[tuple[K, V]]) -> list[tuple[K, list[V]]]:
    """Return each key, such as an error, with all its values, such as the hosts that have it.

    Keys with most values come first, because that problem concerns most hosts.
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _change_lines(change: ChangedResourcesJson) -> list[str]:
    """Return ``~ File[/etc/motd]`` for each resource that a run has changed."""
    return [f"{Action[item['action'].upper()].symbol} {item['reference']}" for item in change["resources"]]


def _cells(hosts: Sequence[HostOverview], anchors: Mapping[str, str]) -> str:
    """Return a map of all hosts, a small coloured cell for each with a link to its line, and its legend."""
    cells = "".join(
        f'<a class="cell {host.status}" href="#{anchors[host.name]}" tabindex="-1"'
        f' title="{e(host.name)}: {e(_note(host))}">{_SIGNS[host.status]}</a>'
        for host in hosts
    )
    legend = "".join(
        f'<span class="kind"><span class="cell {status}">{_SIGNS[status]}</span>{number:,} {STATUSES[status]}</span>'
        for status, number in status_counts(hosts).items()
    )
    return f'<div class="cells">{cells}</div><p class="legend cells">{legend}</p>'


def _note(host: HostOverview) -> str:
    """Return ``failing, last run 5 min ago``, the tooltip of a cell of the map."""
    return ", ".join(filter(None, (STATUSES[host.status], host.overview and _age_of_last_run(host.overview))))


def _rows(hosts: Sequence[HostOverview], anchors: Mapping[str, str]) -> str:
    """Return the list of all hosts in columns under a heading, in chunks, since there may be thousands of hosts."""
    head = "".join(f"<span>{e(title)}</span>" for title in _COLUMNS)
    body = chunked([_host(host, anchors[host.name]) for host in hosts])
    columns = f'<div class="columns" aria-hidden="true"><span></span><span></span>{head}</div>'
    return f'<div class="hosts">{columns}{body}</div>'


def _host(host: HostOverview, id_: str) -> str:
    """Return the line of a host in the list, with its numbers in the columns ``_COLUMNS``, and details to open below.

    A host without an overview has its error as details. ``id_``: the target of links to the line.
    """
    overview, bad = host.overview, " bad" if host.status in BAD else ""
    cells = [host.name, STATUSES[host.status]]
    if overview is not None:
        last = overview["last"]
        numbers = (overview["changes"], overview["drifted"], len(overview["failing"]))
        cells += [ago(overview, last["ended"]) if last else "never", f"{overview['runs']:,}"]
        cells += [f"{number:,}" if number else "" for number in numbers]
        cells += [duration(overview["longest"]) if overview["runs"] else ""]
    name, *values = map(e, cells)
    text = f'<span class="reference">{name}</span>' + "".join(f"<span>{value}</span>" for value in values)
    head = f'<span class="sign">{_SIGNS[host.status]}</span>{text}'
    error = f'<p class="error">{e(host.error or STATUSES[host.status])}</p>'
    body = error if overview is None else _details(overview)
    return f'<details id="{id_}" class="row{bad}"><summary>{head}</summary><div class="body">{body}</div></details>'


def _details(overview: OverviewJson) -> str:
    """Return the details of a host: errors, counts, its last run and change, drift and slow calls.

    Parts without content are left out.
    """
    parts = [
        f'<p class="error">{e(item["reference"])}{": " if item["reference"] else ""}{e(item["error"])}</p>'
        for item in overview["failing"][:_NAMED]
    ]
    failed = f", {overview['failed_runs']:,} failed" if overview["failed_runs"] else ""
    parts.append(_fact("runs", f"{overview['runs']:,}{failed}, {counted(overview['changes'], 'change')}"))
    if (last := overview["last"]) is not None:
        took = duration(last["seconds"])
        parts.append(_fact("last run", f"{time_of(last['ended'])} UTC: {run_summary(last)}, {took}"))
    if (change := overview["last_change"]) is not None:
        time_text = f"{time_of(change['ended'])} UTC"
        parts.append(_fact("last change", f"{time_text}: {run_summary(change)}", _change_lines(change)))
    if drift := [f"{item['reference']}: {', '.join(item['attributes'])}" for item in overview["drift"]]:
        parts.append(_fact("drifted", f"{overview['drifted']:,}", drift))
    if slow := [f"{duration(call['seconds'])} {call_text(call)}" for call in overview["slow"]]:
        parts.append(_fact("slow", "", slow))
    return "".join(parts)


def _fact(label: str, text: str, items: Sequence[str] = ()) -> str:
    """Return a labelled paragraph; the first ``_NAMED`` of ``items`` and the number of the others are below it."""
    more = [f"and {len(items) - _NAMED:,} more"] if len(items) > _NAMED else []
    listed = "".join(f"<br><code>{e(item)}</code>" for item in (*items[:_NAMED], *more))
    return f'<p><span class="label">{label}</span> {e(text)}{listed}</p>'
