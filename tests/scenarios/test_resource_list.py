"""``resource`` beyond one resource: several types, patterns, filters, formats, the pager and the editor."""

from __future__ import annotations

import csv
import json
import os
import pty
import shlex
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from tests import command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench


@pytest.fixture
def widgets(bench: Bench) -> Bench:
    """Return a bench with four widgets and an account."""
    bench.put(
        "widget",
        alpha={"name": "alpha", "ensure": "present", "size": 5, "colour": "red", "parts": ["bolt", "nut"]},
        beta={"name": "beta", "ensure": "present", "size": 10, "colour": "dark red", "mixed": True},
        gamma={"name": "gamma", "ensure": "present", "weight": 0.5, "labels": {"a": 1}},
        delta={"name": "delta", "ensure": "present", "size": 50, "colour": 'a "b",\nc'},
    )
    return bench


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["widget", "--filter", "sise = 1"], "unknown attribute 'sise' of Widget; did you mean 'size'?"),
        (
            ["widget,pair", "--filter", "sise = 1"],
            "unknown attribute 'sise' of any of these types; did you mean 'size'?",
        ),
        (["widget,pair", "alpha"], "NAME and ATTR=VALUE need exactly one TYPE"),
        (["widget", "a*", "size=3"], "'a*' is a pattern"),
        (["widget", "alpha", "size=3", "--filter", "size = 5"], "--filter cannot be combined with ATTR=VALUE"),
        (["widget", "--all"], "--all lists every type; leave out TYPE, or --all"),
        (["nosuch*"], "nosuch* matches no type"),
        ([","], "name a type, several as TYPE,TYPE, or all with --all"),
        (["widget", "--json", "--format", "csv"], "--json and --format csv exclude each other"),
        (["widget", "--on", "web1", "--edit"], "--edit is for this machine alone"),
        (["widget", "--on", "web1", "--format", "yaml"], "with --on write --format table, csv or json"),
        (["widget", "--on", "web1", "--manifest", "site.yaml"], "--manifest is for this machine alone"),
        (["widget", "--edit", "--format", "csv"], "--edit shows YAML"),
        (["widget", "--edit"], "--edit needs a terminal, or an editor in $VISUAL or $EDITOR"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(widgets: Bench, arguments: list[str], message: str) -> None:
    """Exit code 64, a sentence, and nothing on stdout."""
    result = widgets.run("resource", *arguments)
    assert (result.code, message in result.err) == (64, True), result
    assert not result.out or "--json" in arguments
    assert widgets.things("widget")["alpha"]["size"] == 5
    assert widgets.calls("widget", "get") == [] or arguments[-1] == "--edit"


def test_a_pattern_lists_the_names_that_match(widgets: Bench) -> None:
    """``*`` and ``?`` are the only wildcards; a name that contains them is given as its attribute."""
    result = widgets.run("resource", "widget", "?e*a", "--filter", "size > 9", "--filter", "size < 50", "--json")
    assert [item["title"] for item in result.document] == ["beta"]
    assert widgets.run("resource", "widget", "z*").out == "resources: {}\n"
    assert "Widget[a*]" in widgets.run("resource", "widget", "x", "name=a*").out


def test_an_expression_is_searched_in_the_beginning_of_a_long_text(widgets: Bench) -> None:
    """Of 64 KiB, also of a member of a list: others may have written the text, and a search may take long."""
    first, second = "near" + "x" * 65532, "far" * 1000
    widgets.put(
        "widget", long={"size": 1, "colour": first + second}, listed={"size": 2, "parts": ["bolt", first + second]}
    )
    for attribute, title in (("colour", "long"), ("parts", "listed")):
        for word, titles in (("nearx+", [title]), ("far", []), ("x$", [title])):
            result = widgets.run("resource", "widget", "--filter", f"{attribute} ~ {word}", "--json")
            assert [item["title"] for item in result.document] == titles, word


def test_several_types_are_one_manifest(widgets: Bench) -> None:
    """Each object of JSON then has its reference, and a table and CSV have it too."""
    widgets.put("pair", x={"package": "vim", "manager": "apt"})
    output = widgets.run("resource", "wid*,pair").out
    assert output.count("resources:") == 1
    assert widgets.run("apply", widgets.write("all.yaml", output), "--noop", "--detailed-exitcodes").code == 0
    document = widgets.run("resource", "widget,pair", "--json").document
    assert [item["reference"] for item in document][:2] == ["Widget[alpha]", "Widget[beta]"]
    assert "Widget:\ntitle  ensure" in widgets.run("resource", "widget,pair", "--format", "table").out


def test_a_table_has_a_line_for_each_resource(widgets: Bench) -> None:
    """Columns without a value are left out, control characters are escaped."""
    result = widgets.run("resource", "widget", "--filter", "size < 50", "--format", "table")
    assert result.out.splitlines() == [
        "title  ensure   size  colour    parts            mixed",
        'alpha  present  5     red       ["bolt", "nut"]',
        "beta   present  10    dark red                   true",
    ]


def test_csv_holds_the_values_as_they_are(widgets: Bench) -> None:
    """Quotes and line breaks survive a CSV reader."""
    rows = list(csv.DictReader(widgets.run("resource", "widget", "--format", "csv").out.splitlines(keepends=True)))
    assert {row["title"]: row["colour"] for row in rows}["delta"] == 'a "b",\nc'
    assert json.loads(rows[0]["parts"]) == ["bolt", "nut"]


def test_all_that_can_be_listed_applies_without_change(widgets: Bench) -> None:
    """What cannot be listed, is imperative or needs a configuration is left out, with a reason for those who ask."""
    widgets.environment["RESOURCE_API_MODULE_PATH"] += f":{widgets.home}/empty"
    (widgets.home / "empty").mkdir()
    result = widgets.run("resource", "--all", "-v")
    assert result.code == 0, result
    assert "Info: file: is left out: files cannot be listed; name them" in result.lines
    assert "Info: exec: is left out: what it does cannot be read back" in result.lines
    applied = widgets.run("apply", widgets.write("machine.yaml", result.out), "--noop", "--detailed-exitcodes")
    assert applied.code == 0, applied


def test_a_listing_leaves_out_what_applying_it_would_change(bench: Bench) -> None:
    """Such as a setting in a file that the kernel does not have: only the provider's comparison knows. One is shown."""
    bench.type(
        "rule",
        f'{bench.NAMED} "text": Attribute("String", "t"), "loaded": Attribute("Boolean", "l", kind="read_only"),',
        features={"custom_insync"},
        base="BaseProvider",
        provider="""
        def get(self, context):
            return [{"name": n, "ensure": "present", "text": "x", "loaded": n == "a"} for n in ("a", "b")]
        def insync(self, context, name, attribute, is_, should):
            if attribute == "text" and is_["text"] == should["text"] and not is_["loaded"]:
                return False, "it is not loaded"
        def set(self, context, changes): pass
        """,
    )
    listed = bench.run("resource", "rule")
    assert "  # Rule[b] is left out: it would be changed (text: it is not loaded)\n" in listed.out, listed
    assert "Rule[a]" in listed.out
    assert bench.apply(listed.out, "--detailed-exitcodes").code == 0
    assert "Rule[b]:\n    ensure: present\n    text: x\n    # loaded: false" in bench.run("resource", "rule", "b").out
    assert [item["title"] for item in bench.run("resource", "rule", "--json").document] == ["a", "b"]


def test_what_an_imperative_resource_does_is_no_declaration(bench: Bench) -> None:
    """To apply what is shown would do it."""
    shown = bench.run("resource", "errand", "x")
    assert shown.out == "resources: {}\n  # Errand[x] is left out: what it does cannot be read back\n"
    assert bench.apply(shown.out).out.endswith(": 0 unchanged.\n")
    assert bench.calls("errand", "set") == []


def test_one_type_that_cannot_be_read_hides_no_other(widgets: Bench) -> None:
    """It is an error, and the others are listed."""
    widgets.probe("def get(self, context, names=None):\n    raise OSError('no answer')\ndef set(self, *a): pass")
    result = widgets.run("resource", "probe,widget")
    assert result.code == 1
    assert "no answer" in result.err
    assert "Widget[alpha]" in result.out


def test_a_type_that_cannot_be_listed_hides_no_other(widgets: Bench) -> None:
    """It is an error where it is named, and left out of a pattern; alone it is an error of the command."""
    names = widgets.run("resource", "file,widget")
    assert (names.code, names.lines) == (1, ["Error: file: files cannot be listed; name them"])
    assert "Widget[alpha]" in names.out
    matched = widgets.run("resource", "fi*,widg*", "-v")
    assert (matched.code, "Widget[alpha]" in matched.out) == (0, True)
    assert "Info: file: is left out: files cannot be listed; name them" in matched.lines
    alone = widgets.run("resource", "file,")
    assert (alone.code, alone.out, alone.err) == (1, "", "Error: files cannot be listed; name them\n")
    assert "exe* matches no type that can be listed (-v says why)" in widgets.run("resource", "exe*").err


def editor(bench: Bench, *edits: str) -> dict[str, str]:
    """Return the environment with an editor that makes one of the ``edits``, of Python, each time."""
    bench.write(
        "editor.py",
        f"""
        import sys
        from pathlib import Path
        edits, count, file = {list(edits)!r}, Path("count"), Path(sys.argv[1])
        number = int(count.read_text()) if count.exists() else 0
        count.write_text(str(number + 1))
        text = file.read_text()
        Path(f"seen{{number}}").write_text(text)
        file.write_text(eval(edits[number]) if number < len(edits) else text)
        """,
    )
    return {"EDITOR": shlex.join([sys.executable, str(bench.home / "editor.py")])}


def test_what_is_edited_is_applied(widgets: Bench) -> None:
    """Only resources whose text has changed, and a text with a problem is opened again with the message."""
    environment = editor(widgets, "text.replace('size: 5\\n', 'sise: 6\\n')", "text.replace('sise', 'size')")
    result = widgets.run("resource", "widget", "--edit", **environment)
    assert (result.code, result.out[-24:]) == (0, "1 updated, 0 unchanged.\n"), result
    lines = (widgets.home / "seen1").read_text().splitlines()
    assert lines[0].startswith("#! resources.yaml:5:5: Widget[alpha]: unknown attribute 'sise'")
    assert lines[4] == "    sise: 6"
    assert list(widgets.calls("widget", "set")[0]) == ["alpha"]


@pytest.mark.parametrize(
    ("edits", "code", "message"),
    [
        (["text"], 0, "nothing has been edited"),
        (["''"], 0, "nothing has been edited"),
        (["text.replace('size: 5', 'size: big')"], 65, "resources.yaml:"),
        (["'site: {}'"], 65, "nothing else beside it"),
        (["text + '\\t'"], 65, "resources.yaml:"),
        (["sys.exit(3)"], 1, "ended with exit code 3; nothing is changed"),
    ],
)
def test_an_edit_that_is_given_up_changes_nothing(widgets: Bench, edits: list[str], code: int, message: str) -> None:
    """Neither an unchanged text, nor a problem that stays, nor an editor that fails."""
    result = widgets.run("resource", "widget", "--edit", **editor(widgets, *edits))
    assert (result.code, message in result.err) == (code, True), result
    assert widgets.calls("widget", "set") == []


def on_terminal(bench: Bench, tmp_path: Path, rows: int, *arguments: str) -> tuple[str, bool]:
    """Return what a command shows on a terminal of so many rows, and whether it went through the pager."""
    pager = bench.write("pager.sh", f"#!/bin/sh\ntouch {tmp_path}/paged\nexec cat\n")
    pager.chmod(0o755)
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    try:
        termios.tcsetwinsize(theirs, (rows, 100))
        environment = bench.environment | {"PAGER": str(pager), "TERM": "xterm"}
        process = command.run(list(arguments), cwd=bench.home, env=environment, stdout=theirs)
        assert process.returncode == 0, process
        text = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    return text, (tmp_path / "paged").exists()


@pytest.mark.parametrize(("rows", "how"), [(10, "paged"), (100, "printed")])
def test_what_does_not_fit_on_the_terminal_is_paged(widgets: Bench, tmp_path: Path, rows: int, how: str) -> None:
    """And only that: a pipe never is, nor what fits."""
    output, was_paged = on_terminal(widgets, tmp_path, rows, "resource", "widget")
    assert "Widget[gamma]" in output
    assert was_paged == (how == "paged")
