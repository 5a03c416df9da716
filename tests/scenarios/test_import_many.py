"""Existing resources are taken over, many at once; projects are renamed; outputs of a manifest's project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.terminal import Terminal

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_SITE: Final = """
    project: p
    resources:
      Widget[a]: {size: 1}
      Widget[b]: {size: 2}
      Widget[none]: {size: 3}
      Account[alice]: {}
    outputs: {size: "${Widget[a].size}"}
"""


@pytest.fixture
def site(bench: Bench) -> Bench:
    """Return a bench with a manifest, most of whose resources exist."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("site.yaml", _SITE)
    bench.put("widget", a={"name": "a", "size": 1}, b={"name": "b", "size": 9}, other={"name": "other", "size": 5})
    bench.put("account", alice={"name": "alice"})
    return bench


def recorded(bench: Bench, *options: str) -> list[str]:
    """Return the resources that are recorded as ours."""
    return [row["reference"] for row in bench.run("state", "list", "--json", *options).document if row["owned"]]


@pytest.mark.parametrize(
    ("references", "lines"),
    [
        (["Widget[a]", "Account[alice]"], ["Widget[a]: imported.", "Account[alice]: imported."]),
        (["Widget[*]"], ["Widget[a]: imported.", "Widget[b]: imported.", "Widget[none]: does not exist."]),
        (["Widget"], ["Widget[a]: imported.", "Widget[b]: imported.", "Widget[none]: does not exist."]),
        (["Widget[?]", "Widget[a]"], ["Widget[a]: imported.", "Widget[b]: imported."]),
        (
            ["*"],
            [
                "Widget[a]: imported.",
                "Widget[b]: imported.",
                "Widget[none]: does not exist.",
                "Account[alice]: imported.",
            ],
        ),
        (["Widget[b]", "b"], ["Widget[b]: imported."]),
        (["Widget[b]", "--name", "b"], ["Widget[b]: imported."]),
        (["urn:resource:default::p::widget::a"], ["Widget[a]: imported."]),
    ],
)
def test_references_and_patterns_are_imported_together(site: Bench, references: list[str], lines: list[str]) -> None:
    """What a pattern matches and does not exist is named, and so is what is ours already; nothing is changed."""
    result = site.run("import", "site.yaml", *references)
    assert (result.code, result.out.splitlines()) == (0, lines)
    assert set(recorded(site)) == {line.split(":")[0] for line in lines if line.endswith("imported.")}
    again = site.run("import", "site.yaml", *references).out
    assert again.splitlines() == [line.replace("imported", "recorded as ours already") for line in lines]
    assert site.calls("widget", "set") == []
    assert len(site.calls("widget", "get")) <= 2


def test_a_pattern_leaves_out_what_can_never_be_ours(site: Bench) -> None:
    """A resource that is only read, and a run of a program."""
    site.write("more.yaml", "project: p\nresources: {'Widget[a]': {lifecycle: {external: true}}, 'Notify[hello]': {}}")
    result = site.run("import", "more.yaml", "*")
    assert (result.code, result.out) == (0, "")
    assert recorded(site) == []


def test_a_named_resource_that_does_not_exist_is_an_error_and_the_others_are_imported(site: Bench) -> None:
    """The exit code is 1, in the document too."""
    result = site.run("import", "site.yaml", "Widget[a]", "Widget[none]", "Widget[b]", "--json")
    assert result.code == 1
    assert "Widget[none] cannot be imported: it does not exist" in result.err
    statuses = {item["reference"]: item["status"] for item in result.document["resources"]}
    assert statuses == {"Widget[a]": "imported", "Widget[b]": "imported", "Widget[none]": "missing"}
    counts = result.document["summary"]
    assert (counts["imported"], counts["failed"], counts["exit_code"]) == (2, 1, 1)
    assert recorded(site) == ["Widget[a]", "Widget[b]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["site.yaml"], "write 'import MANIFEST REFERENCE...' or 'import --all TYPE -o FILE'"),
        (["site.yaml", "Widget[a]", "-o", "x.yaml"], "write 'import MANIFEST REFERENCE...'"),
        (["site.yaml", "Widget[a]", "c"], "Widget[a] is declared as 'a', not 'c'; declare what is to be imported"),
        (["site.yaml", "Widget[*]", "c"], "the name 'c' goes with one reference"),
        (["site.yaml", "Widget[a]", "Widget[b]", "--name", "a"], "the name 'a' goes with one reference"),
        (["site.yaml", "Widget[a]", "Widget[b]", "c"], "the name 'c' goes with one reference"),
        (
            ["site.yaml", "Widget[a]", "Widget[b]", "Widget[c]"],
            "Widget[c] is not declared in site.yaml; declare it first",
        ),
        (["site.yaml", "Widgt[*]"], "import Widgt[*] matches no resource"),
        (["site.yaml", "--all", "widget", "-o", "x.yaml"], "write 'import --all TYPE -o FILE', without a manifest"),
        (["--all", "widget"], "write 'import --all TYPE -o FILE'"),
        (["--all", "widget", "-o", "x.yaml"], "import --all needs --yes when standard input is no terminal"),
        (["--all", "widget", "-o", "site.yaml", "--yes"], "site.yaml exists already; name a new file"),
        (["--all", "widget", "-o", "x.json", "--yes"], "x.json: the manifest is written as YAML"),
        (["--all", "widget", "-o", "-x.yaml", "--yes"], "no project can be called '-x', like this file"),
        (["--all", "widget", "-o", "nowhere/x.yaml", "--yes"], "nowhere/x.yaml cannot be written: No such file"),
        (["--all", "wigdet", "-o", "x.yaml", "--yes"], "unknown type 'Wigdet'"),
    ],
)
def test_a_wrong_import_is_refused(site: Bench, arguments: list[str], message: str) -> None:
    """Nothing is written or recorded."""
    result = site.run("import", *arguments)
    assert (result.code, message in result.err) == (64, True), result.err
    assert site.run("state", "list").out == ""
    assert not list(site.home.glob("*x.*"))


def test_all_of_a_type_are_imported_with_a_new_manifest(site: Bench) -> None:
    """The plan has nothing but imports, nothing is changed, and the manifest has nothing to do afterwards."""
    result = site.run("import", "--all", "widget", "-o", "widgets.yaml", "--yes")
    assert result.code == 0
    assert result.out.splitlines()[:4] == [
        "> Widget[a]",
        "> Widget[b]",
        "> Widget[other]",
        "Plan: 3 to import; 0 unchanged.",
    ]
    assert "3 imported" in result.out.splitlines()[-1]
    assert site.calls("widget", "set") == []
    assert recorded(site, "--project", "widgets") == ["Widget[a]", "Widget[b]", "Widget[other]"]
    assert site.run("plan", "widgets.yaml").out == "Plan: nothing to do; 3 unchanged.\n"
    text = (site.home / "widgets.yaml").read_text()
    assert text.startswith("project: widgets\nresources:\n  Widget[a]:\n")
    assert "import" not in text
    assert site.run("destroy", "widgets.yaml", "--yes").code == 0
    assert site.things("widget") == {}


def test_a_project_that_yaml_takes_for_a_number_is_quoted(site: Bench) -> None:
    """The manifest can be applied at once, and an empty one too."""
    assert site.run("import", "--all", "widget", "-o", "2026.yaml", "--yes").code == 0
    assert site.run("plan", "2026.yaml").out == "Plan: nothing to do; 3 unchanged.\n"
    result = site.run("import", "--all", "pair", "-o", "pairs.yaml", "--yes")
    assert (result.code, result.out.splitlines()[0]) == (0, "Plan: nothing to do; 0 unchanged.")


@pytest.mark.parametrize(("answer", "code", "count"), [("yes", 0, 3), ("no", 1, 0)])
def test_the_question_shows_the_plan_first(site: Bench, answer: str, code: int, count: int) -> None:
    """Answered no, the manifest is written and nothing is recorded."""
    with Terminal() as terminal:
        terminal.run(site, "import", "--all", "widget", "-o", "widgets.yaml", "--project", "shop")
        terminal.until(lambda lines: "Import 3 resources of widgets.yaml?" in "".join(lines))
        assert "Plan: 3 to import; 0 unchanged." in terminal.screen.lines
        terminal.type(f"{answer}\n")
        ended, _ = terminal.end()
    assert ended == code
    assert (site.home / "widgets.yaml").read_text().startswith("project: shop\n")
    assert len(site.run("stack", "list", "--json").document and recorded(site, "--project", "shop")) == count


@pytest.mark.parametrize("key", ["", "file:key"])
def test_a_project_is_renamed_with_its_stacks(site: Bench, key: str) -> None:
    """Everything is found under the new name, secrets too; the runs are kept."""
    if key:
        assert site.run("new", "key", "key").code == 0
        site.environment["RESOURCE_API_KEY"] = key
    for stack in ("default", "live"):
        assert site.run("apply", "site.yaml", "--stack", stack).code == 0
    result = site.run("state", "mv", "--project", "shop")
    assert (result.code, result.out) == (
        0,
        "project p is now project shop, with the stacks default, live; write 'project: shop' into its manifest\n",
    )
    site.write("site.yaml", _SITE.replace("project: p", "project: shop"))
    for stack in ("default", "live"):
        assert site.run("plan", "site.yaml", "--stack", stack).out.startswith("Plan: nothing to do; 4 unchanged.")
        runs = site.run("history", "--project", "shop", "--stack", stack, "--json").document
        assert [run["command"] for run in runs] == ["apply", "state mv"]
    assert site.run("state", "check").code == 0
    assert site.run("state", "mv", "shop", "--project", "p", "--json").document["stacks"] == ["default", "live"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "write 'state mv FROM TO' for a resource, 'state mv [PROJECT] --project NEW' for a project"),
        (["Widget[a]", "--project", "x"], "write 'state mv FROM TO' for a resource"),
        (["--project", "x"], "several projects are recorded: p, q; write 'state mv PROJECT --project NEW'"),
        (["p", "--project", "q"], "project q, stack default is recorded already"),
        (["nosuch", "--project", "x"], "nothing is recorded of project 'nosuch'"),
        (["p", "--project", "a/b"], "'a/b' is no name"),
    ],
)
def test_a_project_that_cannot_be_renamed_stays(site: Bench, arguments: list[str], message: str) -> None:
    """The message says why."""
    for project in ("p", "q"):
        assert site.run("apply", "site.yaml", "--project", project).code == 0
    result = site.run("state", "mv", *arguments)
    assert (result.code, message in result.err) == (64, True), result.err
    assert [row["project"] for row in site.run("stack", "list", "--json").document] == ["p", "q"]


def test_outputs_are_those_of_a_manifest(site: Bench) -> None:
    """It names the project, ends in a suffix of manifests, and is not executed."""
    site.write("site.py", "PROJECT = 'p'\nraise SystemExit(3)\n")
    for project in ("p", "q"):
        assert site.run("apply", "site.yaml", "--project", project).code == 0
    assert site.run("output").code == 64
    for manifest in ("site.yaml", "site.py"):
        assert site.run("output", manifest).out == "size: 1\n"
        assert site.run("output", manifest, "size").out == "1\n"
    assert site.run("output", "size", "--project", "q").out == "1\n"
    assert site.run("output", "site.yaml", "sise").code == 1
    refused = site.run("output", "size", "site.yaml")
    assert refused.code == 64
    assert "'site.yaml' is one argument too many; write output [MANIFEST] [NAME]" in refused.err
    assert site.run("output", "nosuch.yaml").code == 65
