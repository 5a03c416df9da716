"""Render plans, recorded runs and rehearsals as HTML pages: failures first, then changes, drift and notifications.

The page of a run has the calls of each worker as a drawing and the longest chain of calls; the page of a rehearsal has
its verdicts and the side effects as a tree of paths.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, SideEffect, describe_side_effects, is_text_change
from resource_api.model.report import count_words
from resource_api.model.values.text import show_attribute
from resource_api.render import text
from resource_api.render.changes import Style, text_diff
from resource_api.render.html.elements import Page, Row, Section, e, link, links, row_ids, rows_section, table, write
from resource_api.render.run_document import located
from resource_api.render.run_text import NOT_KEPT, SECTIONS, call_text, duration
from resource_api.render.text import verdict_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    #: Name → what is in that directory, or what was done with that file.
    Tree = dict[str, Any]


#: The first lines of a diff, which name its two sides.
_HEADER: Final = 2
#: Lines of a diff that a page shows: at most and at least, and of all diffs together.
_LINES: Final = (400, 20)
_ALL_LINES: Final = 40_000
#: Characters of a value that a page shows.
_LONGEST: Final = 2000
_STYLE: Final = Style()
#: So many rows of a section are open from the beginning.
_FEW: Final = 20
#: Actions after which the values that are not among the changes matter too.
_WITH_VALUES: Final = frozenset({"create", "replace", "run"})
#: Actions that concern all of a resource.
_WHOLE: Final = frozenset({"create", "delete", "forget"})


# Changes


def changes(found: Iterable[Mapping[str, Any]], most: int, *, before: str = "is", after: str = "should") -> str:
    """Return the changes of a step or of a drift."""
    return "".join(
        _change(Difference(c["attribute"], c[before], c[after], c.get("message") or ""), most) for c in found
    )


def _change(difference: Difference, most: int) -> str:
    name = f'<span class="label">{e(difference.attribute)}</span>'
    message = f" ({e(difference.message)})" if difference.message else ""
    if is_text_change(difference):
        lines = (line.removesuffix(" (--diff full)") for line in text_diff(difference, _STYLE, most=most))
        shown = "".join(map(_diff_line, islice(lines, _HEADER, None)))
        return f'<p>{name}{message}</p><pre class="diff">{shown}</pre>'
    is_, should = _value(difference.is_), _value(difference.should)
    pair = f'<code class="minus">{is_}</code> → <code class="plus">{should}</code>'
    return f'<p class="change">{name} {pair}{message}</p>'


def _value(value: Any) -> str:
    shown = show_attribute(value)
    return e(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}… ({len(shown)} characters)")


def _diff_line(line: str) -> str:
    kind = {"+": "plus", "-": "minus", "@": "at"}.get(line[:1], "")
    return f'<span class="{kind}">{e(line) or " "}</span>' if kind else f"<span>{e(line) or ' '}</span>"


def _lines_of_a_diff(found: Mapping[str, Any]) -> int:
    """Return how many lines of one diff are shown: fewer, the more there are, so that a page can be opened."""
    count = sum(len(each["changes"]) for each in (*found["steps"], *found["drift"]))
    most, least = _LINES
    return max(least, min(most, _ALL_LINES // max(1, count)))


# A run


def run(found: Mapping[str, Any]) -> str:
    """Return the page of the document of a run: its failures first."""
    command = str(found.get("command") or "run")
    title = f"{command} of {found.get('project', '')}, stack {found.get('stack', '')}"
    outcome = text.run_outcome({**found, "summary": {**(found.get("summary") or {}), "exit_code": 0}})
    return write(Page(title, outcome.removeprefix(f"{command}: "), run_facts(found), run_sections(found)))


def run_sections(found: Mapping[str, Any]) -> list[Section]:
    """Return the sections of the page of a run."""
    ids, most = row_ids(step["reference"] for step in found["steps"]), _lines_of_a_diff(found)
    notified = _notified(found["notifications"])
    by_status: dict[str, list[Row]] = {status: [] for status in SECTIONS}
    for step in found["steps"]:
        by_status[step["status"]].append(_run_row(step, notified, ids, most))
    failed, *others = (
        rows_section(title, by_status[status], ids, opened=status == "failed" or len(by_status[status]) <= _FEW)
        for status, title in SECTIONS.items()
    )
    sections = [_problems(found["problems"]), failed, *_timeline(found, ids), *others]
    sections += [_drift(found["drift"], ids, most, "Drifted before")]
    sections += [_notifications(("changed", "refreshed"), found["notifications"], ids)]
    if found.get("kept") is False:
        sections = [Section("Nothing is kept", f"<p>{NOT_KEPT}</p>")]
    return sections


def run_facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of the page of a run: when it was, how long it took, and its counts."""
    counts = found.get("summary") or {}
    return [
        ("run", str(found.get("run", ""))),
        ("started", f"{text.time_of(found.get('started'))} UTC"),
        ("took", "" if found["seconds"] is None else duration(found["seconds"])),
        ("unchanged", str(counts.get("unchanged", ""))),
        ("drifted before", str(found.get("drifted", ""))),
        ("workers", str(max((call["worker"] for call in found["calls"]), default=""))),
        ("exit code", str(counts.get("exit_code", ""))),
        ("resource-api", str(found.get("tool_version", ""))),
    ]


def _notified(pairs: Iterable[Mapping[str, str]]) -> dict[str, tuple[list[str], list[str]]]:
    """Return, by reference, who has notified it and whom it has notified."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for pair in pairs:
        found.setdefault(pair["to"], ([], []))[0].append(pair["from"])
        found.setdefault(pair["from"], ([], []))[1].append(pair["to"])
    return found


def _run_row(step: Mapping[str, Any], notified: Mapping[str, Any], ids: Mapping[str, str], most: int) -> Row:
    reference, failed = step["reference"], step["status"] == "failed"
    by, whom = notified.get(reference, ((), ()))
    error = step["error"] or ""
    body = f'<p class="error">{_lines(error)}</p>' if failed else ""
    body += f'<p class="label">{e(step["file"])}:{e(step["line"])}</p>' if step["file"] else ""
    body += changes(step["changes"], most) if step["status"] != "skipped" else ""
    body += links("refreshed by", by, ids) + links("has notified", whom, ids)
    changed = "" if failed or step["action"] in _WHOLE else _names(step["changes"])
    notes = [error if step["status"] == "skipped" else changed, "corrects drift" if step["corrective"] else ""]
    notes += [duration(step["seconds"]) if step["seconds"] and step["status"] != "skipped" else ""]
    sign = Action[step["action"].upper()].symbol
    return Row(reference, sign, " · ".join(filter(None, notes)), body, bad=failed)


def _lines(value: str) -> str:
    return "\n".join(map(e, value.split("\n")))


def _problems(problems: Sequence[Mapping[str, Any]]) -> Section:
    lines = [located(each, each["message"]) for each in problems]
    return Section("Problems", "".join(f'<p class="error">{_lines(line)}</p>' for line in lines), len(lines))


def _drift(drift: Sequence[Mapping[str, Any]], ids: Mapping[str, str], most: int, title: str = "Drifted") -> Section:
    own = row_ids(each["reference"] for each in drift)
    own = {reference: f"d{id_}" for reference, id_ in own.items()}
    rows = [Row(each["reference"], "", _names(each["changes"]), _drift_body(each, ids, most)) for each in drift]
    return rows_section(title, rows, own)


def _drift_body(each: Mapping[str, Any], ids: Mapping[str, str], most: int) -> str:
    same = links("see", [each["reference"]], ids) if each["reference"] in ids else ""
    return changes(each["changes"], most, before="was", after="is") + same


def _names(found: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(each["attribute"] for each in found)


def _notifications(titles: Sequence[str], pairs: Sequence[Mapping[str, str]], ids: Mapping[str, str]) -> Section:
    rows = ([link(pair["from"], ids), link(pair["to"], ids)] for pair in pairs)
    return Section("Notifications", table(titles, rows), len(pairs))


# A plan


def plan(found: Mapping[str, Any]) -> str:
    """Return the page of the document of a plan: what cannot be planned first."""
    ids, most = row_ids(step["reference"] for step in found["steps"]), _lines_of_a_diff(found)
    bad = [step for step in found["steps"] if step.get("error")]
    acting = [step for step in found["steps"] if not step.get("error") and _acts(step)]
    other = [step for step in found["steps"] if not (step.get("error") or _acts(step))]
    pairs = [{"from": step["reference"], "to": to} for step in acting for to in step["notifies"]]
    counts = found["summary"]
    sections = [
        _problems(found.get("problems", ())),
        rows_section("Cannot be planned", [_plan_row(step, ids, most) for step in bad], ids, opened=True),
        rows_section("To do", [_plan_row(step, ids, most) for step in acting], ids, opened=len(acting) <= _FEW),
        _drift(found["drift"], ids, most),
        _notifications(("changes", "is refreshed"), pairs, ids),
        rows_section("Unchanged", [Row(step["reference"], "", "", _relations(step, ids)) for step in other], ids),
    ]
    shown = ", ".join(count_words({name: counts.get(name) for name in text.PLANNED}, text.PLANNED))
    facts = [
        ("unchanged", str(counts["unchanged"])),
        ("failed", str(counts["failed"] or "")),
        ("serial", str(found["serial"])),
        ("resource-api", str(found["tool_version"])),
    ]
    return write(Page(f"plan of {found['project']}, stack {found['stack']}", shown or "nothing to do", facts, sections))


def _acts(step: Mapping[str, Any]) -> bool:
    return step["action"] != "same" or bool(step["previous"])


def _plan_row(step: Mapping[str, Any], ids: Mapping[str, str], most: int) -> Row:
    error = step.get("error") or ""
    body = f'<p class="error">{_lines(error)}</p>' if error else ""
    body += "".join(f"<p>{e(reason)}</p>" for reason in step["reasons"])
    body += changes((each for each in step["changes"] if each["attribute"] not in step["unknown"]), most)
    body += "".join(
        f'<p class="change"><span class="label">{e(name)}</span> (known after apply)</p>' for name in step["unknown"]
    )
    body += _values(step) if step["action"] in _WITH_VALUES else ""
    body += "".join(f"<p>a change of {e(name)} replaces it</p>" for name in step["replaces_because"])
    effects = describe_side_effects(list(map(SideEffect.from_document, step.get("side_effects") or ())))
    body += "".join(f"<p>{e(line)}</p>" for line in effects)
    notes = ["" if step["action"] in _WHOLE else _names(step["changes"]), "noop" if step["options"]["noop"] else ""]
    notes += [f"was {step['previous']}" if step["previous"] else ""]
    sign = Action[step["action"].upper()].symbol
    return Row(step["reference"], sign, " · ".join(filter(None, notes)), body + _relations(step, ids), bad=bool(error))


def _values(step: Mapping[str, Any]) -> str:
    """Return the values of a step that are not among its changes: parameters, above all."""
    known = {*(each["attribute"] for each in step["changes"]), *step["unknown"]}
    left = {name: value for name, value in step["should"].items() if name not in known and value is not None}
    return "".join(
        f'<p class="change"><span class="label">{e(name)}</span> <code>{_value(value)}</code></p>'
        for name, value in left.items()
    )


def _relations(step: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    found = links("after", step["depends_on"], ids) + links("notifies", step["notifies"], ids)
    return found + links("refreshed by", step["refreshed_by"], ids)


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


def _timeline(found: Mapping[str, Any], ids: Mapping[str, str]) -> list[Section]:
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


#: A tree of so many files is open from the beginning.
_FEW_FILES: Final = 60


def rehearsal(found: Mapping[str, Any]) -> str:
    """Return the page of the document of a rehearsal."""
    run = found["run"]
    ids = row_ids(step["reference"] for step in run["steps"]) if run else {}
    bad = [each["question"] for each in found["verdicts"] if not each["ok"]]
    questions = {each["question"]: f"v{number}" for number, each in enumerate(found["verdicts"])}
    sections = [
        rows_section("Verdicts", [_verdict(each, ids) for each in found["verdicts"]], questions, opened=True),
        _effects(found["side_effects"], ids),
        _findings("Not rehearsed", found["not_rehearsed"], ids),
        _findings("Not damaged", found["not_damaged"], ids),
        *(run_sections(run) if run else ()),
    ]
    about = f" of {run['project']}, stack {run['stack']}" if run else ""
    outcome = f"not well: {', '.join(bad)}" if bad else "all well"
    # The id and the exit code are those of a run that nobody can look up.
    about_run = [each for each in run_facts(run) if each[0] not in {"run", "exit code"}] if run else []
    facts = [("exit code", str(found["exit_code"])), *about_run]
    return write(Page(f"rehearsal{about}", outcome, facts, sections))


def _verdict(verdict: Mapping[str, Any], ids: Mapping[str, str]) -> Row:
    lines = "".join(
        f"<p>{link(each['reference'], ids)} {e(each['text'])}{_place(each)}</p>" for each in verdict["findings"]
    )
    note = "" if verdict["findings"] else verdict["text"]
    return Row(verdict["question"], verdict_mark(verdict["text"], ok=verdict["ok"]), note, lines, bad=not verdict["ok"])


def _place(each: Mapping[str, Any]) -> str:
    return f' <span class="label">{e(each["place"])}</span>' if each["place"] else ""


def _findings(title: str, found: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> Section:
    rows = ([link(each["reference"], ids), e(each["text"]) + _place(each)] for each in found)
    return Section(title, table(("resource", "why, or what would change"), rows), len(found))


# Side effects


def _effects(found: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> Section:
    """Return a section with the paths as a tree, those of each package in one of its own."""
    packages = dict.fromkeys(each["package"] for each in found)
    trees = []
    for package in sorted(packages):
        effects = [each for each in found if each["package"] == package]
        tree: Tree = {}
        for each in effects:
            _put(tree, each)
        opened = not package and len(effects) <= _FEW_FILES
        body = f'<ul class="tree">{_branches(tree, ids, opened=opened)}</ul>'
        title = f"<summary>files of {e(package)} <span class='count'>{len(effects)}</span></summary>"
        trees.append(f"<details>{title}{body}</details>" if package else body)
    return Section("Beyond what is declared", "".join(trees), len(found))


def _put(tree: Tree, effect: Mapping[str, Any]) -> None:
    """Put an effect into a tree, beneath the directories of its path; the key of an effect itself is empty."""
    for depth, part in enumerate(filter(None, effect["path"].split("/"))):
        tree = tree.setdefault(part if depth else f"/{part}", {})
    tree.setdefault("", []).append(effect)


def _branches(tree: Tree, ids: Mapping[str, str], *, opened: bool) -> str:
    return "".join(_branch(name, tree[name], ids, opened=opened) for name in sorted(tree) if name)


def _branch(name: str, below: Tree, ids: Mapping[str, str], *, opened: bool) -> str:
    """Return one entry of a tree; directories with a single entry and no effect of their own are one with it."""
    while len(below) == 1 and "" not in below:
        ((part, below),) = below.items()
        name = f"{name}/{part}"
    done = ", ".join(f"{e(each['verb'])} by {_subjects(each, ids)}{_place(each)}" for each in below.get("", ()))
    head = f"<code>{e(name)}</code> {done}"
    if inner := _branches(below, ids, opened=opened):
        state = " open" if opened else ""
        return f"<li><details{state}><summary>{head}</summary><ul>{inner}</ul></details></li>"
    return f"<li>{head}</li>"


def _subjects(effect: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    return ", ".join(link(each, ids) for each in effect["references"])
