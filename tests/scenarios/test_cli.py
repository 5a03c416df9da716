"""The command line: streams, exit codes, options, and the commands that only read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.conftest import MODULES
from tests.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nosuch"],
        ["nosuch"],
        ["apply"],
        ["apply", "a.yaml", "b.yaml"],
        ["apply", "--strict", "loud", "a.yaml"],
        ["apply", "--parallel", "0", "a.yaml"],
        ["apply", "--stack", "two words", "site.yaml"],
        ["apply", "--project", "-x", "site.yaml"],
        ["apply", "--lock-timeout", "-1", "site.yaml"],
        ["apply", "--lock-timeout", "nan", "site.yaml"],
        ["apply", "--state", "nosuch:x", "site.yaml"],
        ["apply", "--state", "", "site.yaml"],
        ["apply", "--module-path", "/no/such/dir", "a.yaml"],
        ["apply", "--module-path", "", "site.yaml"],
        ["apply", "site.txt"],
        ["resource"],
        ["resource", "nosuch"],
        ["resource", "widget", "a", "size"],
        ["resource", "widget", "a", "sise=3"],
        ["resource", "widget", "a", "size=big"],
        ["resource", "widget", "a", "=3"],
        ["describe", "nosuch"],
        ["graph", "--format", "png", "site.yaml"],
        ["new", "type"],
        ["new", "type", "Bad-Name"],
    ],
)
def test_wrong_usage_is_64(bench: Bench, arguments: list[str]) -> None:
    """Wrong usage exits with 64, prints the reason on stderr and nothing on stdout."""
    bench.write("site.yaml", "resources: {}\n")
    bench.write("site.txt", "resources: {}\n")
    result = bench.run(*arguments)
    assert (result.code, result.out) == (64, ""), result
    assert result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan"], "Missing argument 'MANIFEST'; in this directory: site.yaml"),
        (["plan", "site.yaml", "--nosuch"], "No such option '--nosuch'."),
        (["graph", "site.yaml", "--format", "png"], "Invalid value for '--format': 'png' is not one of"),
        (["history", "diff"], "Missing argument 'A'."),
        (["nosuch"], "No such command 'nosuch'."),
        (["destroy", "site.yaml", "-o", "later.json", "--nosuch"], "No such option '--nosuch'."),
        (["resource", "widget", "--on", "web1", "--nosuch"], "No such option '--nosuch'."),
    ],
)
def test_a_command_line_that_cannot_be_parsed_has_a_json_document(
    bench: Bench, arguments: list[str], message: str
) -> None:
    """With ``--json``, as every other error has one; people get the usage on stderr."""
    bench.write("site.yaml", "resources: {}\n")
    result = bench.run(*arguments, "--json")
    (diagnostic,) = result.document["diagnostics"]
    assert (result.code, result.document["exit_code"], diagnostic["code"]) == (64, 64, "usage")
    assert diagnostic["message"].startswith(message), result
    assert message in result.err


@pytest.mark.parametrize("command", ["apply", "destroy", "agent once"])
@pytest.mark.parametrize("mistake", [("site.yaml", "--parallel", "0"), ("site.yaml", "--parallel"), ("",)])
def test_the_stream_of_a_command_line_that_cannot_be_parsed_ends_with_the_summary(
    bench: Bench, command: str, mistake: tuple[str, ...]
) -> None:
    """A script that reads the last line finds the exit code there, and times that never go back."""
    result = bench.run(*command.split(), "--json", *mistake)
    diagnostic, summary = result.events()
    assert (diagnostic["type"], diagnostic["code"]) == ("diagnostic", "usage")
    assert (result.code, summary["type"], summary["exit_code"]) == (64, "summary", 64)
    assert diagnostic["timestamp"] <= summary["timestamp"]


@pytest.mark.parametrize(
    "arguments",
    ["plan no.yaml --on x", "facts --on !x", "state list --on ", "run --on !x true", "plan --on x --no"],
)
def test_with_hosts_every_failure_is_a_stream_that_ends_with_the_summary(bench: Bench, arguments: str) -> None:
    """Whatever the command would write about this machine; ``resource`` writes one document in any case."""
    result = bench.run(*arguments.split(" "), "--json")
    *_, diagnostic, summary = result.events()
    assert (diagnostic["type"], summary["type"], summary["exit_code"]) == ("diagnostic", "summary", result.code)
    assert result.code in {64, 65}
    assert bench.run("resource", "widget", "--on", "!x", "--json").document["exit_code"] == 64


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_wrong_usage_has_its_code_and_document_whatever_becomes_of_the_log(bench: Bench, redirection: str) -> None:
    """The exit code is 64, and stdout has the document alone."""
    shell = f'"$@" plan --json --nosuch {redirection}'
    process = bench.shell(shell)
    assert (process.returncode, json.loads(process.stdout)["exit_code"]) == (64, 64)


def test_an_argument_behind_two_hyphens_is_no_option(bench: Bench) -> None:
    """``--json`` there belongs to the program that is run on hosts."""
    result = bench.run("run", "--nosuch", "--", "program", "--json")
    assert (result.code, result.out) == (64, "")


def test_an_empty_path_element_or_variable_is_ignored(bench: Bench) -> None:
    """Empty path elements and variables are ignored, and a directory that does not exist is wrong usage."""
    home = {"XDG_STATE_HOME": str(bench.home), "RESOURCE_API_STATE": "", "RESOURCE_API_STACK": ""}
    path = bench.environment["RESOURCE_API_MODULE_PATH"]
    bench.write("site.yaml", "resources: {'Widget[a]': {}}\n")
    for arguments in (f":{path}", f"{path}:", path.replace(":", "::")):
        assert bench.run("plan", "site.yaml", RESOURCE_API_MODULE_PATH=arguments, **home).code == 0
    assert bench.run("types", RESOURCE_API_MODULE_PATH=":").code == 0
    assert bench.run("types", RESOURCE_API_MODULE_PATH=f"{path}:/no/such/dir").code == 64


def test_help_and_version_exit_0(bench: Bench) -> None:
    """Both print on stdout, and each command has its own help."""
    version = bench.run("--version")
    assert version.code == 0
    assert re.search(r"\d+\.\d+", version.out)
    top = bench.run("--help")
    assert top.code == 0
    for command in ("apply", "plan", "resource", "types", "describe", "validate", "schema", "graph", "new"):
        assert command in top.out
    one = bench.run("apply", "--help")
    assert (one.code, one.err) == (0, "")
    every = bench.run("help", "apply", "--all")
    assert (every.code, every.err) == (0, "")
    for option in ("--noop", "--target", "--tags", "--strict", "--detailed-exitcodes", "--json", "--module-path"):
        assert option in every.out


def test_without_a_command_help_is_shown(bench: Bench) -> None:
    """A call without a command prints the usage and exits 64."""
    result = bench.run()
    assert result.code == 64
    assert "Usage" in result.out + result.err


@pytest.mark.parametrize(
    ("objects", "manifest", "code", "detailed"),
    [
        ({}, "resources: {}", 0, 0),
        ({}, "resources: {'Widget[a]': {}}", 0, 2),
        ({}, "resources: {'Widget[bad]': {}}", 1, 4),
        ({}, "resources: {'Widget[a]': {}, 'Widget[bad]': {}}", 1, 6),
        ({"a": {"image": "x"}}, "resources: {'Widget[a]': {image: y}}", 1, 4),
        ({}, "resources: {'Widget[a]': {size: x}}", 65, 65),
    ],
)
def test_the_exit_codes_of_apply(
    bench: Bench, objects: dict[str, dict[str, str]], manifest: str, code: int, detailed: int
) -> None:
    """``apply`` exits with the documented code, with and without ``--detailed-exitcodes``."""
    bench.put("widget", **objects)
    assert bench.apply(manifest).code == code
    bench.things_of.joinpath("widget.json").write_text(json.dumps(objects), encoding="utf-8")
    assert bench.apply(manifest, "--detailed-exitcodes").code == detailed


def test_a_replacement_that_has_failed_half_way_has_changed_something(bench: Bench) -> None:
    """The old one is gone: ``--detailed-exitcodes`` says so; a second run, which changes nothing, has failed only."""
    bench.put("widget", a={"image": "x"})
    site = "resources: {'Widget[w]': {name: %s, lifecycle: {replace: delete_first, owned: true}}}"
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply(site % "a").code == 0
    assert bench.apply(site % "bad", "--detailed-exitcodes").code == 6
    assert bench.things("widget") == {}
    assert bench.apply(site % "bad", "--detailed-exitcodes").code == 4


@pytest.mark.parametrize(
    ("manifest", "code", "detailed"),
    [
        ("resources: {}", 0, 0),
        ("resources: {'Widget[a]': {}}", 0, 2),
        ("resources: {'Widget[b]': {image: y}}", 1, 1),
        ("resources: {'Widget[a]': {}, 'Widget[b]': {image: y}}", 1, 1),
        ("resources: {'Widget[a]': {size: x}}", 65, 65),
    ],
)
def test_the_exit_codes_of_plan(bench: Bench, manifest: str, code: int, detailed: int) -> None:
    """``plan`` exits with the documented code, with and without ``--detailed-exitcodes``, and sets nothing."""
    bench.put("widget", b={"image": "x"})
    assert bench.plan(manifest).code == code
    assert bench.plan(manifest, "--detailed-exitcodes").code == detailed
    assert bench.calls("widget", "set") == []


def test_a_manifest_named_like_an_option_can_be_given(bench: Bench) -> None:
    """After ``--`` a file name may begin with a hyphen."""
    bench.write("-x.yaml", "resources: {}\n")
    assert bench.run("apply", "--", "-x.yaml").code == 0


def test_a_plan_shows_each_step_and_counts_them(bench: Bench) -> None:
    """A plan prints a line per step that acts, its attributes below it, and the counts at the end."""
    bench.put("widget", a={"size": 1, "colour": "red"}, c={"size": 1}, same={"size": 1})
    planned = bench.plan(
        """
        resources:
          Widget[a]: {size: 2, colour: "", parts: [x, "y z"]}
          Widget[b]: {colour: "two\\nlines\\n"}
          Widget[c]: {ensure: absent}
          Widget[same]: {size: 1}
        """
    )
    assert planned.code == 0
    assert planned.err == ""
    assert planned.out == (
        "~ Widget[a]\n"
        "      size: 1 → 2\n"
        "    colour: red → ''\n"
        "     parts: (none) → [x, y z]\n"
        "\n"
        "+ Widget[b]\n"
        "    ensure: absent → present\n"
        "    colour changed (+2 -0 lines)\n"
        "      --- is\n"
        "      +++ should\n"
        "      @@ -0,0 +1,2 @@\n"
        "      +two\n"
        "      +lines\n"
        "\n"
        "- Widget[c]\n"
        "    ensure: present → absent\n"
        "\n"
        "Plan: 1 to create, 1 to update, 1 to delete; 1 unchanged.\n"
    )


def test_a_plan_is_a_json_document(bench: Bench) -> None:
    """The JSON plan has every documented field of the plan and of its steps."""
    bench.put("widget", a={"size": 1, "serial": "S-a"})
    bench.put("daemon", d={"ensure": "running"})
    manifest = """
    project: web
    resources:
      Widget[a]: {size: 2}
      Widget[b]: {require: "Widget[a]", notify: "Daemon[d]"}
      Daemon[d]: {}
    outputs: {x: "${Widget[a].serial}"}
    """
    result = bench.plan(manifest, "--json", "--stack", "blue")
    assert (result.code, result.err) == (0, "")
    document = result.document
    assert set(document) >= {
        *("format_version", "tool_version", "project", "stack", "lineage", "serial", "manifest_sha256"),
        *("steps", "drift", "outputs", "summary", "complete", "applicable"),
    }
    assert (document["project"], document["stack"]) == ("web", "blue")
    assert (document["complete"], document["applicable"]) == (True, True)
    steps = {step["reference"]: step for step in document["steps"]}
    for step in steps.values():
        assert set(step) >= {
            *("reference", "urn", "action", "previous", "reasons", "is", "should", "unknown", "expressions"),
            *("sensitive", "replaces_because", "changes", "depends_on", "notifies", "refreshed_by", "options"),
        }
    first, second = steps["Widget[a]"], steps["Widget[b]"]
    assert first["urn"] == "urn:resource:blue::web::widget::a"
    assert (first["action"], first["is"]["size"], first["should"]["size"]) == ("update", 1, 2)
    assert first["changes"] == [{"attribute": "size", "is": 1, "should": 2, "message": None, "kind": "update"}]
    assert (second["action"], second["is"], second["depends_on"]) == ("create", None, ["Widget[a]"])
    assert second["notifies"] == ["Daemon[d]"]
    assert document["summary"]["updated"] == 1


def test_the_stream_has_one_object_per_line_each_with_type_and_time(bench: Bench) -> None:
    """Planned changes come first, each step has a start and an end, and the summary comes last."""
    result = bench.stream("resources: {'Widget[a]': {}, 'Widget[bad]': {}}\noutputs: {x: '${Widget[a].serial}'}")
    events = result.events()
    for event in events:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", event["timestamp"])
    kinds = [event["type"] for event in events]
    assert set(kinds) <= {
        *("planned_change", "resource_drift", "step_start", "step_end", "log", "diagnostic", "outputs", "summary"),
    }
    assert kinds[:2] == ["planned_change", "planned_change"]
    assert kinds[-1] == "summary"
    assert kinds.count("step_start") == kinds.count("step_end") == 2
    assert kinds.index("step_start") < kinds.index("step_end")
    (logged,) = [event for event in result.events("log") if event["level"] == "err"]
    assert logged["reference"] == "Widget[bad]"
    assert result.events("outputs") == [] or result.events("outputs")[0]["outputs"] == {"x": "S-a"}


def test_a_file_name_that_cannot_be_a_project_needs_an_explicit_project(bench: Bench) -> None:
    """``validate``, ``plan`` and ``apply`` refuse such a file, and ``--project`` makes it valid."""
    path = bench.write("é.yaml", "resources: {'Widget[a]': {}}")
    for command in ("validate", "plan", "apply"):
        result = bench.run(command, path)
        assert (result.code, result.out) == (65, "")
        assert "no project can be called é, like this file; write 'project: NAME' into it" in result.err
    assert bench.run("apply", path, "--project", "web").code == 0


def test_a_planned_change_lists_its_unknown_attributes(bench: Bench) -> None:
    """An attribute that is only known after apply is listed in ``unknown``, and its planned value is null."""
    text = "project: p\nresources: {'Widget[a]': {}, 'Widget[b]': {colour: '${Widget[a].serial}'}}"
    planned = {event["reference"]: event for event in bench.stream(text).events("planned_change")}
    assert [planned[reference]["unknown"] for reference in ("Widget[a]", "Widget[b]")] == [[], ["colour"]]
    assert {change["attribute"]: change["should"] for change in planned["Widget[b]"]["changes"]}["colour"] is None


def test_a_step_end_has_every_documented_field(bench: Bench) -> None:
    """A resource that acted has an end with every field, and an unchanged one has none."""
    bench.put("widget", same={"size": 1})
    result = bench.stream("project: p\nresources: {'Widget[a]': {}, 'Widget[same]': {size: 1}}")
    (end,) = result.events("step_end")
    assert set(end) == {
        *("type", "timestamp", "reference", "urn", "action", "status", "changes", "error", "corrective", "seconds"),
    }
    assert end["urn"] == "urn:resource:default::p::widget::a"
    assert (end["error"], end["corrective"]) == (None, False)
    assert end["seconds"] >= 0
    (summary,) = result.events("summary")
    assert {key: summary[key] for key in ("created", "unchanged", "failed", "noop", "exit_code")} == {
        "created": 1,
        "unchanged": 1,
        "failed": 0,
        "noop": False,
        "exit_code": 0,
    }
    assert {"updated", "replaced", "deleted", "imported", "forgotten", "refreshed", "skipped", "run"} <= set(summary)


def test_diagnostics_are_objects_of_the_stream(bench: Bench) -> None:
    """A validation error is a ``diagnostic`` with its position, and the summary is last and has the exit code."""
    result = bench.stream("resources:\n  Widget[a]:\n    clour: red\n")
    assert result.code == 65
    (event,) = result.events("diagnostic")
    assert event["severity"] == "error"
    assert event["message"] == "unknown attribute 'clour'"
    assert event["hint"] == "did you mean 'colour'?"
    assert (event["reference"], event["attribute"]) == ("Widget[a]", "clour")
    assert (event["file"], event["line"], event["column"]) == (str(bench.home / "site.yaml"), 3, 5)
    assert event["code"]
    assert result.events()[-1]["type"] == "summary"
    assert result.events()[-1]["exit_code"] == 65


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "wrong.yaml"],
        ["validate", "wrong.yaml"],
        ["validate", "site.yaml"],
        ["types"],
        ["describe", "widget"],
        ["resource", "widget"],
        ["resource", "widget", "a"],
        ["graph", "site.yaml"],
        ["schema"],
        ["new", "type", "thing"],
    ],
)
def test_every_other_command_prints_one_json_document(bench: Bench, arguments: list[str]) -> None:
    """With ``--json`` a command prints one document, also when the manifest is invalid."""
    bench.write("site.yaml", "resources: {'Widget[a]': {}}\n")
    bench.write("wrong.yaml", "resources: {'Widget[a]': {clour: red}}\n")
    result = bench.run(*arguments, "--json")
    assert result.code == (65 if "wrong.yaml" in arguments else 0)
    document = result.document
    if result.code:
        assert document["exit_code"] == 65
        assert document["diagnostics"][0]["attribute"] == "clour"


def test_resources_are_listed_as_a_manifest(bench: Bench) -> None:
    """The listing is sorted, has ``read_only`` values as comments, and changes nothing when it is applied."""
    bench.put("widget", b={"size": 1, "serial": "S-b", "colour": None}, a={"colour": "yes", "labels": {"x": 1}})
    result = bench.run("resource", "widget")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "resources:\n"
        "  Widget[a]:\n"
        "    ensure: present\n"
        '    colour: "yes"\n'
        "    labels:\n"
        "      x: 1\n"
        "  Widget[b]:\n"
        "    ensure: present\n"
        "    size: 1\n"
        "    # serial: S-b\n"
    )
    assert bench.apply(result.out, "--detailed-exitcodes").code == 0


def test_every_listed_value_can_be_applied(bench: Bench) -> None:
    """Special characters are quoted in a listing, and each value is read back as the same value."""
    values = (
        "${x}",
        "$${x}",
        "a: b",
        "# no",
        "",
        " x ",
        "- a",
        "two\nlines\n",
        "0644",
        "null",
        "é✓",
        "\t",
        "\x85",
        "'\"\\",
    )
    for number, value in enumerate(values):
        bench.put("widget", **{f"{number} b [c]: #d": {"colour": value, "parts": [value], "labels": {"k": 1}}})
    listed = bench.run("resource", "widget")
    assert listed.code == 0
    again = bench.apply(listed.out, "--detailed-exitcodes")
    assert (again.code, again.err) == (0, ""), listed.out
    assert f"{len(values)} unchanged" in again.out


def test_one_resource_is_shown(bench: Bench) -> None:
    """``resource TYPE NAME`` shows one resource; a missing one is shown as absent with exit code 0."""
    bench.put("widget", a={"size": 1})
    assert bench.run("resource", "widget", "a").out == ("resources:\n  Widget[a]:\n    ensure: present\n    size: 1\n")
    missing = bench.run("resource", "widget", "zz")
    assert (missing.code, missing.out) == (0, "resources:\n  Widget[zz]:\n    ensure: absent\n")
    assert bench.run("resource", "Widget", "a", "--json").document == [
        {"title": "a", "name": "a", "ensure": "present", "size": 1}
    ]


def test_a_change_of_a_recorded_resource_says_what_the_next_apply_does_with_it(bench: Bench) -> None:
    """It undoes what its manifest declares, and leaves the rest; where nothing changes it does neither."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    site = "{project: p, resources: {'Widget[a]': {size: 1}}}"
    bench.apply(site)
    recorded = "Warning: Widget[a]: is recorded in stack 'default' of 'p'"
    for name, effect in {
        ("size=1",): "",
        (
            "colour=red",
            "weight=1.5",
        ): ", which does not declare colour, weight; the next apply of that stack leaves this change",
        ("colour=blue", "size=2"): "; the next apply of that stack will undo this change",
        ("ensure=absent",): "; the next apply of that stack will undo this change",
    }.items():
        assert bench.run("resource", "widget", "a", *name).lines[0] == recorded + effect
    bench.put("widget", a={"size": 1, "colour": "red"})
    assert bench.apply(site).out.endswith("1 unchanged.\n")


def test_a_type_without_resources_is_listed_as_an_empty_manifest(bench: Bench) -> None:
    """The listing of a type without resources is a manifest that can be applied."""
    listed = bench.run("resource", "widget")
    assert listed.code == 0
    assert bench.apply(listed.out).code == 0


def test_a_resource_is_changed_without_a_manifest(bench: Bench) -> None:
    """Text is coerced to the data type of each attribute, and the resulting resource is shown."""
    result = bench.run(
        *("resource", "widget", "a", "size=7", "colour=7", "weight=1.5", "force=true", 'parts=["x"]', 'labels={"k": 1}')
    )
    assert result.code == 0, result
    assert bench.things("widget")["a"] == {
        "size": 7,
        "colour": "7",
        "weight": 1.5,
        "parts": ["x"],
        "labels": {"k": 1},
        "serial": "S-a",
    }
    assert "size: 7" in result.out
    assert "# serial: S-a" in result.out
    assert "Notice: Widget[a]: Successfully created" in result.lines
    assert bench.run("resource", "widget", "a", "ensure=absent", "--detailed-exitcodes").code == 2
    assert bench.things("widget") == {}


JOBS = """
def _file(self): return Path(os.environ["BENCH"], "job.json")
def get(self, context): return list(json.loads(self._file().read_text()).values())
def validate(self, context, should):
    if should["special"] and should["hour"] != "*":
        return Problem("special", "excludes hour")
def create(self, context, name, should): self._file().write_text(json.dumps({name: dict(should)}))
update = create
def delete(self, context, name): self._file().write_text("{}")
"""


def test_a_change_of_one_attribute_leaves_those_with_a_default(bench: Bench) -> None:
    """They stay as they are, unless the given value excludes them; a new resource has the defaults."""
    attributes = (
        '"hour": Attribute("String", default="*"), "special": Attribute("Optional[String]", default=None),'
        '"command": Attribute("String", default="true")'
    )
    bench.type("job", f"{bench.NAMED} {attributes}", provider=JOBS, features=["validate"])
    bench.put("job")
    assert bench.run("resource", "job", "a", "hour=5").code == 0
    result = bench.run("resource", "job", "a", "command=run")
    assert result.code == 0
    assert result.lines == ["Notice: Job[a]: Successfully updated", "Notice: Job[a]: command changed from true to run"]
    assert bench.things("job")["a"]["hour"] == "5"
    assert bench.run("resource", "job", "a", "special=daily").code == 0
    job = bench.things("job")["a"]
    assert (job["special"], job["hour"], job["command"]) == ("daily", "*", "run")
    refused = bench.run("resource", "job", "a", "special=daily", "hour=5")
    assert refused.code == 65
    assert "Job[a]: excludes hour" in refused.err


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ("size=0x10", 0),
        ("size=101", 64),
        ("size=-1", 64),
        ("size=1.0", 64),
        ("weight=1", 64),
        ("force=yes", 64),
        ("force=True", 64),
        ("mixed=true", 0),
        ("mixed=word", 0),
        ("ensure=gone", 64),
        ("colour=", 0),
        ("colour=a=b", 0),
        ("colour=${inputs.x}", 0),
        ("serial=x", 65),
    ],
)
def test_values_from_the_command_line(bench: Bench, pair: str, code: int) -> None:
    """A value is parsed as the data type of its attribute, or refused with the name of the attribute."""
    result = bench.run("resource", "widget", "a", pair)
    assert result.code in ({64, 65} if code else {0}), result
    if code:
        assert pair.partition("=")[0] in result.err
        assert bench.calls("widget", "set") == []
    elif pair.startswith("colour"):
        assert bench.things("widget")["a"]["colour"] == pair.removeprefix("colour=")


def test_namevars_come_from_the_title_and_from_arguments(bench: Bench) -> None:
    """Namevars given as arguments complete the title, and alone they change nothing."""
    bench.type(
        "comp",
        """
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        "package": Attribute("String", "p", kind="namevar"), "manager": Attribute("String", "m", kind="namevar"),
        "size": Attribute("Optional[Integer]", "s"),
        """,
        title_patterns=[{"pattern": r"(?P<package>[a-z]+)", "docs": "The package."}],
        base="BaseProvider",
        provider="""
        FILE = Path(os.environ["BENCH"], "comp.json")
        def get(self, context):
            return json.loads(self.FILE.read_text()) if self.FILE.exists() else []
        def set(self, context, changes):
            self.FILE.write_text(json.dumps([dict(should) for is_, should in changes.values()]))
        """,
    )
    short = bench.run("resource", "comp", "new")
    assert (short.code, "manager" in short.err) == (64, True)
    assert bench.run("resource", "comp", "new", "manager=x", "--json").document[0]["ensure"] == "absent"
    created = bench.run("resource", "comp", "new", "manager=x", "size=4")
    assert (created.code, "size: 4" in created.out) == (0, True)
    assert bench.run("resource", "comp", "NEW", "package=new", "manager=x", "--json").document[0]["size"] == 4
    second = bench.run("resource", "widget", "a", "name=b", "size=3")
    assert (second.code, list(bench.things("widget")), "Widget[b]" in second.out) == (0, ["b"], True)


def test_a_failed_change_shows_the_actual_values(bench: Bench) -> None:
    """The command exits 1 with the error and does not show the requested value."""
    bench.put("widget", bad={"size": 1})
    result = bench.run("resource", "widget", "bad", "size=2")
    assert result.code == 1
    assert "Error: Widget[bad]: Updating failed: the press is broken" in result.lines
    assert "size: 2" not in result.out


def test_namevars_can_be_given_in_place_of_a_name(bench: Bench) -> None:
    """They are the name, and any other pair is a change, also where nothing stands before them."""
    assert "Widget[b]:\n    ensure: absent" in bench.run("resource", "widget", "name=b").out
    result = bench.run("resource", "widget", "size=3", "name=b")
    assert (result.code, bench.things("widget")["b"]["size"]) == (0, 3), result
    assert "Notice: Widget[b]: Successfully created" in result.lines
    created = bench.run("resource", "pair", "package=php", "manager=yum", "level=1")
    assert "Notice: Pair[php-yum]: Successfully created" in created.lines, created


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["widget", "size=3"], "NAME is missing before 'size='; write it there, or name=VALUE"),
        (["account", "password=hunter22abc"], "NAME is missing before 'password='; write it there, or name=VALUE"),
        (["pair", "package=php"], "NAME is missing before 'package='; write it there, or manager=VALUE"),
        (["widget", "name=", "size=3"], "NAME is missing before 'name='; write it there, or name=VALUE"),
        (["widget", ""], "NAME is empty: is a variable of the shell not set?"),
        (["widget", "", "size=3"], "NAME is empty: is a variable of the shell not set?"),
    ],
)
def test_a_change_without_a_name_is_wrong_usage(bench: Bench, arguments: list[str], message: str) -> None:
    """Nothing is created that is called like an argument, or like a variable that is not set."""
    result = bench.run("resource", *arguments)
    assert (result.code, result.err.splitlines()[-1]) == (64, f"Error: {message}")
    assert bench.calls("widget", "set") == []


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (["plan", "site.yaml", "--report", ""], "--report"),
        (["plan", "site.yaml", "--metrics", ""], "--metrics"),
        (["plan", "site.yaml", "--inventory", ""], "--inventory"),
        (["plan", "site.yaml", "--inputs-key", ""], "--inputs-key"),
        (["plan", "site.yaml", "--target", "Widget[a]", "--target", ""], "--target"),
        (["agent", "once", "--from", "", "site.yaml"], "--from"),
        (["agent", "once", "--from", ".", "--directory", "", "site.yaml"], "--directory"),
        (["agent", "once", "--from", ".", "--signers", "", "site.yaml"], "--signers"),
        (["apply", ""], "MANIFEST"),
        (["history", "show", ""], "RUN"),
        (["report", ""], "RUN"),
        (["backup", "list", ""], "PATH"),
        (["state", "copy", "", "sqlite:other.db"], "FROM"),
        (["show", ""], "PLAN"),
        (["describe", ""], "TYPE is"),
    ],
)
def test_an_empty_value_is_wrong_usage(bench: Bench, arguments: list[str], label: str) -> None:
    """A variable of the shell that is not set selects no default: no source, directory or run."""
    bench.write("site.yaml", "resources: {}\n")
    files = sorted(bench.home.iterdir())
    result = bench.run(*arguments)
    assert (result.code, label in result.err, "empty" in result.err or "''" in result.err) == (64, True, True), result
    assert sorted(bench.home.iterdir()) == files


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["size=2"], 1, "Updating failed: the press is broken"),
        (["size=2", "--detailed-exitcodes"], 4, "Updating failed: the press is broken"),
        (["image=there", "--noop"], 1, "'image' can only be set at creation: it is here and should be there"),
    ],
)
def test_a_failed_change_has_a_json_document(bench: Bench, arguments: list[str], code: int, message: str) -> None:
    """Like every other command that fails: with the reason, the reference and the exit code."""
    bench.put("widget", bad={"size": 1, "image": "here"})
    result = bench.run("resource", "widget", "bad", *arguments, "--json")
    (diagnostic,) = result.document["diagnostics"]
    assert (result.code, result.document["exit_code"], diagnostic["reference"]) == (code, code, "Widget[bad]")
    assert diagnostic["message"].startswith(message.removeprefix("Updating failed: ")), result
    assert f"Error: Widget[bad]: {message}" in result.err


def test_secrets_are_left_out_of_a_listing(bench: Bench) -> None:
    """Neither the text nor the JSON listing contains a secret, and the listing can be applied."""
    bench.put("account", a={"password": "hunter22abc", "note": "x"})
    listed = bench.run("resource", "account")
    assert "hunter22abc" not in listed.out
    assert "password" not in listed.out.replace("# ", "")
    assert bench.apply(listed.out, "--detailed-exitcodes").code == 0
    assert "hunter22abc" not in bench.run("resource", "account", "--json").out


@pytest.mark.parametrize("name", ["@word", "env:WORD"])
def test_a_secret_attribute_is_read_from_a_file_or_the_environment(bench: Bench, name: str) -> None:
    """As an input and a configuration are; of an attribute that is no secret the text is meant."""
    bench.write("word", "hunter22abc\n")
    result = bench.run("resource", "account", "a", f"password={name}", f"note={name}", WORD="hunter22abc")
    assert (result.code, "hunter22abc" in result.out + result.err) == (0, False), result
    stored = bench.things("account")["a"]
    assert (stored["password"], stored["note"]) == ("hunter22abc", name)
    output = bench.run("resource", "account", "a", "password=hunter22abc")
    advice = "write password=@FILE or password=env:NAME"
    assert output.err == f"Error: password is sensitive and cannot be given on the command line; {advice}\n"
    assert output.code == 64
    missing = bench.run("resource", "account", "a", "password=@nosuch")
    assert (missing.code, missing.err) == (64, "Error: cannot read nosuch: No such file or directory\n")
    missing = bench.run("resource", "account", "a", "password=env:NOSUCH")
    assert (missing.code, missing.err) == (64, "Error: password: the environment has no variable 'NOSUCH'\n")
    empty = bench.run("resource", "account", "a", "password=env:NONE", NONE="")
    text = "Error: password: the environment has no variable 'NONE' that is not empty\n"
    assert (empty.code, empty.err) == (64, text)


def test_types_are_listed_with_their_documentation(bench: Bench) -> None:
    """Types on the module path and bundled types are listed, sorted by name."""
    result = bench.run("types")
    names = [line.split()[0] for line in result.out.splitlines()]
    assert result.code == 0
    assert names == sorted(names)
    assert {"widget", "token", "file", "package"} <= set(names)
    assert re.search(r"^widget +A widget\.", result.out, re.MULTILINE)
    listed = {item["name"]: item["docs"] for item in bench.run("types", "--json").document}
    assert listed["widget"].startswith("A widget.")


def test_a_type_is_described(bench: Bench) -> None:
    """``describe`` prints the documentation of a type, its attributes and its features."""
    result = bench.run("describe", "token")
    assert result.code == 0
    for word in ("A token with a hexadecimal number.", "id", "namevar", "ensure", "present", "tint", "spellings"):
        assert word in result.out
    assert "read_only" in bench.run("describe", "Widget").out


@pytest.mark.parametrize("columns", [60, 200])
def test_lists_and_documentation_of_types_keep_to_the_terminal(bench: Bench, columns: int) -> None:
    """No word is broken at its edge, a long directory neither; summaries stay beside names, prose within 80 columns."""
    with Terminal(columns) as terminal:
        terminal.run(bench, "types", PAGER="cat")
        assert terminal.end()[0] == 0
        lines = terminal.raw.splitlines()
    wide = [line.split() for line in lines if len(line) > columns]
    assert [words for words in wide if not (len(words) == 1 and str(MODULES) in words[0])] == []
    [first] = [number for number, line in enumerate(lines) if line.startswith("acl ")]
    assert lines[first + 1].startswith("                     ") is (columns == 60)
    with Terminal(columns) as terminal:
        terminal.run(bench, "describe", "group", PAGER="cat")
        assert terminal.end()[0] == 0
        prose = terminal.raw.partition("ATTRIBUTES")[0].splitlines()
    assert min(columns, 80) - 15 < max(map(len, prose)) <= min(columns, 80)


def test_the_schema_is_a_json_document(bench: Bench) -> None:
    """The schema names draft 07 and contains the types on the module path."""
    result = bench.run("schema")
    assert result.code == 0
    document = result.document
    assert "draft-07" in document["$schema"]
    assert "Widget" in result.out


@pytest.mark.parametrize(("form", "word"), [("dot", "digraph"), ("mermaid", "flowchart"), ("json", "{")])
def test_a_graph_is_drawn(bench: Bench, form: str, word: str) -> None:
    """``graph`` prints each format without a call of a provider."""
    path = bench.write("site.yaml", "resources: {'Widget[a]': {}, 'Widget[b]': {require: 'Widget[a]'}}")
    result = bench.run("graph", path, "--format", form)
    assert result.code == 0
    assert word in result.out
    assert "Widget[a]" in result.out
    assert bench.calls("widget") == []


def test_validate_calls_no_provider(bench: Bench) -> None:
    """``validate`` reports a valid manifest with its number of resources and reads nothing."""
    result = bench.validate("resources: {'Widget[a]': {}, 'Widget[b]': {}}")
    assert result.code == 0
    assert result.out.strip().endswith("is valid: 2 resources.")
    assert bench.calls("widget") == []


def test_a_new_type_is_ready_to_run(bench: Bench) -> None:
    """The generated type works at once, and a second ``new`` does not overwrite its files."""
    result = bench.run("new", "type", "gadget", "--directory", bench.modules)
    assert result.code == 0
    for path in ("types/gadget.py", "providers/gadget.py"):
        assert path in result.out
        assert (bench.modules / path).is_file()
    assert bench.run("describe", "gadget").code == 0
    assert bench.run("resource", "gadget").code == 0
    before = (bench.modules / "types/gadget.py").read_text(encoding="utf-8")
    again = bench.run("new", "type", "gadget", "--directory", bench.modules)
    assert again.code != 0
    assert (bench.modules / "types/gadget.py").read_text(encoding="utf-8") == before


def test_a_new_type_may_share_code(bench: Bench) -> None:
    """With ``--shared`` the generated provider uses a generated module in ``lib/``."""
    result = bench.run("new", "type", "gadget", "--shared", "--directory", bench.modules)
    assert result.code == 0
    assert "lib/json_files.py" in result.out
    bench.environment["GADGET_DIRECTORY"] = f"{bench.home}/gadgets"
    created = bench.apply("resources: {'Gadget[a]': {content: x}}")
    assert created.code == 0, created
    assert (bench.home / "gadgets" / "a.json").is_file()


def test_the_working_directory_does_not_matter(bench: Bench, tmp_path: Path) -> None:
    """An include is resolved relative to the file that contains it."""
    bench.write("deep/site.yaml", "include: [other.yaml]\n")
    bench.write("deep/other.yaml", "resources: {'Widget[a]': {}}\n")
    assert bench.run("apply", tmp_path / "deep/site.yaml").code == 0
    assert bench.run("apply", "deep/site.yaml", "--detailed-exitcodes").code == 0


def test_importing_the_package_is_light(bench: Bench) -> None:
    """Importing the package and making a runtime loads no heavy module and sets up no logging or signal handler."""
    bench.write(
        "light.py",
        """
        import signal, sys, logging
        before = signal.getsignal(signal.SIGTERM), list(logging.getLogger().handlers)
        import resource_api
        from resource_api import Runtime, Registry
        Runtime(Registry(), state="memory:")
        assert (signal.getsignal(signal.SIGTERM), logging.getLogger().handlers) == before
        print([name for name in ("click", "sh", "jsonschema", "structlog") if name in sys.modules])
        """,
    )
    process = subprocess.run(
        [sys.executable, "light.py"], cwd=bench.home, env=bench.environment, capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


@pytest.mark.parametrize(
    "option", [["--target", "Widget[a]"], ["--prune"], ["--prune-always"], ["--strict", "off"], ["-i", "a=b"]]
)
def test_a_saved_plan_refuses_options_that_change_what_is_done(bench: Bench, option: list[str]) -> None:
    """An option that would change the steps is refused with its name, and nothing is set."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.plan("resources: {'Widget[a]': {}}", "-o", "plan.json")
    result = bench.run("apply", "plan.json", *option)
    assert result.code == 64
    assert f"{option[0]} cannot be given with a saved plan" in result.err
    assert not bench.things("widget")


@pytest.mark.parametrize(
    ("options", "environment", "code"),
    [
        (["--stack", "blue"], {}, 64),
        (["--project", "shop"], {}, 64),
        ([], {"RESOURCE_API_STACK": "blue"}, 64),
        (["--stack", "green", "--project", "site"], {"RESOURCE_API_STACK": "blue"}, 0),
        ([], {"RESOURCE_API_STACK": ""}, 0),
    ],
)
def test_a_saved_plan_applies_to_its_own_stack_only(
    bench: Bench, options: list[str], environment: dict[str, str], code: int
) -> None:
    """A plan is refused for another stack or project, and accepted where its own are named again."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.plan("resources: {'Widget[a]': {}}", "-o", "plan.json", "--stack", "green")
    result = bench.run("apply", "plan.json", *options, **environment)
    assert result.code == code, result
    assert bool(bench.things("widget")) == (code == 0)
    assert ("the plan is about the" in result.err) == (code != 0)


def test_a_saved_plan_accepts_parallel_and_noop(bench: Bench) -> None:
    """``--noop`` shows the plan, and ``--parallel`` with ``--fail-fast`` applies it."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.plan("resources: {'Widget[a]': {}, 'Token[1]': {}}", "-o", "plan.json")
    output = bench.run("apply", "plan.json", "--noop")
    assert "+ Widget[a]" in output.out
    assert not bench.things("widget")
    result = bench.run("apply", "plan.json", "--parallel", "2", "--fail-fast")
    assert result.code == 0
    assert "2 created" in result.out


def _bound_by_permissions(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user whom the permissions of files bind."""
    bound = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", sys.executable, "-m", "resource_api")
    return subprocess.run(
        [*bound, *arguments], cwd=bench.home, env=bench.environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "site.yaml", "--metrics", "closed/x.prom"], 64, "closed/x.prom: cannot be written"),
        (["plan", "site.yaml", "--report", "closed/x.json"], 64, "closed/x.json: cannot be written"),
        (["plan", "site.yaml", "--report", "closed"], 64, "closed: cannot be written"),
        (["plan", "site.yaml", "--module-path", "closed/modules"], 64, "closed/modules: Permission denied"),
        (["apply", "closed/site.yaml"], 65, "closed/site.yaml: cannot be read: Permission denied"),
        (["bundle", "make", "modules", "-o", "closed/x.bundle"], 1, "closed/x.bundle: Permission denied"),
        (
            ["new", "type", "thing", "--directory", "closed/x"],
            64,
            "closed/x/types: cannot be written: Permission denied",
        ),
    ],
)
def test_a_path_in_a_directory_of_another_user_is_named(
    bench: Bench, arguments: list[str], code: int, message: str
) -> None:
    """It is not called missing, nor is a file beside it supposed, and nothing is done."""
    bench.write("site.yaml", "resources: {}\n")
    (bench.home / "closed").mkdir(mode=0o700)
    os.chown(bench.home / "closed", 54990, 54990)
    result = _bound_by_permissions(bench, *arguments)
    assert (result.returncode, message in result.stderr) == (code, True), result


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_the_inputs_of_a_stack_that_cannot_be_reached_are_an_error(bench: Bench) -> None:
    """They are not left out."""
    bench.write("site.yaml", "resources: {}\n")
    (bench.home / "stacks").mkdir(mode=0o700)
    os.chown(bench.home / "stacks", 54990, 54990)
    result = _bound_by_permissions(bench, "plan", "site.yaml")
    assert (result.returncode, result.stderr) == (64, "Error: cannot read stacks/default.yaml: Permission denied\n")


def test_a_command_without_descriptors_says_so(bench: Bench) -> None:
    """In one sentence."""
    words = [
        "prlimit",
        "--nofile=5",
        sys.executable,
        "-m",
        "resource_api",
        "plan",
        bench.write("site.yaml", "resources: {}\n"),
    ]
    result = subprocess.run(words, cwd=bench.home, env=bench.environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.endswith(": Too many open files\n")) == (1, True), result
    assert "Traceback" not in result.stderr
