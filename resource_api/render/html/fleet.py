"""The page of a run over many hosts: what needs attention first, equal answers folded, then every host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import DONE, count_words
from resource_api.render import text
from resource_api.render.fleet import ORDER, counts, hosts_of
from resource_api.render.html.elements import Page, Row, Section, e, row_ids, rows_section, table, write
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


def fleet(found: Mapping[str, Any]) -> str:
    """Return the page of the document of a run over hosts."""
    ids = row_ids(each["name"] for each in found["hosts"])
    folded = {name: f"g{id_}" for name, id_ in row_ids(map(_name, found["groups"])).items()}
    sections = [_groups(status, found["groups"], folded) for status in reversed(ORDER)]
    sections += [_untouched(found["hosts"]), _batches(found["hosts"]), _hosts(found["hosts"], ids)]
    title = f"{found['command']} on {hosts_of(len(found['hosts']))}"
    return write(Page(title, counts(found["counts"]), _facts(found), sections))


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    summary = found.get("summary") or {}
    return [
        ("run", str(found.get("run", ""))),
        ("started", f"{text.time_of(found.get('started'))} UTC"),
        ("took", duration(found["seconds"])),
        ("stopped", str(found.get("stop") or "")),
        ("resources", _resources(summary)),
        ("exit code", str(summary.get("exit_code", ""))),
        ("resource-api", str(found.get("tool_version", ""))),
    ]


def _groups(status: str, groups: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> Section:
    """Return the groups of hosts with one status, the largest first."""
    some = sorted((each for each in groups if each["status"] == status), key=lambda each: -each["count"])
    rows = [_group(each) for each in some]
    section = rows_section(status.capitalize(), rows, ids, opened=status in _BAD or len(rows) <= _FEW)
    return section._replace(number=sum(each["count"] for each in some))


def _group(found: Mapping[str, Any]) -> Row:
    lines = [*found["lines"], *([f"… {found['more']} more"] if found["more"] else [])]
    body = f'<p class="error">{e(found["error"])}</p>' if found["error"] else ""
    body += f"<pre>{chr(10).join(map(e, lines))}</pre>" if lines else ""
    status = found["status"]
    return Row(_name(found), _SIGNS[status], hosts_of(found["count"]), body, bad=status in _BAD)


def _name(group: Mapping[str, Any]) -> str:
    return ",".join(group["hosts"])


def _untouched(hosts: Iterable[Mapping[str, Any]]) -> Section:
    """Return how many hosts were never asked, and why."""
    reasons: dict[str, int] = {}
    for each in hosts:
        if each["status"] == "untouched":
            reasons[each["error"]] = reasons.get(each["error"], 0) + 1
    body = "".join(
        f"<p>{e(hosts_of(number))}: {e(why or 'the run ended before')}</p>" for why, number in reasons.items()
    )
    return Section("Untouched", body, sum(reasons.values()))


def _batches(hosts: Iterable[Mapping[str, Any]]) -> Section:
    """Return the counts of each batch, where there are several."""
    found: dict[int, dict[str, int]] = {}
    for each in hosts:
        batch = found.setdefault(each["batch"], dict.fromkeys(ORDER, 0))
        batch[each["status"]] += 1
    rows = ([str(number), *(f"{some[status]:,}" for status in ORDER)] for number, some in sorted(found.items()))
    several = len(found) > 1
    return Section("Batches", table(("batch", *ORDER), rows, numbers=1 + len(ORDER)) if several else "", len(found))


def _hosts(hosts: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> Section:
    """Return a row for each host."""
    return rows_section("Hosts", [_host(each) for each in hosts], ids)


def _host(found: Mapping[str, Any]) -> Row:
    status, error = found["status"], found["error"] or ""
    notes = [_resources(found["summary"] or {}), status, duration(found["seconds"]) if found["seconds"] else ""]
    body = f'<p class="error">{e(error)}</p>' if error and status != "untouched" else ""
    return Row(found["name"], _SIGNS[status], " · ".join(filter(None, notes)), body, bad=status in _BAD)


def _resources(summary: Mapping[str, Any]) -> str:
    return ", ".join(count_words({name: summary.get(name) for name in _COUNTS}, DONE))
