"""A rehearsal as an HTML page: its verdicts, what was done beyond what is declared as a tree of paths, and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.render.html import pages
from resource_api.render.html.elements import Page, Row, Section, e, link, row_ids, rows_section, table, write
from resource_api.render.text import verdict_mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: Name → what is in that directory, or what was done with that file.
    Tree = dict[str, Any]

#: A tree of so many files is open from the beginning.
_FEW: Final = 60


def page(found: Mapping[str, Any]) -> str:
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
        *(pages.run_sections(run) if run else ()),
    ]
    about = f" of {run['project']}, stack {run['stack']}" if run else ""
    outcome = f"not well: {', '.join(bad)}" if bad else "all well"
    # The id and the exit code are those of a run that nobody can look up.
    about_run = [each for each in pages.run_facts(run) if each[0] not in {"run", "exit code"}] if run else []
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
        opened = not package and len(effects) <= _FEW
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
