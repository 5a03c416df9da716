"""How changes are shown, in plans, drift and the log: texts line by line, and nothing that fills the screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

LINES = [f"line {number}" for number in range(3_000)]


def manifest(bench: Bench, text: str, **attributes: object) -> str:
    """Write a manifest of one widget and return its path."""
    resources = {"Widget[a]": {"colour": text, **attributes}}
    return str(bench.write("site.json", json.dumps({"project": "web", "resources": resources})))


def text_of(*lines: str) -> str:
    """Return lines as a text."""
    return "".join(f"{line}\n" for line in lines)


def test_a_text_of_several_lines_is_shown_alike_in_plan_log_and_drift(bench: Bench) -> None:
    """Each counts the lines, and shows the unified diff below."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    site = manifest(bench, text_of("one", "two", "three"))
    bench.run("apply", site)
    bench.put("widget", a={"colour": text_of("one", "2", "three")})
    planned, diff = bench.run("plan", site).out, "@@ -1,3 +1,3 @@\n{0} one\n{0}-{1}\n{0}+{2}\n{0} three\n"
    assert "    colour changed (+1 -1 lines)\n      --- is\n      +++ should\n" in planned
    assert diff.format("      ", "2", "two") in planned
    assert "~ Widget[a] (drift)\n" in planned
    assert planned.count("@@") == 2, "one hunk, shown once"
    text = text_of("one", "two", "three")
    ignored = bench.run("plan", manifest(bench, text, lifecycle={"ignore_changes": ["colour"]})).out
    assert "# Widget[a] has drifted: colour changed (+1 -1 lines)\n    --- was\n    +++ is\n" in ignored
    assert diff.format("    ", "two", "2") in ignored
    logged = bench.run("apply", manifest(bench, text)).err
    assert "Notice: Widget[a]: colour changed (+1 -1 lines)\n  --- is\n  +++ should\n  " in logged
    assert diff.format("  ", "2", "two") in logged


def test_a_large_text_with_few_changes_is_a_short_plan(bench: Bench) -> None:
    """A text of 3,000 lines with two changed ones needs less than 30 lines."""
    bench.put("widget", a={"colour": text_of(*LINES)})
    site = manifest(bench, text_of(*LINES[:99], "x", *LINES[100:2_899], "y", *LINES[2_900:]))
    result = bench.run("apply", site, "--noop")
    assert "colour changed (+2 -2 lines)" in result.out
    assert (len(result.out.splitlines()) < 30, len(result.err.splitlines()) < 30) == (True, True)


def test_all_texts_of_one_resource_fit_on_a_screen(bench: Bench) -> None:
    """They share the lines, in the plan and in the log; each has its numbers."""
    bench.type(
        "page",
        bench.NAMED + '"a": Attribute("Optional[String]", "a"), "b": Attribute("Optional[String]", "b"),',
        provider="""
        FILE = Path(os.environ["BENCH"], "page.json")
        def get(self, context, names=None):
            return [json.loads(self.FILE.read_text())] if self.FILE.exists() else []
        def set(self, context, changes):
            self.FILE.write_text(json.dumps(dict(changes["p"].should)))
        """,
        base="BaseProvider",
    )
    page = {"Page[p]": {"a": "", "b": ""}}
    site = bench.write("site.json", json.dumps({"resources": page}))
    assert bench.run("apply", site).code == 0
    text = text_of(*LINES[:30])
    bench.write("site.json", json.dumps({"resources": {"Page[p]": {"a": text, "b": text}}}))
    for lines in (bench.run("plan", site).out.splitlines(), bench.run("apply", site).lines):
        assert len(lines) < 50
        assert sum("changed (+30 -0 lines)" in line for line in lines) == 2
        assert lines[-1].endswith("… 26 more lines (--diff full)") or lines[-3].endswith(
            "… 26 more lines (--diff full)"
        )


def test_a_command_shows_what_it_would_run(bench: Bench) -> None:
    """When it is due and when it is notified: what is declared, without secrets and without defaults."""
    (bench.home / "word").write_text("Fz81Kq0Lm2Wd")
    bench.write(
        "site.yaml",
        """
        inputs: {word: {type: "Sensitive[String]"}}
        resources:
          Exec[a]: {command: rm -rf /srv/cache, user: nobody, cwd: /srv, input: "${inputs.word}"}
          Exec[b]: {command: /bin/true, refreshonly: true, subscribe: "Exec[a]"}
        """,
    )
    planned = bench.run("plan", "site.yaml", "-i", "word=@word").out
    for line in ("    command: rm -rf /srv/cache\n", "       user: nobody\n", "        cwd: /srv\n"):
        assert line in planned
    assert "      input: <sensitive>\n" in planned
    assert "! Exec[b] (refreshed by Exec[a])\n        command: /bin/true\n    refreshonly: true\n" in planned
    assert "tries" not in planned


def test_few_changes_among_many_resources_fit_on_two_screens(bench: Bench) -> None:
    """Twenty of 2,000 resources: in the plan, and in the run with its log."""
    bench.put("widget", **{f"w{number}": {"size": 1} for number in range(2_000)})
    resources = {f"Widget[w{number}]": {"size": 2 if number % 100 == 0 else 1} for number in range(2_000)}
    site = str(bench.write("site.json", json.dumps({"resources": resources})))
    planned, result = bench.run("plan", site), bench.run("apply", site)
    assert planned.out.endswith("Plan: 20 to update; 1980 unchanged.\n")
    assert result.out.endswith("20 updated, 1980 unchanged.\n")
    assert max(len(item.out.splitlines()) + len(item.lines) for item in (planned, result)) < 100


@pytest.mark.parametrize(
    ("choice", "lines", "last"),
    [("short", 41, "  … 2963 more lines (--diff full)"), ("full", 3_003, "  +line 2999"), ("none", 0, "")],
)
def test_diff_decides_how_much_of_a_text_is_shown(bench: Bench, choice: str, lines: int, last: str) -> None:
    """40 lines, all, or only how many lines change."""
    bench.put("widget", a={"colour": ""})
    _, first, *rest = bench.run("apply", manifest(bench, text_of(*LINES)), "--diff", choice).lines
    assert first == "Notice: Widget[a]: colour changed (+3000 -0 lines)"
    assert len(rest) == lines
    assert rest[-1:] == ([last] if last else [])


def test_long_lines_are_cut_and_end_in_their_length(bench: Bench) -> None:
    """In a value of one line and in a text of several ones; JSON has everything."""
    bench.put("widget", a={"colour": "x" * 120_000})
    site = manifest(bench, "y" * 100_000)
    assert max(map(len, bench.run("plan", site).out.splitlines())) < 500
    _, line = bench.run("apply", site).lines
    assert f"changed from {'x' * 200}… (120000 characters) to {'y' * 200}… (100000 characters)" in line
    (end,) = bench.run("apply", manifest(bench, "z" * 300 + "\nz\n"), "--json").events("step_end")
    assert end["changes"][0]["should"] == "z" * 300 + "\nz\n"
    bench.put("widget", a={"colour": ""})
    assert f"  +{'z' * 199}… (301 characters)" in bench.run("apply", "site.json").lines


def test_two_long_values_are_shown_where_they_differ(bench: Bench) -> None:
    """Their common beginning is left out."""
    bench.put("widget", a={"colour": "x" * 5_000 + "old"})
    planned = bench.run("plan", manifest(bench, "x" * 5_000 + "new")).out
    assert f"colour: …{'x' * 40}old (5003 characters) → …{'x' * 40}new (5003 characters)" in planned


def test_a_secret_is_masked_before_a_line_is_cut(bench: Bench, tmp_path: Path) -> None:
    """No part of it is left at the end of a line, nor in a diff of the text that contains it."""
    (tmp_path / "secret").write_text("Fz81Kq0Lm2Wd")
    text = "x" * 195 + "${inputs.word}\\n" + "second\\n"
    bench.put("widget", a={"colour": "old"})
    site = bench.write(
        "site.yaml",
        f"""
        inputs: {{word: {{type: "Sensitive[String]"}}, plain: {{type: String, default: ""}}}}
        resources:
          Widget[b]: {{colour: "${{inputs.word}}"}}
          Widget[a]: {{colour: "{text.replace("${inputs.word}", "Fz81Kq0Lm2Wd")}"}}
        """,
    )
    output = bench.run("apply", site, "--noop", "-i", f"word=@{tmp_path}/secret")
    shown_again = bench.run("apply", site, "-i", f"word=@{tmp_path}/secret")
    assert "colour changed (+2 -1 lines)" in shown_again.err
    for text in (output.out, output.err, shown_again.err):
        assert "Fz81" not in text
