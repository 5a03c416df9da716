"""Recorded stacks: listed, renamed, forgotten; their outputs in other stacks, and expressions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from resource_api.model.record import Commit
from resource_api.state.open_store import open_store
from resource_api.state.store import StackName
from resource_api.system.facts import machine_id
from tests import command

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_SITE = """
    project: p
    resources:
      Widget[a]: {size: 1}
      Account[b]: {password: sesame-4711}
    outputs: {word: "${Account[b].password}"}
"""


@pytest.mark.parametrize("key", ["", "key"])
def test_a_stack_is_renamed_with_its_records_and_forgotten(bench: Bench, key: str) -> None:
    """The next run finds everything under the new name, secrets too; with resources only --force forgets it."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    if key:
        assert bench.run("new", "key", key).code == 0
        bench.environment["RESOURCE_API_KEY"] = f"file:{key}"
    bench.write("site.yaml", _SITE)
    assert bench.run("apply", "site.yaml").code == 0
    result = bench.run("stack", "rename", "default", "live")
    assert (result.code, result.out) == (0, "project p, stack default is now stack live\n")
    (row,) = bench.run("stack", "list", "--json").document
    assert (row["stack"], row["resources"], row["serial"]) == ("live", 2, 4)
    (line,) = bench.run("stack", "list").out.splitlines()[1:]
    assert re.fullmatch(r"p +live +4 +2 +\d{4}-.*", line)
    assert "2 unchanged" in bench.run("apply", "site.yaml", "--stack", "live").out
    urns = [item["urn"] for item in bench.run("state", "list", "--stack", "live", "--json").document]
    assert urns[0] == "urn:resource:live::p::widget::a"
    if key:
        assert bench.run("output", "word", "--stack", "live", "--reveal").out == "sesame-4711\n"
    refused = bench.run("stack", "rm", "live")
    assert refused.code == 64
    assert "project p, stack live has 2 resources; destroy deletes them" in refused.err
    assert bench.run("stack", "rm", "live", "--force").code == 0
    assert bench.run("stack", "list", "--json").document == []
    assert bench.things("widget").keys() == {"a"}
    assert bench.run("state", "check").code == 0


@pytest.fixture
def unnamed(bench: Bench) -> Bench:
    """Return a bench with two manifests of one name in two directories, neither of which names its project."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    for name in ("one", "two"):
        bench.write(f"{name}/site.yaml", f"resources: {{'Widget[{name}]': {{}}}}")
    return bench


def in_directory(bench: Bench, name: str, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the messages of a command in a directory of the bench."""
    process = command.run(arguments, cwd=bench.home / name, env=bench.environment, text=True)
    return process.returncode, process.stderr


@pytest.mark.parametrize("deleting", [("apply", "site.yaml", "--prune"), ("destroy", "site.yaml", "--yes")])
def test_manifests_of_one_name_in_two_directories_do_not_delete_each_others_resources(
    unnamed: Bench, deleting: tuple[str, ...]
) -> None:
    """State knows where a manifest is, also where it is called by its name alone."""
    assert in_directory(unnamed, "one", "apply", "site.yaml")[0] == 0
    code, message = in_directory(unnamed, "two", *deleting)
    assert code == 64
    assert f"recorded from {unnamed.home}/one/site.yaml; write 'project:' into site.yaml" in message
    assert set(unnamed.things("widget")) == {"one"}


@pytest.mark.parametrize("deleting", [("apply", "site.yaml", "--prune"), ("destroy", "site.yaml", "--yes")])
@pytest.mark.parametrize("making", ["apply", "import"])
def test_what_two_manifests_of_one_name_have_made_neither_of_them_deletes(
    unnamed: Bench, deleting: tuple[str, ...], making: str
) -> None:
    """Nor does a third one; with its project written down, a manifest deletes what that no longer declares."""
    assert in_directory(unnamed, "one", "apply", "site.yaml")[0] == 0
    if making == "import":
        unnamed.put("widget", one={"name": "one"}, two={"name": "two"})
    more = ("Widget[two]",) if making == "import" else ()
    assert in_directory(unnamed, "two", making, "site.yaml", *more)[0] == 0
    for name in ("one", "two"):
        code, message = in_directory(unnamed, name, *deleting)
        assert (code, "recorded from several manifests; write 'project:' into site.yaml" in message) == (64, True)
    assert set(unnamed.things("widget")) == {"one", "two"}
    unnamed.write("one/site.yaml", "project: site\nresources: {'Widget[one]': {}}")
    assert in_directory(unnamed, "one", "apply", "site.yaml", "--prune")[0] == 0
    assert set(unnamed.things("widget")) == {"one"}


def test_a_manifest_that_has_moved_may_begin_anew(unnamed: Bench) -> None:
    """Where nothing is recorded any more, the project is the next manifest's."""
    assert in_directory(unnamed, "one", "apply", "site.yaml")[0] == 0
    assert in_directory(unnamed, "one", "destroy", "site.yaml", "--yes")[0] == 0
    assert in_directory(unnamed, "two", "apply", "site.yaml")[0] == 0
    assert in_directory(unnamed, "two", "destroy", "site.yaml", "--yes")[0] == 0


def test_a_manifest_is_the_same_by_whatever_path_and_in_a_saved_plan(unnamed: Bench) -> None:
    """From its directory, from another one, by its absolute path, unchanged or not."""
    for directory, file in (
        ("one", "site.yaml"),
        ("two", "../one/site.yaml"),
        ("two", f"{unnamed.home}/one/site.yaml"),
    ):
        assert in_directory(unnamed, directory, "apply", file, "--prune")[0] == 0
    unnamed.write("one/site.yaml", "resources: {'Widget[three]': {}}")
    assert in_directory(unnamed, "two", "plan", "../one/site.yaml", "--prune", "-o", "plan.json")[0] == 0
    assert in_directory(unnamed, "one", "apply", "../two/plan.json")[0] == 0
    assert set(unnamed.things("widget")) == {"three"}
    assert in_directory(unnamed, "one", "destroy", "site.yaml", "--yes")[0] == 0


def test_a_stack_that_is_not_there_and_a_name_that_is_taken_are_refused(bench: Bench) -> None:
    """With the nearest name; nothing is changed."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("site.yaml", _SITE)
    for name in ("test", "live"):
        assert bench.run("apply", "site.yaml", "--stack", name).code == 0
    accepted = bench.run("stack", "rename", "test", "live")
    assert (accepted.code, "project p, stack live is recorded already" in accepted.err) == (64, True)
    unknown = bench.run("stack", "rm", "tset", "--project", "p")
    assert (unknown.code, "did you mean 'test'?" in unknown.err) == (64, True)
    assert bench.run("stack", "rename", "test", "a b").code == 64
    assert len(bench.run("stack", "list", "--json").document) == 2


_BASE = """
    project: p
    inputs: {size: {type: Integer, default: 3}}
    resources: {}
    outputs:
      size: ${inputs.size}
      word: {value: sesame-4711, sensitive: true}
"""
_WEB = """
    project: p
    resources:
      Widget[fixed]: {size: 1}
      Widget[a]: {size: "${stacks.base.outputs.size}"}
    outputs: {twice: "${stacks.p/base.outputs.size}"}
"""


@pytest.fixture
def based(bench: Bench) -> Bench:
    """Return a bench with a state in which the stack base is recorded."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("base.yaml", _BASE)
    assert bench.run("apply", "base.yaml", "--stack", "base").code == 0
    return bench


def test_outputs_of_another_stack_are_used_and_named_in_the_plan(based: Bench) -> None:
    """A change of them is seen by the next run, also after one without a change."""
    based.write("site.yaml", _WEB)
    planned = based.run("plan", "site.yaml")
    assert "Uses the output size of stack base." in planned.out
    assert based.run("plan", "site.yaml", "--json").document["stacks"][0] == {"stack": "base", "output": "size"}
    assert based.run("plan", "site.yaml", "-o", "plan.json").code == 0
    assert "Uses the output size of stack base." in based.run("show", "plan.json").out
    for _ in range(3):  # the last one uses what the second has concluded
        assert based.run("apply", "site.yaml").code == 0
    assert based.things("widget")["a"]["size"] == 3
    assert based.run("history", "--json").document[-1]["stacks"] == ["p/base"]
    refused = based.run("stack", "rm", "base")
    assert (refused.code, "outputs of project p, stack base are used by p/default" in refused.err) == (64, True)
    assert based.run("apply", "base.yaml", "--stack", "base", "-i", "size=4").code == 0
    result = based.run("apply", "site.yaml")
    assert (result.out.splitlines()[0], based.things("widget")["a"]["size"]) == ("twice: 4", 4)
    assert "1 updated" in result.out
    python = 'PROJECT = "p"\n\n\ndef manifest(m):\n    m.widget("a", size=m.stack_output("base", "size"))\n'
    based.write("site.py", python)
    assert "1 unchanged" in based.run("apply", "site.py").out


@pytest.mark.parametrize(
    ("stack", "output", "words"),
    [
        ("bsae", "size", "unknown stack 'bsae'; did you mean 'base'?"),
        ("q/base", "size", "unknown stack 'q/base'; did you mean 'base'?"),
        ("base", "szie", "the stack 'base' has no output 'szie'; did you mean 'size'?"),
        ("default", "size", "this is the stack itself; refer to its resources"),
        ("base", "word", "it is sensitive, and without a key only a digest of it is recorded"),
    ],
)
def test_an_output_that_cannot_be_used_is_refused_with_its_line(
    based: Bench, stack: str, output: str, words: str
) -> None:
    """An unknown stack or output has the nearest name."""
    based.write(
        "site.yaml", f"project: p\nresources:\n  Widget[a]: {{colour: '${{stacks.{stack}.outputs.{output}}}'}}\n"
    )
    result = based.run("validate", "site.yaml")
    assert result.code == 65
    assert result.lines[0].startswith("site.yaml:3:15: Widget[a]: ${stacks.")
    assert words in result.err


def test_a_sensitive_output_stays_sensitive(bench: Bench) -> None:
    """It is masked everywhere, and reaches the provider."""
    bench.environment |= {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db", "RESOURCE_API_KEY": "file:key"}
    assert bench.run("new", "key", "key", RESOURCE_API_KEY="").code == 0
    bench.write("base.yaml", _BASE)
    assert bench.run("apply", "base.yaml", "--stack", "base").code == 0
    bench.write("site.yaml", "project: p\nresources: {'Account[a]': {note: 'so ${stacks.base.outputs.word}'}}\n")
    result = bench.run("apply", "site.yaml", "-d")
    assert (result.code, bench.things("account")["a"]["note"]) == (0, "so sesame-4711")
    assert "sesame" not in result.out + result.err + bench.run("state", "export").out


_EVALUATED = """
    project: p
    inputs:
      size: {type: Integer, default: 3}
      code: {type: String, sensitive: true, default: sesame-4711}
    values: {all: {sizes: ["${inputs.size}", 2]}}
    resources:
      Widget[a]: {size: "${inputs.size}"}
      Account[b]: {password: "${inputs.code}"}
"""


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        ("${inputs.size}", "3"),
        ("values.all.sizes[0]", "3"),
        ("has ${values.all.sizes[1]} and ${Widget[a].size}", "has 2 and 3"),
        ("${Widget[a].serial}", "S-a"),
        ("${Account[b].password}", "<sensitive>"),
        ("x${inputs.code}", "<sensitive>"),
        ("stacks.base.outputs.size", "3"),
    ],
)
def test_an_expression_is_shown_as_it_comes_to(based: Bench, expression: str, output: str) -> None:
    """Inputs, values, recorded attributes and outputs; the same without a manifest where it needs none."""
    based.write("site.yaml", _EVALUATED)
    assert based.run("apply", "site.yaml").code == 0
    result = based.run("eval", expression, "site.yaml")
    assert (result.code, result.out) == (0, f"{output}\n"), result.err
    assert json.dumps(based.run("eval", expression, "site.yaml", "--json").document).strip('"') == output
    if not re.search("inputs|values", expression):
        assert based.run("eval", expression).out == f"{output}\n"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("inputs.sice", "unknown input 'sice'; did you mean 'size'?"),
        ("${Widget[b].size}", "Widget[b] is not recorded in project p, stack default"),
        ("${Widget[a].sice}", "nothing is recorded of 'sice'; did you mean 'size'?"),
        ("${", "is not a reference"),
        ("${stacks.base.size}", "an output of a stack is ${stacks.NAME.outputs.x}"),
    ],
)
def test_an_expression_without_a_value_is_refused(based: Bench, expression: str, words: str) -> None:
    """With exit code 64 and the nearest name."""
    based.write("site.yaml", _EVALUATED)
    assert based.run("apply", "site.yaml").code == 0
    result = based.run("eval", expression, "site.yaml")
    assert (result.code, words in result.err) == (64, True), result.err


@pytest.mark.parametrize("path", ["stacks.none.outputs.size", "stacks.base.outputs.none"])
def test_a_condition_about_a_missing_output_does_not_hold(based: Bench, path: str) -> None:
    """Neither an unknown stack nor an unknown output is an error; only ``{exists: false}`` holds."""
    tests = ("3", "{not: 3}", "{exists: true}", "{exists: false}")
    declared = "".join(f"\n  Widget[{number}]: {{when: {{{path}: {test}}}}}" for number, test in enumerate(tests))
    based.write("site.yaml", f"project: p\nresources:{declared}\n")
    result = based.run("validate", "site.yaml")
    assert (result.code, result.out.splitlines()[0]) == (0, "site.yaml is valid: 1 resource."), result.err
    assert f"Left out: Widget[0]: {path} does not exist (site.yaml:3)" in result.out


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Return a bench that keeps its state, with a stack ``default`` of the project ``base``."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("base.yaml", "project: base\nresources: {'Widget[a]': {size: 1}}\noutputs: {x: one, y: two}\n")
    assert bench.run("apply", "base.yaml").code == 0
    return bench


def test_what_exists_is_adopted_with_a_notice(recorded: Bench) -> None:
    """Once, whether it differs or not; not where the manifest says whose it is, and it is no change."""
    recorded.put("widget", b={"size": 1}, c={"size": 1}, d={"size": 1}, e={"size": 1})
    manifest = """
        project: web
        resources:
          Widget[b]: {size: 1}
          Widget[c]: {size: 2}
          Widget[d]: {size: 1, lifecycle: {owned: true}}
          Widget[e]: {size: 1, noop: true}
          Widget[f]: {size: 1}
        """
    words = "exists already; managed from now on, not ours"
    planned = recorded.plan(manifest, "--json").document
    assert {step["reference"] for step in planned["steps"] if words in step["reasons"]} == {"Widget[b]", "Widget[c]"}
    noop = recorded.apply(manifest, "--noop")
    assert words not in noop.out + noop.err
    result = recorded.stream(manifest)
    events = [event for event in result.events("log") if event["action"] == "adopt"]
    assert [(item["reference"], item["level"], item["message"]) for item in events] == [
        ("Widget[b]", "notice", words),
        ("Widget[c]", "notice", words),
    ]
    assert (result.events("summary")[0]["updated"], result.events("summary")[0]["imported"]) == (1, 0)
    assert words not in recorded.apply(manifest).err


def test_many_adopted_resources_are_one_line(recorded: Bench) -> None:
    """With their number, from eleven on."""
    names = [f"w{number}" for number in range(11)]
    recorded.put("widget", **{name: {"size": 1} for name in names})
    result = recorded.apply(f"project: web\nresources: {json.dumps({f'Widget[{name}]': {} for name in names})}")
    assert result.lines == ["Notice: 11 resources exist already; managed from now on, not ours"]


def test_nothing_is_adopted_where_nothing_is_recorded(bench: Bench) -> None:
    """Without state a later run knows of nothing."""
    bench.put("widget", b={"size": 1})
    assert bench.apply("resources: {'Widget[b]': {}}").err == ""
    assert bench.plan("resources: {'Widget[b]': {}}", "--json").document["steps"][0]["reasons"] == []


def test_what_another_stack_records_is_a_warning_where_it_is_changed(recorded: Bench) -> None:
    """And where it is first recorded; otherwise it is told with -v."""
    words = "Widget[a]: is recorded by project base, stack default too; what one run changes, the other may change back"
    manifest = "project: web\nresources: {'Widget[a]': {size: 1}, 'Widget[b]': {}}"
    assert f"Warning: {words}" in recorded.plan(manifest).lines
    assert [line for line in recorded.apply(manifest).lines if "recorded by" in line] == [f"Warning: {words}"]
    assert recorded.apply(manifest).err == ""
    assert recorded.apply(manifest, "-v").lines == [f"Info: {words}"]
    second = words.replace("base", "web")
    assert f"Warning: {second}" in recorded.run("destroy", "base.yaml", "--yes").lines


def test_a_thing_of_another_machine_is_another_one(recorded: Bench) -> None:
    """In a state that machines share, a record of another machine is no warning, and nothing that a purge leaves."""
    store, name = open_store(recorded.environment["RESOURCE_API_STATE"]), StackName("base", "default")
    assert store.load(name).machine == machine_id()
    manifest = "project: web\nresources: {'Widget[a]': {size: 1}}"
    assert "recorded by project base" in recorded.plan(manifest).err
    with store.lock("test", 0):
        store.commit(name, Commit(machine="another"))
    assert recorded.plan(manifest).err == ""
    purged = recorded.plan("project: web\nresources: {}\npurge: [{type: Widget, at_most: 1}]", "-v")
    assert "- Widget[a] (purged)" in purged.out


@pytest.mark.parametrize("body", ["noop: true, size: 5", "lifecycle: {external: true}"])
def test_what_is_only_read_and_never_recorded_anew_is_no_warning(recorded: Bench, body: str) -> None:
    """A noop resource is not changed, and an external one is first recorded once."""
    manifest = f"project: web\nresources: {{'Widget[a]': {{{body}}}}}"
    recorded.apply(manifest)
    again = recorded.apply(manifest, "-v")
    assert [line.split(":")[0] for line in again.lines if "is recorded by" in line] == ["Info"]


def test_a_thing_of_another_configuration_is_another_one(recorded: Bench) -> None:
    """Two stacks share what they reach with equal configurations, whatever their secrets, and nothing else."""
    recorded.write(
        "modules/types/vm.py",
        """
        from resource_api import Attribute, TypeDefinition
        TYPE = TypeDefinition(
            name="vm",
            docs="A machine.",
            attributes={
                "name": Attribute("String", "n", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "e", default="present"),
            },
            config={
                "place": Attribute("String", "p"),
                "token": Attribute("Optional[Sensitive[String]]", "t"),
            },
        )
        """,
    )
    recorded.write(
        "modules/providers/vm.py",
        """
        from resource_api import SimpleProvider
        class Provider(SimpleProvider):
            def configure(self, context, config): pass
            def get(self, context): return [{"name": "a", "ensure": "present"}]
        """,
    )
    messages = {}
    for project, path in (("one", "here"), ("two", "here"), ("three", "there")):
        config = f"{{place: {path}, token: secret-{project}}}"
        recorded.write(
            f"{project}.yaml",
            f"project: {project}\nproviders: {{{project}: {{type: vm, config: {config}}}}}\n"
            f"resources: {{'Vm[a]': {{provider: {project}}}}}\n",
        )
        result = recorded.run("apply", f"{project}.yaml")
        assert result.code == 0, result
        messages[project] = [line.partition("recorded by ")[2].partition(" too")[0] for line in result.lines]
    assert [*filter(None, messages["one"] + messages["three"])] == []
    assert [*filter(None, messages["two"])] == ["project one, stack default"]
    # One manifest with resources of one name in both places: each is judged by its own configuration.
    recorded.write(
        "four.yaml",
        "project: four\n"
        "providers: {here: {type: vm, config: {place: here, token: secret-four}},"
        " there: {type: vm, config: {place: there, token: secret-four}}}\n"
        "resources: {'Vm[a]': {provider: here}, 'Vm[b]': {name: a, provider: there}}\n",
    )
    shared = {line.split(": ")[1]: line for line in recorded.run("plan", "four.yaml").lines if "recorded by" in line}
    assert shared.keys() == {"Vm[a]", "Vm[b]"}
    assert "project one, stack default; project two, stack default" in shared["Vm[a]"]
    assert "project three" in shared["Vm[b]"]


def test_an_output_that_goes_names_who_has_read_it(recorded: Bench) -> None:
    """In the plan and in the run; an output that nobody has read goes without a word."""
    recorded.write("web.yaml", "project: web\nresources: {'Widget[w]': {colour: '${stacks.base/default.outputs.x}'}}\n")
    assert recorded.run("apply", "web.yaml").code == 0
    words = "Warning: the output 'x' goes, and project web, stack default has read it"
    recorded.write("base.yaml", "project: base\nresources: {'Widget[a]': {size: 1}}\n")
    assert recorded.run("plan", "base.yaml").lines == [words]
    assert recorded.run("apply", "base.yaml").lines == [words]
    assert recorded.run("apply", "base.yaml").err == ""


def test_a_new_stack_beside_known_ones_is_told(recorded: Bench) -> None:
    """It may be misspelt; one that a file describes, one of another project, and the first one are not."""
    manifest = "project: base\nresources: {}\n"
    recorded.write("base.yaml", manifest)
    messages = "Notice: nothing is recorded of the stack '{0}', and no stacks/{0}.yaml describes it; {1}"
    for words in (["plan"], ["apply", "--noop"], ["destroy", "--noop"]):
        result = recorded.run(*words, "base.yaml", "--stack", "defautl")
        assert result.lines == [messages.format("defautl", "did you mean 'default'?")]
    recorded.write("stacks/live.yaml", "{}\n")
    assert recorded.run("plan", "base.yaml", "--stack", "live").err == ""
    assert recorded.run("plan", "base.yaml", "--stack", "qa").lines == [
        messages.format("qa", "known are default, live")
    ]
    (recorded.home / "stacks" / "live.yaml").unlink()
    recorded.write("new.yaml", "project: new\nresources: {}\n")
    assert recorded.run("plan", "new.yaml", "--stack", "qa").err == ""
