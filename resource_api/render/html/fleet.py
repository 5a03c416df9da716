"""Render a run over many hosts as an HTML page: failures first, equal results folded, then every host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import DONE, count_words
from resource_api.render import text
from resource_api.render.fleet import ORDER, counts, hosts_of
from resource_api.render.html.elements import Page, PageRow, Section, e, row_ids, rows_section, table, write
from resource_api.render.run_text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Status → the sign of a row.
_SIGNS: Final = {"changed": "~", "unchanged": "=", "failed": "!", "unreachable": "!", "refused": "!", "untouched": "."}
_BAD: Final = frozenset({"failed", "unreachable", "refused"})
#: Sections with more groups are closed, but for those that need attention.
_FEW: Final = 20
#: The counts of resources that are shown of one host.
_COUNTS: Final = (*text.CHANGES, "unchanged")


def fleet(document: Mapping[str, Any]) -> str:
    """Return the page of the document of a run over hosts."""
    ids = row_ids(host["name"] for host in document["hosts"])
    folded = {name: f"g{id_}" for name, id_ in row_ids(map(_name, document["groups"])).items()}
    sections = [_groups(status, document["groups"], folded) for status in reversed(ORDER)]
    sections += [
        _untouched(document["hosts"]),
        _batches(document["hosts"]),
        rows_section("Hosts", list(map(_host, document["hosts"])), ids),
    ]
    title = f"{document['command']} on {hosts_of(len(document['hosts']))}"
    return write(Page(title, counts(document["counts"]), _facts(document), sections))


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    summary = document.get("summary") or {}
    return [
        ("run", str(document.get("run", ""))),
        ("started", f"{text.time_of(document.get('started'))} UTC"),
        ("took", duration(document["seconds"])),
        ("stopped", str(document.get("stop") or "")),
        ("resources", _resources(summary)),
        ("exit code", str(summary.get("exit_code", ""))),
        ("resource-api", str(document.get("tool_version", ""))),
    ]


def _groups(status: str, groups: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> Section:
    """Return the groups of hosts with one status, the largest first."""
    matching = sorted((group for group in groups if group["status"] == status), key=lambda group: -group["count"])
    rows = [_group(group) for group in matching]
    section = rows_section(status.capitalize(), rows, ids, opened=status in _BAD or len(rows) <= _FEW)
    return section._replace(number=sum(group["count"] for group in matching))


def _group(group: Mapping[str, Any]) -> PageRow:
    lines = [*group["lines"], *([f"… {group['more']} more"] if group["more"] else [])]
    body = f'<p class="error">{e(group["error"])}</p>' if group["error"] else ""
    body += f"<pre>{chr(10).join(map(e, lines))}</pre>" if lines else ""
    status = group["status"]
    return PageRow(_name(group), _SIGNS[status], hosts_of(group["count"]), body, bad=status in _BAD)


def _name(group: Mapping[str, Any]) -> str:
    return ",".join(group["hosts"])


def _untouched(hosts: Iterable[Mapping[str, Any]]) -> Section:
    """Return the number of hosts that were never contacted, by reason."""
    reasons: dict[str, int] = {}
    for host in hosts:
        if host["status"] == "untouched":
            reasons[host["error"]] = reasons.get(host["error"], 0) + 1
    body = "".join(
        f"<p>{e(hosts_of(number))}: {e(reason or 'the run ended before')}</p>" for reason, number in reasons.items()
    )
    return Section("Untouched", body, sum(reasons.values()))


def _batches(hosts: Iterable[Mapping[str, Any]]) -> Section:
    """Return the counts of the batches, unless there is only one."""
    batches: dict[int, dict[str, int]] = {}
    for host in hosts:
        batch = batches.setdefault(host["batch"], dict.fromkeys(ORDER, 0))
        batch[host["status"]] += 1
    rows = (
        [str(number), *(f"{by_status[status]:,}" for status in ORDER)] for number, by_status in sorted(batches.items())
    )
    several = len(batches) > 1
    return Section("Batches", table(("batch", *ORDER), rows, numbers=1 + len(ORDER)) if several else "", len(batches))


def _host(host: Mapping[str, Any]) -> PageRow:
    status, error = host["status"], host["error"] or ""
    notes = [_resources(host["summary"] or {}), status, duration(host["seconds"]) if host["seconds"] else ""]
    body = f'<p class="error">{e(error)}</p>' if error and status != "untouched" else ""
    return PageRow(host["name"], _SIGNS[status], " · ".join(filter(None, notes)), body, bad=status in _BAD)


def _resources(summary: Mapping[str, Any]) -> str:
    return ", ".join(count_words({name: summary.get(name) for name in _COUNTS}, DONE))
