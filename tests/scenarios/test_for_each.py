"""Resources for each element of a collection, and only where a condition holds (contract §10.5, §10.6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

_USERS = """
    project: site
    inputs:
      users: {default: {alice: {size: 1, colour: "$${red}"}, bob: {size: 2}}}
    resources:
      Widget[u-${each.key}]:
        for_each: ${inputs.users}
        size: ${each.value.size}
        colour: ${each.value.colour}
        parts: ["${each.index}", "of ${each.key}"]
"""


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Return a bench whose state is kept."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    return bench


def _run(bench: Bench, command: str, manifest: str, *options: str) -> Outcome:
    """Run a command with a manifest in the bench's directory, whose name is then in messages without it."""
    bench.write("site.yaml", manifest)
    return bench.run(command, "site.yaml", *options)


def _references(bench: Bench, manifest: str, *options: str) -> list[str]:
    return [step["reference"] for step in _run(bench, "plan", manifest, "--json", *options).document["steps"]]


def test_each_element_makes_a_resource(bench: Bench) -> None:
    """Key, value and index are in titles and attributes; a value of an element is never an expression again."""
    steps = _run(bench, "plan", _USERS, "--json").document["steps"]
    assert [step["reference"] for step in steps] == ["Widget[u-alice]", "Widget[u-bob]"]
    alice, bob = (step["should"] for step in steps)
    assert alice == {"ensure": "present", "force": False, "name": "u-alice", "size": 1, "colour": "${red}"} | {
        "parts": ["0", "of alice"]
    }
    assert bob["parts"] == ["1", "of bob"]
    assert "colour" not in bob


_MANY: Final = {f"k{number}": {"size": number} for number in range(3000)}


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (
            "require: 'Widget[u-${each.key}]'",
            [
                f"Widget[u-k{number}]: dependency cycle: Widget[u-k{number}] => Widget[u-k{number}]"
                for number in range(5)
            ],
        ),
        ("provider: '${each.key}'", [f"Widget[u-k{number}]: unknown provider 'k{number}'" for number in range(5)]),
        ("size: '${each.key}'", ["Widget[u-k0]: size must be an integer"]),
        (
            "require: 'Widget[q-${each.key}]'",
            [f"require: unknown resource 'Widget[q-k{number}]'" for number in range(5)],
        ),
        ("colour: '${each.value.color}'", ["Widget[u-${each.key}]: ${each.value.color}: there is no 'color'"]),
    ],
)
def test_a_mistake_of_thousands_of_elements_is_told_for_the_first(bench: Bench, written: str, lines: list[str]) -> None:
    """And the number of the rest; ends soon."""
    bench.write("in.json", json.dumps({"all": _MANY}))
    site = (
        f"inputs: {{all: {{}}}}\nresources:\n  'Widget[u-${{each.key}}]': {{for_each: '${{inputs.all}}', {written}}}\n"
    )
    result = _run(bench, "validate", site, "--inputs", "in.json")
    problems = [line for line in result.err.splitlines() if line.startswith("site.yaml:")]
    assert (result.code, len(problems)) == (65, len(lines)), result.err
    assert all(line in problem for line, problem in zip(lines, problems, strict=True)), problems
    if len(lines) > 1:
        assert "(from for_each, key 'k4', and 2,995 more)" in problems[-1]


def test_wildcards_between_thousands_of_resources_are_an_error(bench: Bench) -> None:
    """They would take all memory; it names the remedy, once."""
    bench.write("in.json", json.dumps({"all": _MANY}))
    body = "'Widget[v-${each.key}]': {for_each: '${inputs.all}', require: 'Widget[u-*]'}"
    site = (
        f"inputs: {{all: {{}}}}\nresources:\n  'Widget[u-${{each.key}}]': {{for_each: '${{inputs.all}}'}}\n  {body}\n"
    )
    result = _run(bench, "validate", site, "--inputs", "in.json")
    (problem,) = [line for line in result.err.splitlines() if line.startswith("site.yaml:")]
    assert "require: Widget[u-*] and the wildcards before it make more than 2,000,000 relationships" in problem
    assert problem.endswith("; let one resource require them, and the others that one")


def test_plan_and_graph_name_the_element(bench: Bench) -> None:
    """The plan has a note, the graph an origin, and errors of a run their element."""
    assert "+ Widget[u-alice] (from for_each, key 'alice')" in _run(bench, "plan", _USERS).out
    graph = bench.run("graph", "site.yaml", "--format", "json").document
    assert graph["nodes"][1]["origin"] == {"for_each": "Widget[u-${each.key}]", "key": "bob"}
    assert graph["left_out"] == []
    for form, text in (
        ("dot", "u-bob]\\nfrom for_each, key 'bob'"),
        ("mermaid", "u-bob]<br>from for"),
        ("html", "u-bob"),
    ):
        assert text in bench.run("graph", "site.yaml", "--format", form).out


def test_a_saved_plan_shows_and_makes_the_same(recorded: Bench) -> None:
    """``show`` has the notes of the plan, and the saved plan is carried out."""
    text = _run(recorded, "plan", _USERS, "-o", "plan.json").out
    assert recorded.run("show", "plan.json").out == text
    assert recorded.run("apply", "plan.json").code == 0
    assert recorded.run("plan", "site.yaml").out == "Plan: nothing to do; 2 unchanged.\n"


@pytest.mark.parametrize("failure", ["1 / 0", "context.failed('a', message='no')"], ids=["raised", "reported"])
def test_an_error_of_a_run_names_the_element(bench: Bench, failure: str) -> None:
    """The place of a failed resource says which element it is."""
    bench.probe(f"def get(self, context, names=None):\n    return []\ndef set(self, context, changes):\n    {failure}")
    result = _run(bench, "apply", "resources: {'Probe[${each.key}]': {for_each: [a], size: 1}}")
    assert "(site.yaml:1, from for_each, key 'a')" in result.err


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        ("[b, a]", ["b", "a"]),
        ("[3, 1.5]", ["3", "1.5"]),
        ("{b: 1, a: 2}", ["b", "a"]),
        ("[]", []),
        ("{}", []),
        ("'${inputs.none}'", []),
        ("'${values.l}'", ["x", "y"]),
        ("'${values.m.deep}'", ["k"]),
        ("['${inputs.text}']", ["t"]),
    ],
)
def test_collections_keep_their_order(bench: Bench, collection: str, expected: list[str]) -> None:
    """Mappings and lists, written out or referred to; null is empty."""
    head = "inputs: {none: {type: 'Optional[Hash]'}, text: {default: t}}\nvalues: {l: [x, y], m: {deep: {k: 1}}}\n"
    manifest = head + f"resources: {{'Widget[${{each.key}}]': {{for_each: {collection}}}}}"
    assert _references(bench, manifest) == [f"Widget[{name}]" for name in expected]


def test_null_is_not_declared(bench: Bench) -> None:
    """``for_each: null`` and ``when: null`` are as not written."""
    assert _references(bench, "resources: {'Widget[a]': {for_each: null, when: null}}") == ["Widget[a]"]


def test_values_of_other_resources_stay_references(bench: Bench) -> None:
    """A reference may name the resource of the same element, and text may hold both."""
    manifest = """
        inputs: {users: {default: [a, b]}, word: {default: "$"}}
        resources:
          Widget[one-${each.key}]: {for_each: "${inputs.users}", size: 3}
          Widget[two-${each.key}]:
            for_each: ${inputs.users}
            size: ${Widget[one-${each.key}].size}
            colour: "${each.key}${inputs.word} ${Widget[one-${each.key}].size}"
    """
    steps = _run(bench, "plan", manifest, "--json").document["steps"]
    assert steps[3]["should"]["colour"] == "b$ 3"
    assert steps[3]["depends_on"] == ["Widget[one-b]"]


def test_secret_members_stay_secret(bench: Bench) -> None:
    """A secret of an element is shown nowhere, also within a text."""
    manifest = """
        inputs:
          users:
            type: "Hash[String, Struct[{pin => Sensitive[String], size => Integer}]]"
            default: {a: {pin: geheim-77, size: 3}}
        resources:
          Widget[${each.key}]: {for_each: "${inputs.users}", size: "${each.value.size}", colour: "x${each.value.pin}y"}
    """
    result = _run(bench, "plan", manifest, "--json")
    assert result.document["steps"][0]["sensitive"] == ["colour"]
    assert "geheim-77" not in result.out + result.err + _run(bench, "plan", manifest).out


def test_relationships_name_all_of_a_type(bench: Bench) -> None:
    """Wildcards name all titles that match; the resource itself is none of them, and none at all is no mistake."""
    manifest = """
        resources:
          Widget[last]: {require: "Widget[*]"}
          Widget[${each.key}]: {for_each: [a-1, a-2, b]}
          Errand[none-${each.key}]: {for_each: []}
          Account[x]: {require: ["Widget[a-?]", "Errand[*]"]}
    """
    steps = {step["reference"]: step for step in _run(bench, "plan", manifest, "--json").document["steps"]}
    assert steps["Widget[last]"]["depends_on"] == ["Widget[a-1]", "Widget[a-2]", "Widget[b]"]
    assert steps["Account[x]"]["depends_on"] == ["Widget[a-1]", "Widget[a-2]"]


def test_metaparameters_may_depend_on_the_element(bench: Bench) -> None:
    """Each kind: flags, words, references, members of lifecycle."""
    manifest = """
        resources:
          Widget[base]: {}
          Widget[${each.key}]:
            for_each: {a: {off: true, tag: [x, y]}, b: {off: false}}
            noop: ${each.value.off}
            tag: ${each.value.tag}
            alias: second-${each.key}
            require: ["Widget[${each.value.base}]", "Widget[base]"]
            lifecycle: {protect: "${each.value.off}"}
          Widget[z]: {require: "Widget[second-b]"}
    """
    refused = _run(bench, "plan", manifest)
    assert "${each.value.base}: there is no 'base'" in refused.err
    steps = _run(bench, "plan", manifest.replace('"Widget[${each.value.base}]", ', ""), "--json").document["steps"]
    assert [step["options"]["noop"] for step in steps] == [False, True, False, False]
    assert steps[1]["options"]["tags"] == ["x", "y"]
    assert steps[3]["depends_on"] == ["Widget[b]"]


def test_metaparameters_may_depend_on_the_element_and_on_an_input(bench: Bench) -> None:
    """The rest of the expression is evaluated like one that is written out, alone or in a list."""
    manifest = """
        inputs: {site: {default: eu}}
        resources:
          Widget[a-eu]: {}
          Widget[${each.value}]:
            for_each: [b]
            require: Widget[a-${inputs.site}]
            before: ["Widget[z-${each.value}-${inputs.site}]"]
            tag: ["${each.value}-${inputs.site}"]
          Widget[z-b-eu]: {}
    """
    steps = {step["reference"]: step for step in _run(bench, "plan", manifest, "--json").document["steps"]}
    assert steps["Widget[b]"]["depends_on"] == ["Widget[a-eu]"]
    assert steps["Widget[b]"]["options"]["tags"] == ["b-eu"]
    assert steps["Widget[z-b-eu]"]["depends_on"] == ["Widget[b]"]


def test_components_are_made_for_each_element(bench: Bench) -> None:
    """A component instance takes for_each and when; in its own file ``when`` tests its own inputs."""
    bench.write(
        "components/pair.py",
        """
        from resource_api import Attribute, ComponentDefinition
        COMPONENT = ComponentDefinition(name="pair_of", docs="Two.", inputs={"big": Attribute("Boolean", "b")})
        def build(m):
            m.widget("one", name=m.title + "-1")
            m.widget("two", name=m.title + "-2", when={"inputs.big": True})
        """,
    )
    (bench.home / "components" / "pair.py").rename(bench.home / "components" / "pair_of.py")
    manifest = """
        resources:
          Pair_of[${each.key}]: {for_each: {a: true, b: false, c: true}, when: {each.key: [a, b]}, big: "${each.value}"}
    """
    assert _references(bench, manifest) == [
        "Pair_of[a]/Widget[one]",
        "Pair_of[a]/Widget[two]",
        "Pair_of[b]/Widget[one]",
    ]
    nodes = _run(bench, "graph", manifest, "--json").document["nodes"]
    assert [node["origin"] for node in nodes] == [{"for_each": "Pair_of[${each.key}]", "key": key} for key in "aab"]
    assert "+ Pair_of[b]/Widget[one] (from for_each, key 'b')" in _run(bench, "plan", manifest).out
    result = _run(bench, "validate", manifest)
    assert "Left out: Pair_of[c]: each.key is c, none of a, b (site.yaml:2)\n" in result.out
    assert "Left out: Pair_of[b]/Widget[two]: inputs.big is false, not true (" in result.out


# What is left out


_LEFT = """
    project: site
    inputs: {web: {default: false}}
    resources:
      Widget[a]: {}
      Widget[b]: {when: "${inputs.web}", colour: "${Widget[c].colour}", alias: bee}
      Widget[c]: {when: {inputs.web: true}}
      Widget[d]: {require: ["Widget[a]", "Widget[b]"], subscribe: "Widget[bee]", lifecycle: {deleted_with: "Widget[c]"}}
    outputs:
      size: {value: "${Widget[c].size}", when: "${inputs.web}"}
"""


def test_what_is_left_out_is_as_if_not_declared(bench: Bench) -> None:
    """Relationships to it are dropped, and ``validate``, ``plan -v`` and ``graph`` say it with the reason."""
    assert _references(bench, _LEFT) == ["Widget[a]", "Widget[d]"]
    lines = [
        "Left out: Widget[b]: ${inputs.web} is false (site.yaml:5)",
        "Left out: Widget[c]: inputs.web is false, not true (site.yaml:6)",
        "Left out: output size: ${inputs.web} is false (site.yaml:9)",
    ]
    assert _run(bench, "validate", _LEFT).out.splitlines() == ["site.yaml is valid: 2 resources.", *lines]
    assert _run(bench, "plan", _LEFT, "-v").out.splitlines()[-4:-1] == lines
    assert "Left out" not in _run(bench, "plan", _LEFT).out
    graph = bench.run("graph", "site.yaml", "--json").document
    assert graph["left_out"][0] == {"reference": "Widget[b]", "why": "${inputs.web} is false (site.yaml:5)"}
    debug = _run(bench, "plan", _LEFT, "-d").err
    assert "Debug: Widget[d]: require: Widget[b] is left out: ${inputs.web} is false" in debug


@pytest.mark.parametrize(
    "declaration",
    [
        "'Widget[b]': {when: '${Widget[x].size}'}",
        "'Widget[b]': {when: 3}",
        "'Widget[b]': {when: {nothing.x: 1}}",
        "'Widget[b]': {when: {inputs.x: 1}}",
        "'Widget[${each.key}]': {for_each: 3}",
    ],
)
def test_an_invalid_condition_or_collection_is_the_only_mistake(bench: Bench, declaration: str) -> None:
    """Whether there is a resource that others refer to is not known then."""
    uses = "'Widget[c]': {size: '${Widget[b].size}', require: 'Widget[b]'}"
    manifest = f"resources: {{{declaration}, {uses}}}\noutputs: {{o: '${{Widget[b].size}}'}}"
    result = bench.run("validate", bench.write("site.yaml", manifest), "--json")
    assert result.code == 65
    assert [problem["attribute"] for problem in result.document["diagnostics"]] in (["when"], ["for_each"])


def test_a_condition_that_holds_changes_nothing(bench: Bench) -> None:
    """With the input, all is declared."""
    assert _references(bench, _LEFT, "-i", "web=true") == ["Widget[a]", "Widget[c]", "Widget[b]", "Widget[d]"]


def test_targets_and_excludes_that_name_it_do_nothing(bench: Bench) -> None:
    """They match: by title, alias, wildcard and URN; another name is still refused."""
    for name in ("Widget[b]", "Widget[bee]", "Widget[[bc]]", "widget[c]"):
        assert (_run(bench, "plan", _LEFT, "--target", name).code == 0) is (name != "Widget[[bc]]"), name
    assert _references(bench, _LEFT, "--target", "Widget[b]") == []
    assert _references(bench, _LEFT, "--exclude", "Widget[c]") == ["Widget[a]", "Widget[d]"]
    assert _run(bench, "plan", _LEFT, "--target", "Widget[e]").code == 64


def test_it_is_deleted_with_prune_and_forgotten_otherwise_never(recorded: Bench) -> None:
    """What is ours and left out is reported, and deleted by ``--prune``."""
    assert recorded.apply(_LEFT, "-i", "web=true").code == 0
    plain = recorded.apply(_LEFT)
    assert "Widget[b]" in plain.err
    assert json.loads(recorded.run("output", "--json").out) == {}
    result = recorded.run("apply", "site.yaml", "--prune", "--json")
    assert {end["reference"]: end["action"] for end in result.events("step_end")} == {
        "Widget[b]": "delete",
        "Widget[c]": "delete",
    }


def test_a_move_to_it_is_carried_out(recorded: Bench) -> None:
    """The record has the new name, although nothing declares it."""
    recorded.apply("{project: site, resources: {'Widget[old]': {name: w}, 'Widget[x]': {require: 'Widget[old]'}}}")
    moved = """
        project: site
        moved: [{from: "Widget[old]", to: "Widget[new]"}]
        resources: {"Widget[new]": {name: w, when: false}, "Widget[x]": {require: "Widget[new]"}}
    """
    assert recorded.apply(moved).code == 0
    assert recorded.run("state", "list").out.split() == ["Widget[new]", "Widget[x]"]


def test_an_unevaluated_title_may_be_any(bench: Bench) -> None:
    """The titles of a collection that is not evaluated are not known: a relationship to one of them is dropped."""
    manifest = """
        inputs: {users: {type: "Optional[Hash]"}}
        resources:
          Widget[u-${each.key}]: {when: {facts.os.family: Plan9}, for_each: "${inputs.users.missing}"}
          Widget[a]: {require: "Widget[u-alice]"}
    """
    assert _references(bench, manifest) == ["Widget[a]"]
    assert _run(bench, "plan", manifest.replace("u-alice", "v-alice")).code == 65


def test_a_handler_of_what_is_left_out_is_never_done(bench: Bench) -> None:
    """What is left out cannot fail."""
    manifest = "resources: {'Widget[a]': {when: false}, 'Widget[b]': {on_failure: 'Widget[a]'}, 'Widget[c]': {}}"
    result = bench.stream(manifest)
    assert list(result.ends()) == ["Widget[c]"]


# Included files


def test_a_file_is_included_under_a_condition(bench: Bench) -> None:
    """It is not read where the condition does not hold; inputs only for it are ignored."""
    bench.write("on.yaml", "{resources: {'Widget[on]': {}}, include: [{file: deep.yaml, when: '${inputs.deep}'}]}")
    bench.write("deep.yaml", "resources: {'Widget[deep]': {}}")
    bench.write("off.yaml", "this is: [no YAML")
    manifest = """
        include:
          - {file: on.yaml, when: {facts.kernel: Linux}}
          - {file: off.yaml, when: {values.kind: other}}
        values: {kind: this}
        inputs: {deep: {default: false}}
        resources: {"Widget[main]": {require: "Widget[elsewhere]"}}
    """
    assert _references(bench, manifest, "-i", "mirror=x") == ["Widget[on]", "Widget[main]"]
    assert _references(bench, manifest, "-i", "deep=true") == ["Widget[deep]", "Widget[on]", "Widget[main]"]
    result = _run(bench, "validate", manifest, "-i", "mirror=x", "-d")
    assert "Left out: off.yaml: values.kind is this, not other (site.yaml:3)" in result.out
    assert "the input 'mirror' is ignored: no file that is included declares it" in result.err


def test_what_needs_no_inputs_needs_none_for_a_condition(bench: Bench) -> None:
    """A destruction and the list of inputs leave the file out whose condition cannot be judged; a plan refuses."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("on.yaml", "resources: {'Widget[on]': {}}")
    manifest = "project: p\ninclude: [{file: on.yaml, when: {inputs.kind: x}}]\ninputs: {kind: {type: String}}\n"
    assert _run(bench, "apply", manifest, "-i", "kind=x").code == 0
    assert "input 'kind': is not given and has no default" in _run(bench, "plan", manifest).err
    assert _run(bench, "inputs", manifest).out == "kind: (not given)\n"
    result = _run(bench, "destroy", manifest, "--yes")
    assert (result.code, result.err) == (0, "Notice: Widget[on]: Successfully deleted\n")


def test_alternatives_may_have_one_name(bench: Bench) -> None:
    """Of declarations of one resource in several files, one may be kept; two are declared twice."""
    bench.write("a.yaml", "resources: {'Widget[x]': {size: 1, when: {inputs.n: 1}}}")
    bench.write("b.yaml", "resources: {'Widget[x]': {size: 2, when: {inputs.n: {le: 2}}}}")
    manifest = (
        "{include: [a.yaml, b.yaml], inputs: {n: {type: Integer, default: 1}}, outputs: {s: '${Widget[x].size}'}}"
    )
    assert _run(bench, "plan", manifest, "-i", "n=2", "--json").document["outputs"] == {"s": 2}
    assert "b.yaml:1:13: Widget[x]: declared twice; first at a.yaml:1" in _run(bench, "validate", manifest).err


def test_json_manifests_have_both(bench: Bench) -> None:
    """JSON is the same data."""
    data = {"resources": {"Widget[${each.key}]": {"for_each": ["a", "b"], "when": {"each.index": {"lt": 1}}}}}
    bench.write("site.json", json.dumps(data))
    assert [step["reference"] for step in bench.run("plan", "site.json", "--json").document["steps"]] == ["Widget[a]"]


def test_an_unchanged_run_judges_again(recorded: Bench) -> None:
    """A run that leaves out what needs no plan still evaluates conditions."""
    manifest = """
        project: site
        inputs: {n: {default: [a]}}
        resources:
          Widget[x${each.key}]: {for_each: "${inputs.n}"}
          Widget[0]: {}
          Widget[1]: {}
          Widget[2]: {when: {host.name: {exists: false}}}
    """
    for _ in range(3):
        assert recorded.apply(manifest).code == 0
    assert "1 created" in recorded.run("apply", "site.yaml", "-i", 'n=["a", "b"]').out
