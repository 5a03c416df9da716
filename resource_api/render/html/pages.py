"""Render plans, recorded runs, runs over many hosts and rehearsals as HTML pages: failures first.

``anchors``: reference of a resource → id of its row, for links to it; ``diff_lines``: the most lines of a diff.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, SideEffect, describe_side_effects, is_text_change
from resource_api.model.report import DONE, count_words
from resource_api.model.values.text import show_attribute
from resource_api.render import text
from resource_api.render.changes import PLAIN, cut_line, cut_pair, text_diff
from resource_api.render.fleet import ORDER, counts, hosts_of
from resource_api.render.html.elements import (
    Page,
    PageRow,
    Section,
    e,
    link,
    links,
    row_anchors,
    rows_section,
    table,
    write,
)
from resource_api.render.json import acts
from resource_api.render.plan import FAILED
from resource_api.render.run_document import located
from resource_api.render.run_text import NOT_KEPT, SECTIONS, call_text, duration, longest_chain
from resource_api.render.text import verdict_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import (
        CallJson,
        ChangeJson,
        DriftChangeJson,
        DriftJson,
        EffectJson,
        FindingJson,
        FleetJson,
        HostGroupJson,
        HostJson,
        NotificationJson,
        PlanJson,
        PlanStepJson,
        ProblemJson,
        RehearsalJson,
        RunJson,
        RunStepJson,
        VerdictJson,
    )

    #: Name → the tree of that directory; the empty name → the side effects on the path itself.
    Tree = dict[str, Any]
    #: The notifying and the notified resources of one resource.
    _Pair = tuple[list[str], list[str]]


#: The first lines of a diff, which name its two sides.
_HEADER: Final = 2
#: Lines of a diff that a page shows: at most and at least, and of all diffs together.
_LINES: Final = (400, 20)
_ALL_LINES: Final = 40_000
#: Characters of a value that a page shows.
_LONGEST: Final = 2000
#: The most rows of a section that is open initially.
_FEW: Final = 20
#: Actions after which the values that are not among the changes matter too.
_WITH_VALUES: Final = frozenset({"create", "replace", "run"})
#: Actions that concern all of a resource.
_WHOLE: Final = frozenset({"create", "delete", "forget"})


def changes(documents: Iterable[ChangeJson], diff_lines: int) -> str:
    """Return the HTML of a step's changes, a paragraph for each attribute.

    ``diff_lines``: the most lines of each diff, so that a browser can open a page with many changes.
    """
    return "".join(
        _change(Difference(c["attribute"], c["is"], c["should"], c["message"] or ""), diff_lines) for c in documents
    )


def _change(difference: Difference, diff_lines: int) -> str:
    """Return the HTML of a changed attribute: for texts a diff of at most ``diff_lines``, otherwise both values.

    A change that has no values to show, but an explanation of the provider, has only that.
    """
    name = f'<span class="label">{e(difference.attribute)}</span>'
    if difference.only_explained:
        return f'<p class="change">{name} {e(difference.message)}</p>'
    message = f" ({e(difference.message)})" if difference.message else ""
    if is_text_change(difference):
        lines = text_diff(difference, PLAIN, most=diff_lines, advice="")
        content = "".join(map(_diff_line, islice(lines, _HEADER, None)))
        return f'<p>{name}{message}</p><pre class="diff">{content}</pre>'
    is_, should = map(e, cut_pair(list(map(show_attribute, difference.values)), _LONGEST))
    pair = f'<code class="minus">{is_}</code> → <code class="plus">{should}</code>'
    return f'<p class="change">{name} {pair}{message}</p>'


def _value(value: object) -> str:
    """Return the HTML of a value, a long one cut with its length."""
    return e(cut_line(show_attribute(value), _LONGEST))


def _diff_line(line: str) -> str:
    """Return the HTML of a line of a unified diff, coloured by its first character."""
    kind = {"+": ' class="plus"', "-": ' class="minus"', "@": ' class="at"'}.get(line[:1], "")
    return f"<span{kind}>{e(line) or ' '}</span>"


def _diff_limit(document: PlanJson | RunJson) -> int:
    """Return the most lines of each diff on a page: fewer for more changes, so that a browser can open it."""
    count = sum(len(row["changes"]) for row in (*document["steps"], *document["drift"]))
    most, least = _LINES
    return max(least, min(most, _ALL_LINES // max(1, count)))


def run(document: RunJson) -> str:
    """Return the HTML page of a finished run from its JSON document: its failures first."""
    command = str(document.get("command") or "run")
    title = f"{command} of {document.get('project', '')}, stack {document.get('stack', '')}"
    # Without the exit code, which is among the facts: the outcome omits 0.
    outcome = text.run_outcome({**document, "summary": {**(document.get("summary") or {}), "exit_code": 0}})
    return write(Page(title, outcome.removeprefix(f"{command}: "), run_facts(document), run_sections(document)))


def run_sections(document: RunJson) -> list[Section]:
    """Return the sections of the page of a run: problems and failures first, then the timeline and the other statuses.

    Of an old run only a line in the history is kept: its page has a single section that explains this. The page of a
    rehearsal uses this function for its run.
    """
    if document.get("kept") is False:
        return [Section("Nothing is kept", f"<p>{NOT_KEPT}</p>")]
    anchors, diff_lines = row_anchors(step["reference"] for step in document["steps"]), _diff_limit(document)
    notified = _notified(document["notifications"])
    by_status: dict[str, list[PageRow]] = {status: [] for status in SECTIONS}
    for step in document["steps"]:
        by_status[step["status"]].append(_run_row(step, notified, anchors, diff_lines))
    failed, *others = (
        rows_section(title, by_status[status], anchors, opened=status == "failed" or len(by_status[status]) <= _FEW)
        for status, title in SECTIONS.items()
    )
    return [
        _problems(document["problems"]),
        failed,
        *_timeline(document, anchors),
        *others,
        _drift(document["drift"], anchors, diff_lines, "Drifted before"),
        _notifications(("changed", "refreshed"), document["notifications"], anchors),
    ]


def run_facts(document: RunJson) -> list[tuple[str, str]]:
    """Return the names and texts of facts about a run for the head of its page, which omits empty ones."""
    counts: Mapping[str, object] = document.get("summary") or {}
    return [
        ("run", str(document.get("run", ""))),
        ("started", f"{text.time_of(document.get('started'))} UTC"),
        ("took", "" if document["seconds"] is None else duration(document["seconds"])),
        ("unchanged", str(counts.get("unchanged", ""))),
        ("drifted before", str(document.get("drifted", ""))),
        ("workers", str(max((call["worker"] for call in document["calls"]), default=""))),
        ("exit code", str(counts.get("exit_code", ""))),
        ("resource-api", str(document.get("tool_version", ""))),
    ]


def _notified(pairs: Iterable[NotificationJson]) -> dict[str, _Pair]:
    """Return the notifications of a run by resource, for the links in both directions between the rows of a page.

    A reference → the resources that notified it, and the resources that it notified.
    """
    notified: dict[str, _Pair] = {}
    for pair in pairs:
        notified.setdefault(pair["to"], ([], []))[0].append(pair["from"])
        notified.setdefault(pair["from"], ([], []))[1].append(pair["to"])
    return notified


def _run_row(step: RunStepJson, notified: Mapping[str, _Pair], anchors: Mapping[str, str], diff_lines: int) -> PageRow:
    """Return the row of a resource on the page of a run; its details are its error, changes and notifications.

    Beside the reference are the names of changed attributes, except for a creation or removal, which concerns all
    attributes. ``notified``: as ``_notified`` returns it.
    """
    reference, failed = step["reference"], step["status"] == "failed"
    notifying, notified_by_it = notified.get(reference, ([], []))
    error = step["error"] or ""
    body = _error(error) if failed else ""
    body += f'<p class="label">{e(step["file"])}:{e(step["line"])}</p>' if step["file"] else ""
    body += changes(step["changes"], diff_lines) if step["status"] != "skipped" else ""
    body += links("refreshed by", notifying, anchors) + links("has notified", notified_by_it, anchors)
    changed = "" if failed or step["action"] in _WHOLE else _attribute_names(step["changes"])
    notes = [error if step["status"] == "skipped" else changed, "corrects drift" if step["corrective"] else ""]
    notes += [duration(step["seconds"]) if step["seconds"] and step["status"] != "skipped" else ""]
    sign = Action[step["action"].upper()].symbol
    return PageRow(reference, sign, " · ".join(filter(None, notes)), body, bad=failed)


def _error(text: str) -> str:
    """Return the HTML of an error; its line breaks stay, which ``e`` would escape as control characters."""
    return f'<p class="error">{chr(10).join(map(e, text.split(chr(10))))}</p>'


def _problems(problems: Sequence[ProblemJson]) -> Section:
    """Return the problems that belong to no step, each with its file and line."""
    lines = [located(problem, problem["message"]) for problem in problems]
    return Section("Problems", "".join(map(_error, lines)), len(lines))


def _drift(drift: Sequence[DriftJson], anchors: Mapping[str, str], diff_lines: int, title: str = "Drifted") -> Section:
    """Return the section of drifted resources, linked by ``anchors`` to their steps, if they have one.

    Its rows have ids of their own, such as ``dr3``, because ``r3`` is that of a step.
    """
    drift_anchors = {reference: f"d{id_}" for reference, id_ in row_anchors(row["reference"] for row in drift).items()}
    rows = [
        PageRow(row["reference"], "", _attribute_names(row["changes"]), _drift_body(row, anchors, diff_lines))
        for row in drift
    ]
    return rows_section(title, rows, drift_anchors)


def _drift_body(row: DriftJson, anchors: Mapping[str, str], diff_lines: int) -> str:
    """Return the details of a drifted resource: its recorded and present values, and a link to its step, if any."""
    link_to_step = links("see", [row["reference"]], anchors) if row["reference"] in anchors else ""
    differences = (Difference(change["attribute"], change["was"], change["is"]) for change in row["changes"])
    return "".join(_change(difference, diff_lines) for difference in differences) + link_to_step


def _attribute_names(changes: Iterable[ChangeJson | DriftChangeJson]) -> str:
    """Return the names of changed attributes, joined by commas."""
    return ", ".join(change["attribute"] for change in changes)


def _notifications(titles: Sequence[str], pairs: Sequence[NotificationJson], anchors: Mapping[str, str]) -> Section:
    """Return the section with a table of notifying and notified resources; ``titles``: of its two columns."""
    rows = ([link(pair["from"], anchors), link(pair["to"], anchors)] for pair in pairs)
    return Section("Notifications", table(titles, rows), len(pairs))


def plan(document: PlanJson) -> str:
    """Return the HTML page of a plan from its JSON document: steps that cannot be planned first, then those that act.

    Only steps that act notify others in the apply, so only their notifications are listed.
    """
    steps, diff_lines = document["steps"], _diff_limit(document)
    anchors = row_anchors(step["reference"] for step in steps)
    bad = [step for step in steps if step.get("error")]
    acting = [step for step in steps if acts(step) and not step.get("error")]
    pairs: list[NotificationJson] = [
        {"from": step["reference"], "to": to} for step in acting for to in step["notifies"]
    ]
    bad_rows, acting_rows = ([_plan_row(step, anchors, diff_lines) for step in group] for group in (bad, acting))
    unchanged = [PageRow(step["reference"], body=_relations(step, anchors)) for step in steps if not acts(step)]
    sections = [
        _problems(document.get("problems", ())),
        rows_section("Cannot be planned", bad_rows, anchors, opened=True),
        rows_section("To do", acting_rows, anchors, opened=len(acting) <= _FEW),
        _drift(document["drift"], anchors, diff_lines),
        _notifications(("changes", "is refreshed"), pairs, anchors),
        rows_section("Unchanged", unchanged, anchors),
    ]
    counts = document["summary"]
    outcome = ", ".join(count_words({name: dict(counts).get(name) for name in text.PLANNED}, text.PLANNED))
    facts = [
        ("unchanged", str(counts["unchanged"])),
        ("failed", str(counts["failed"] or "")),
        ("serial", str(document["serial"])),
        ("resource-api", str(document["tool_version"])),
    ]
    title = f"plan of {document['project']}, stack {document['stack']}"
    return write(Page(title, outcome or "nothing to do", facts, sections))


def _plan_row(step: PlanStepJson, anchors: Mapping[str, str], diff_lines: int) -> PageRow:
    """Return the row of a planned step: its sign, changed attributes and remarks, and its details to open below."""
    sign = FAILED if step.get("error") else Action[step["action"].upper()].symbol
    notes = [
        "" if step["action"] in _WHOLE else _attribute_names(step["changes"]),
        "noop" if step["options"]["noop"] else "",
        f"was {step['previous']}" if step["previous"] else "",
    ]
    body = "".join(_plan_details(step, anchors, diff_lines))
    return PageRow(step["reference"], sign, " · ".join(filter(None, notes)), body, bad=bool(step.get("error")))


def _plan_details(step: PlanStepJson, anchors: Mapping[str, str], diff_lines: int) -> Iterator[str]:
    """Yield the HTML of a planned step's error, reasons, changes, side effects and relationships."""
    if error := step.get("error"):
        yield _error(error)
    yield from (f"<p>{e(reason)}</p>" for reason in step["reasons"])
    yield changes((change for change in step["changes"] if change["attribute"] not in step["unknown"]), diff_lines)
    for name in step["unknown"]:
        yield f'<p class="change"><span class="label">{e(name)}</span> (known after apply)</p>'
    if step["action"] in _WITH_VALUES:
        yield _values(step)
    yield from (f"<p>a change of {e(name)} replaces it</p>" for name in step["replaces_because"])
    effects = map(SideEffect.from_document, step.get("side_effects") or ())
    yield from (f"<p>{e(line)}</p>" for line in describe_side_effects(list(effects)))
    yield _relations(step, anchors)


def _values(step: PlanStepJson) -> str:
    """Return the HTML of a planned step's values that are not among its changes, such as parameters.

    They are shown for actions that use all values: a creation, a replacement and a run of an imperative resource.
    """
    shown_names = {*(change["attribute"] for change in step["changes"]), *step["unknown"]}
    remaining = {name: value for name, value in step["should"].items() if name not in shown_names and value is not None}
    return "".join(
        f'<p class="change"><span class="label">{e(name)}</span> <code>{_value(value)}</code></p>'
        for name, value in remaining.items()
    )


def _relations(step: PlanStepJson, anchors: Mapping[str, str]) -> str:
    """Return the links from a step to its prerequisites, to the resources that it notifies, and to its notifiers."""
    relations = links("after", step["depends_on"], anchors) + links("notifies", step["notifies"], anchors)
    return relations + links("refreshed by", step["refreshed_by"], anchors)


#: Pixels of the row of one worker, of its bar, and of the scale.
_ROW: Final = 26
_BAR: Final = 18
_SCALE: Final = 22
#: Percent of the width: the column of workers' names, and the width below which a bar joins the previous one.
_LEFT: Final = 7.0
_NARROW: Final = 0.15
_TICKS: Final = 5
#: Calls of the longest chain that are listed, the longest ones.
_CALLS: Final = 40


def _timeline(document: RunJson, anchors: Mapping[str, str]) -> list[Section]:
    """Return two sections from which a user sees why a run took long; none without calls.

    One draws all calls of providers by worker and time. The other lists the longest chain of calls, each of which had
    to wait for the one before.
    """
    calls = document["calls"]
    if not calls:
        return []
    end = max(call["started"] + call["seconds"] for call in calls) or 1e-6  # positions are divided by it
    # Index of a call → its CSS class; a failed call of the longest chain is drawn as failed.
    kinds = dict.fromkeys(document["critical_path"], "path")
    for step in document["steps"]:
        if step["status"] == "failed" and step["call"] is not None:
            kinds[step["call"]] = "failed"
    workers = max(call["worker"] for call in calls)
    bars = "".join(_bar(group, calls, kinds, end, anchors) for group in _bar_groups(calls, end))
    names = "".join(
        f'<text x="0" y="{(number - 1) * _ROW + 14}">{f"worker {number}" if workers > 1 else "calls"}</text>'
        for number in range(1, workers + 1)
    )
    height = workers * _ROW + _SCALE
    drawing = f'<svg width="100%" height="{height}" role="img" aria-label="Calls of providers by worker">'
    drawing += f"{_scale(end, workers * _ROW)}{names}{bars}</svg>{_LEGEND}"
    return [Section("Timeline", drawing), _critical_path(document, anchors)]


_LEGEND: Final = (
    '<p class="legend"><span class="key"></span>call of a provider<span class="key path"></span>in the longest chain'
    '<span class="key failed"></span>with a failure</p>'
)


def _bar_groups(calls: Sequence[CallJson], end: float) -> Iterator[list[int]]:
    """Yield for each bar of the timeline the indices of the calls that it stands for.

    A run may have thousands of short calls: successive ones of one worker share a bar while that is narrower than
    ``_NARROW`` percent, as each of their bars would be invisible. ``end``: the seconds of the whole timeline.
    """
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
    group: Sequence[int], calls: Sequence[CallJson], kinds: Mapping[int, str], end: float, anchors: Mapping[str, str]
) -> str:
    """Return a bar of the timeline, for the calls at ``group``, linked to the row of its first resource.

    ``kinds``: index → CSS class ``failed`` or ``path``. ``end``: seconds of the whole timeline.
    """
    first, last = calls[group[0]], calls[group[-1]]
    seconds = last["started"] + last["seconds"] - first["started"]
    # One class for all calls of the bar: a failure outweighs "path", and "failed" < "path" as text.
    kind = min((kinds[number] for number in group if number in kinds), default="")
    label = call_text(first) if len(group) == 1 else f"{len(group)} calls, the first: {call_text(first)}"
    title = e(f"{label}: {duration(seconds)}, {duration(first['started'])} after the start")
    x, width, y = _position(first["started"], end), max(_width(seconds, end), _NARROW), (first["worker"] - 1) * _ROW
    geometry = f'x="{x:.3f}%" y="{y}" width="{width:.3f}%" height="{_BAR}"'
    drawn = f'<rect class="bar {kind}" {geometry}><title>{title}</title></rect>'
    target = anchors.get(first["first"])  # the first resource of the call
    return f'<a href="#{target}" aria-label="{title}">{drawn}</a>' if target else drawn


def _position(seconds: float, end: float) -> float:
    """Return the horizontal position of a moment of a run of ``end`` seconds, in percent of the drawing."""
    return _LEFT + _width(seconds, end)


def _width(seconds: float, end: float) -> float:
    """Return the width of a duration in percent of the drawing, which ends 1 % before its right edge."""
    return seconds / end * (100 - _LEFT - 1)


def _scale(end: float, height: int) -> str:
    """Return the SVG of the timeline's scale, of ``end`` seconds: ticks through its ``height``, and times below."""
    elements = []
    for number in range(_TICKS + 1):
        seconds = end * number / _TICKS
        x = f"{_position(seconds, end):.3f}%"
        # The first and the last time must not stand out of the drawing.
        anchor = {0: "start", _TICKS: "end"}.get(number, "middle")
        elements.append(f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
        elements.append(f'<text x="{x}" y="{height + 15}" text-anchor="{anchor}">{duration(seconds)}</text>')
    return "".join(elements)


def _critical_path(document: RunJson, anchors: Mapping[str, str]) -> Section:
    """Return the section on the chain of calls that determined the run's length, with its longest calls."""
    calls, longest = longest_chain(document, _CALLS)
    total, rows = sum(call["seconds"] for call in calls), []
    for call in longest:
        more = f" and {call['resources'] - 1} more" if call["resources"] > 1 else ""
        target = f"{e(call['method'])} {link(call['first'], anchors)}{more}"
        rows.append([duration(call["started"]), duration(call["seconds"]), target])
    rest = f'<p class="legend">and {len(calls) - len(longest)} shorter calls</p>' if len(calls) > len(longest) else ""
    time = f"{duration(total)} of {duration(document['seconds'] or 0)}"
    whole = f'<p class="legend">{time}: each waited for the one before.</p>'
    listed = table(("from", "took", "call"), rows, numbers=2)
    return Section("Longest chain of calls", whole + listed + rest, len(calls))


#: The most files of a tree that is open initially.
_FEW_FILES: Final = 60


def rehearsal(document: RehearsalJson) -> str:
    """Return the HTML page of a rehearsal from its JSON document: verdicts, side effects, remarks, and its run."""
    run = document["run"]
    anchors = row_anchors(step["reference"] for step in run["steps"]) if run else {}
    bad = [item["question"] for item in document["verdicts"] if not item["ok"]]
    questions = {item["question"]: f"v{number}" for number, item in enumerate(document["verdicts"])}
    sections = [
        rows_section("Verdicts", [_verdict(item, anchors) for item in document["verdicts"]], questions, opened=True),
        _effects(document["side_effects"], anchors),
        _findings("Not rehearsed", document["not_rehearsed"], anchors),
        _findings("Not damaged", document["not_damaged"], anchors),
        *(run_sections(run) if run else ()),
    ]
    of_stack = f" of {run['project']}, stack {run['stack']}" if run else ""
    outcome = f"not well: {', '.join(bad)}" if bad else "all well"
    # The id and the exit code of its run are left out: that run is not recorded.
    run_rows = [item for item in run_facts(run) if item[0] not in {"run", "exit code"}] if run else []
    facts = [("exit code", str(document["exit_code"])), *run_rows]
    return write(Page(f"rehearsal{of_stack}", outcome, facts, sections))


def _verdict(verdict: VerdictJson, anchors: Mapping[str, str]) -> PageRow:
    """Return the row of a rehearsal's question, such as whether a second run is silent, with its findings below."""
    lines = "".join(
        f"<p>{link(finding['reference'], anchors)} {e(finding['text'])}{_place(finding)}</p>"
        for finding in verdict["findings"]
    )
    note, sign = "" if verdict["findings"] else verdict["text"], verdict_mark(verdict["text"], ok=verdict["ok"])
    return PageRow(verdict["question"], sign, note, lines, bad=not verdict["ok"])


def _place(finding: FindingJson | EffectJson) -> str:
    """Return the HTML of the file and line of a rehearsal's finding or side effect, or "" if they are not known."""
    return f' <span class="label">{e(finding["place"])}</span>' if finding["place"] else ""


def _findings(title: str, findings: Sequence[FindingJson], anchors: Mapping[str, str]) -> Section:
    """Return a section with a table of resources, such as those not rehearsed, each with the reason."""
    rows = ([link(finding["reference"], anchors), e(finding["text"]) + _place(finding)] for finding in findings)
    return Section(title, table(("resource", "why, or what would change"), rows), len(findings))


def _effects(effects: Sequence[EffectJson], anchors: Mapping[str, str]) -> Section:
    """Return the section of the paths that the run has changed without a declaration, as a tree of directories.

    The files of each package are a tree of their own, closed at first: they are many, and expected of an installation.
    """
    packages = dict.fromkeys(effect["package"] for effect in effects)
    trees = []
    # The empty name, of files of no package, comes first.
    for package in sorted(packages):
        group = [effect for effect in effects if effect["package"] == package]
        tree: Tree = {}
        for effect in group:
            _add_effect(tree, effect)
        opened = not package and len(group) <= _FEW_FILES
        body = f'<ul class="tree">{_branches(tree, anchors, opened=opened)}</ul>'
        title = f"<summary>files of {e(package)} <span class='count'>{len(group)}</span></summary>"
        trees.append(f"<details>{title}{body}</details>" if package else body)
    return Section("Beyond what is declared", "".join(trees), len(effects))


def _add_effect(tree: Tree, effect: EffectJson) -> None:
    """Add a side effect to a tree of directories, which the page shows: ``{"/etc": {"motd": {"": [effect]}}}``.

    The key "" has the effects on the path itself: no file has that name.
    """
    for depth, part in enumerate(filter(None, effect["path"].split("/"))):
        tree = tree.setdefault(part if depth else f"/{part}", {})
    tree.setdefault("", []).append(effect)


def _branches(tree: Tree, anchors: Mapping[str, str], *, opened: bool) -> str:
    """Return the HTML of the files and directories in a tree, by name; ``opened``: with the directories unfolded."""
    return "".join(_branch(name, tree[name], anchors, opened=opened) for name in sorted(tree) if name)


def _branch(name: str, below: Tree, anchors: Mapping[str, str], *, opened: bool) -> str:
    """Return the HTML of a file or directory, with the tree ``below`` it.

    Directories with one entry are joined into one line, ``/var/lib/app``, to save the reader clicks.
    """
    while len(below) == 1 and "" not in below:
        ((part, below),) = below.items()  # the only entry
        name = f"{name}/{part}"
    description = ", ".join(
        f"{e(effect['verb'])} by {', '.join(link(name, anchors) for name in effect['references'])}{_place(effect)}"
        for effect in below.get("", ())
    )
    head = f"<code>{e(name)}</code> {description}"
    if inner := _branches(below, anchors, opened=opened):
        state = " open" if opened else ""
        return f"<li><details{state}><summary>{head}</summary><ul>{inner}</ul></details></li>"
    return f"<li>{head}</li>"


#: Status → the sign of a row.
_HOST_SIGNS: Final = {
    "changed": "~",
    "unchanged": "=",
    "failed": "!",
    "unreachable": "!",
    "refused": "!",
    "untouched": ".",
}
_BAD_STATUSES: Final = frozenset({"failed", "unreachable", "refused"})
#: The counts of resources that are shown of one host.
_HOST_COUNTS: Final = (*text.CHANGES, "unchanged")


def fleet(document: FleetJson) -> str:
    """Return the HTML page of a run over hosts from its JSON document: groups of hosts, then each host.

    Hosts with equal results are one group, and groups of failed hosts come first.
    """
    anchors = row_anchors(host["name"] for host in document["hosts"])
    # Folded names → the id of a group's row, which differs from those of hosts.
    folded = {
        name: f"g{id_}" for name, id_ in row_anchors(",".join(group["hosts"]) for group in document["groups"]).items()
    }
    sections = [_host_groups(status, document["groups"], folded) for status in reversed(ORDER)]
    sections += [
        _untouched(document["hosts"]),
        _batches(document["hosts"]),
        rows_section("Hosts", list(map(_host_row, document["hosts"])), anchors),
    ]
    title = f"{document['command']} on {hosts_of(len(document['hosts']))}"
    facts = [
        ("run", document["run"]),
        ("started", f"{text.time_of(document['started'])} UTC"),
        ("took", duration(document["seconds"])),
        ("stopped", document["stop"] or ""),
        ("resources", _resource_counts(document["summary"])),
        ("exit code", str(document["summary"]["exit_code"])),
        ("resource-api", document["tool_version"]),
    ]
    return write(Page(title, counts(document["counts"]), facts, sections))


def _host_groups(status: str, groups: Sequence[HostGroupJson], anchors: Mapping[str, str]) -> Section:
    """Return the section of the hosts with one status, in groups with equal results, the largest group first.

    The number in its heading counts hosts, not groups. The rows of a bad status are open, so that errors are visible.
    """
    matching = sorted((group for group in groups if group["status"] == status), key=lambda group: -group["count"])
    rows = [_host_group(group) for group in matching]
    section = rows_section(status.capitalize(), rows, anchors, opened=status in _BAD_STATUSES or len(rows) <= _FEW)
    return section._replace(number=sum(group["count"] for group in matching))


def _host_group(group: HostGroupJson) -> PageRow:
    """Return the row of a group of hosts with equal results, with the result below."""
    lines = [*group["lines"], *([f"… {group['more']} more"] if group["more"] else [])]
    body = f'<p class="error">{e(group["error"])}</p>' if group["error"] else ""
    body += f"<pre>{chr(10).join(map(e, lines))}</pre>" if lines else ""
    sign, bad = _HOST_SIGNS[group["status"]], group["status"] in _BAD_STATUSES
    return PageRow(",".join(group["hosts"]), sign, hosts_of(group["count"]), body, bad)


def _untouched(hosts: Iterable[HostJson]) -> Section:
    """Return the section with the number of hosts that were never contacted, for each reason, such as a stopped run."""
    reasons = Counter(host["error"] for host in hosts if host["status"] == "untouched")
    body = "".join(
        f"<p>{e(hosts_of(number))}: {e(reason or 'the run ended before')}</p>" for reason, number in reasons.items()
    )
    return Section("Untouched", body, sum(reasons.values()))


def _batches(hosts: Iterable[HostJson]) -> Section:
    """Return the section with the hosts of each batch by status; empty, and so omitted, for a single batch."""
    batches: dict[int, dict[str, int]] = {}
    for host in hosts:
        batch = batches.setdefault(host["batch"], dict.fromkeys(ORDER, 0))
        batch[host["status"]] += 1
    if len(batches) < 2:  # noqa: PLR2004 - a single batch is the whole run
        return Section("Batches", "")
    rows = ([str(number), *(f"{count:,}" for count in row.values())] for number, row in sorted(batches.items()))
    return Section("Batches", table(("batch", *ORDER), rows, numbers=1 + len(ORDER)), len(batches))


def _host_row(host: HostJson) -> PageRow:
    """Return the row of one host: its counts, status and duration, and the error below.

    A host that was never contacted has no error: its reason is in the section ``Untouched``.
    """
    status, error = host["status"], host["error"] or ""
    notes = [_resource_counts(host["summary"] or {}), status, duration(host["seconds"]) if host["seconds"] else ""]
    body = f'<p class="error">{e(error)}</p>' if error and status != "untouched" else ""
    note, bad = " · ".join(filter(None, notes)), status in _BAD_STATUSES
    return PageRow(host["name"], _HOST_SIGNS[status], note, body, bad)


def _resource_counts(summary: Mapping[str, object]) -> str:
    """Return ``2 created, 12 unchanged``, without counts that are zero."""
    return ", ".join(count_words({name: summary.get(name) for name in _HOST_COUNTS}, DONE))
