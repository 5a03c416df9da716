"""The time of a run on its page: the calls of each worker as a drawing, and the chain of calls that took longest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.render.html.elements import Section, e, link, table
from resource_api.render.runs.text import call_text, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Pixels of the row of one worker, of its bar, and of the scale.
_ROW: Final = 26
_BAR: Final = 18
_SCALE: Final = 22
#: Percent of the width: what is left for the names of workers, and below what a bar joins the one before it.
_LEFT: Final = 7.0
_NARROW: Final = 0.15
_TICKS: Final = 5
#: Calls of the longest chain that are listed, the longest ones.
_CALLS: Final = 40


def sections(found: Mapping[str, Any], ids: Mapping[str, str]) -> list[Section]:
    """Return the drawing and the table of the document of a run; nothing where no provider was called."""
    calls = found["calls"]
    if not calls:
        return []
    end = max(call["started"] + call["seconds"] for call in calls) or 1e-6
    kinds = dict.fromkeys(found["critical_path"], "path")
    kinds |= {step["call"]: "failed" for step in found["steps"] if step["status"] == "failed"}
    workers = max(call["worker"] for call in calls)
    bars = "".join(_bar(group, calls, kinds, end, ids) for group in _groups(calls, end))
    names = "".join(
        f'<text x="0" y="{(number - 1) * _ROW + 14}">{f"worker {number}" if workers > 1 else "calls"}</text>'
        for number in range(1, workers + 1)
    )
    height = workers * _ROW + _SCALE
    drawing = f'<svg width="100%" height="{height}" role="img" aria-label="Calls of providers by worker">'
    drawing += f"{_scale(end, workers * _ROW)}{names}{bars}</svg>{_LEGEND}"
    return [Section("Timeline", drawing), _critical_path(found, ids)]


_LEGEND: Final = (
    '<p class="legend"><span class="key"></span>call of a provider<span class="key path"></span>in the longest chain'
    '<span class="key failed"></span>with a failure</p>'
)


def _groups(calls: Sequence[Mapping[str, Any]], end: float) -> Iterator[list[int]]:
    """Yield the positions of calls that share a bar: neighbours of one worker that are too narrow to be seen alone."""
    order = sorted(range(len(calls)), key=lambda number: (calls[number]["worker"], calls[number]["started"]))
    group: list[int] = []
    for number in order:
        call = calls[number]
        first = calls[group[0]] if group else call
        wide = (call["started"] + call["seconds"] - first["started"]) / end * 100 > _NARROW
        if group and (wide or call["worker"] != first["worker"]):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _bar(
    group: Sequence[int],
    calls: Sequence[Mapping[str, Any]],
    kinds: Mapping[int, str],
    end: float,
    ids: Mapping[str, str],
) -> str:
    first, last = calls[group[0]], calls[group[-1]]
    seconds = last["started"] + last["seconds"] - first["started"]
    # "failed" comes before "path", and that before neither.
    kind = min((kinds[number] for number in group if number in kinds), default="")
    named = call_text(first) if len(group) == 1 else f"{len(group)} calls, the first: {call_text(first)}"
    title = e(f"{named}: {duration(seconds)}, {duration(first['started'])} after the start")
    x, width, y = _x(first["started"], end), max(_percent(seconds, end), _NARROW), (first["worker"] - 1) * _ROW
    place = f'x="{x:.3f}%" y="{y}" width="{width:.3f}%" height="{_BAR}"'
    drawn = f'<rect class="bar {kind}" {place}><title>{title}</title></rect>'
    target = ids.get(first["first"])
    return f'<a href="#{target}" aria-label="{title}">{drawn}</a>' if target else drawn


def _x(seconds: float, end: float) -> float:
    return _LEFT + _percent(seconds, end)


def _percent(seconds: float, end: float) -> float:
    return seconds / end * (100 - _LEFT - 1)


def _scale(end: float, height: int) -> str:
    found = []
    for number in range(_TICKS + 1):
        seconds = end * number / _TICKS
        x, anchor = f"{_x(seconds, end):.3f}%", "end" if number == _TICKS else "middle" if number else "start"
        found.append(f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
        found.append(f'<text x="{x}" y="{height + 15}" text-anchor="{anchor}">{duration(seconds)}</text>')
    return "".join(found)


def _critical_path(found: Mapping[str, Any], ids: Mapping[str, str]) -> Section:
    calls = [found["calls"][number] for number in found["critical_path"]]
    shown = sorted(calls, key=lambda call: -call["seconds"])[:_CALLS]
    total, rows = sum(call["seconds"] for call in calls), []
    for call in filter(shown.__contains__, calls):
        more = f" and {call['resources'] - 1} more" if call["resources"] > 1 else ""
        where = f"{e(call['method'])} {link(call['first'], ids)}{more}"
        rows.append([duration(call["started"]), duration(call["seconds"]), where])
    rest = f'<p class="legend">and {len(calls) - len(shown)} shorter calls</p>' if len(calls) > len(shown) else ""
    whole = f'<p class="legend">{duration(total)} of {duration(found["seconds"])}: each waited for the one before.</p>'
    listed = table(("from", "took", "call"), rows, numbers=2)
    return Section("Longest chain of calls", whole + listed + rest, len(calls))
