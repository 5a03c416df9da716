"""Components through the command line: loaded from the module path and used by every command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft7Validator

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

HOUSE = '''
"""A house."""

from resource_api import Attribute, ComponentDefinition

COMPONENT = ComponentDefinition(
    name="house",
    docs="A wall, and a roof upon it. Nobody lives there.",
    inputs={
        "colour": Attribute("String", "How it looks."),
        "size": Attribute("Integer[1, 9]", "How big it is.", default=2),
        "code": Attribute("Optional[Sensitive[String]]", "Opens it."),
    },
    outputs={"serial": "The number of its wall."},
)


def build(m):
    wall = m.widget("wall", name=f"{m.title}-wall", colour=m.inputs.colour, size=m.inputs.size)
    m.widget("roof", {"name": f"{m.title}-roof"}, require=wall)
    if m.inputs.code is not None:
        m.account("door", name=f"{m.title}-door", password=m.inputs.code, note="none")
    m.output("serial", wall.serial)
'''
SITE = """
resources:
  House[a]: {colour: red}
  Widget[w]: {colour: "${House[a].serial}"}
outputs:
  serial: ${House[a].serial}
"""


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """Put a component on the module path."""
    bench.write("modules/components/house.py", HOUSE)
    return bench


def test_a_component_is_applied(bench: Bench) -> None:
    """Its resources are created in order, and messages and events name the component."""
    result = bench.stream(SITE)
    assert result.code == 0
    assert result.lines == [
        "Notice: House[a]/Widget[wall]: Successfully created",
        "Notice: House[a]/Widget[roof]: Successfully created",
        "Notice: Widget[w]: Successfully created",
    ]
    first = result.events("step_end")[0]
    assert first["reference"] == "House[a]/Widget[wall]"
    assert first["urn"] == "urn:resource:default::site::house$widget::a::wall"
    assert bench.things("widget")["w"]["colour"] == "S-a-wall"
    assert result.events("outputs")[0]["outputs"] == {"serial": "S-a-wall"}


def test_a_value_is_referred_to_by_the_name_on_the_system(bench: Bench) -> None:
    """As relationships are: of a resource in a component, and of one with another title, whatever comes first."""
    site = """
    resources:
      Widget[v]: {colour: "${Widget[n].colour}", size: "${Widget[a-wall].size}"}
      House[b]: {colour: "${Widget[a-wall].colour}"}
      House[a]: {colour: red}
      Widget[other title]: {name: n, colour: "${Widget[a-wall].colour} too"}
    """
    should = {step["reference"]: step["should"] for step in bench.plan(site, "--json").document["steps"]}
    assert (should["Widget[v]"]["colour"], should["Widget[v]"]["size"]) == ("red too", 2)
    assert should["House[b]/Widget[wall]"]["colour"] == "red"


def test_a_component_is_planned(bench: Bench) -> None:
    """The text plan and the JSON plan name the component of each step."""
    result = bench.plan(SITE)
    assert "+ House[a]/Widget[wall]" in result.out.splitlines()
    (wall, *_) = bench.plan(SITE, "--json").document["steps"]
    assert (wall["reference"], wall["parent"]) == ("House[a]/Widget[wall]", "House[a]")
    assert wall["notifies"] == []


def test_a_python_manifest_uses_components(bench: Bench) -> None:
    """A component in a Python manifest has a handle with outputs and can be required."""
    site = bench.write(
        "site.py",
        """
        def manifest(m):
            a = m.house("a", colour="red")
            m.widget("w", colour=m.text("by {0}", a.serial), require=a)
            m.house("b", colour=a.serial)
        """,
    )
    assert bench.run("apply", site).code == 0
    assert {name: row.get("colour") for name, row in bench.things("widget").items()} == {
        "a-wall": "red",
        "a-roof": None,
        "w": "by S-a-wall",
        "b-wall": "S-a-wall",
        "b-roof": None,
    }


def test_state_names_the_parent(bench: Bench) -> None:
    """Lists and details name the parent, and an exported state is imported without a difference."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply(SITE, *state).code == 0
    listed = bench.run("state", "list", *state).out.splitlines()
    assert listed == ["House[a]/Widget[wall]", "House[a]/Widget[roof]", "Widget[w]"]
    output = bench.run("state", "show", "House[a]/Widget[roof]", *state).out
    assert "urn: urn:resource:default::site::house$widget::a::roof" in output
    assert "parent: House[a]" in output
    exported = bench.run("state", "export", *state).out
    bench.home.joinpath("out.json").write_text(exported)
    second = ("--state", f"sqlite:{bench.home}/other.db")
    assert bench.run("state", "import", "out.json", *second).code == 0
    assert bench.run("state", "export", *second).out == exported
    assert bench.apply(SITE, "--detailed-exitcodes", *second).code == 0


def test_a_saved_plan_of_components_is_applied(bench: Bench) -> None:
    """The plan is applied, and it is stale while the source of the component differs."""
    bench.write("site.yaml", SITE)
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 0
    bench.write("modules/components/house.py", HOUSE.replace("default=2", "default=3"))
    refused = bench.run("apply", "plan.json")
    assert (refused.code, "stale" in refused.err) == (65, True)
    bench.write("modules/components/house.py", HOUSE)
    assert bench.run("apply", "plan.json").code == 0
    assert sorted(bench.things("widget")) == ["a-roof", "a-wall", "w"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "components/house.py:1: ZeroDivisionError: division by zero"),
        ("x = (", "components/house.py:1: SyntaxError"),
        ("print(1)", "prints while it is loaded"),
        ("X = 1", "defines no COMPONENT"),
        (HOUSE.replace('"house"', '"hut"'), "COMPONENT is named 'hut' but its file is named 'house'"),
        (HOUSE.replace("def build", "def built"), "defines no function build(m)"),
        (HOUSE.replace("Integer[1, 9]", "Integr"), "component 'house': input 'size': data type 'Integr'"),
        (
            HOUSE.replace("m.inputs.size)", "m.inputs.sise)"),
            "components/house.py:18:82: House[a]: there is no input 'sise'",
        ),
        (
            HOUSE.replace("size=m.inputs.size", "sise=1"),
            "components/house.py:18:77: House[a]/Widget[wall]: unknown attr",
        ),
    ],
)
def test_a_broken_component_is_reported_with_its_position(bench: Bench, text: str, message: str) -> None:
    """There is one error with the position, and no provider is called."""
    bench.write("modules/components/house.py", text)
    result = bench.apply(SITE)
    assert result.code == 65
    assert message in result.err
    assert len(result.lines) == 1
    assert bench.calls("widget") == []


def test_a_component_that_is_called_like_a_type_is_refused(bench: Bench) -> None:
    """The error names both files."""
    bench.write("modules/components/widget.py", HOUSE.replace('"house"', '"widget"'))
    result = bench.apply("resources: {'Widget[a]': {}}")
    assert result.code == 65
    assert "components/widget.py: a component cannot be called like a type" in result.err
    assert "types/widget.py" in result.err


def test_secrets_inside_a_component_stay_hidden(bench: Bench) -> None:
    """No stream contains the secret, also when the component raises it, and the provider receives it."""
    site = """
    inputs:
      code: {type: "Sensitive[String]", default: hunter2hunter2}
    resources:
      House[a]: {colour: red, code: "${inputs.code}"}
    """
    for options in ((), ("--json",), ("--noop",), ("-d",)):
        result = bench.apply(site, *options)
        assert result.code == 0
        assert "hunter2hunter2" not in result.out + result.err
    assert bench.things("account")["a-door"]["password"] == "hunter2hunter2"
    bench.write(
        "modules/components/house.py", HOUSE.replace("wall = ", "raise ValueError(m.inputs.code.reveal())\n    x = ")
    )
    result = bench.apply(site, "-d")
    assert result.code == 65
    assert "House[a]: " in result.err
    assert "hunter2hunter2" not in result.out + result.err


def test_components_are_listed_and_described(bench: Bench) -> None:
    """``types`` lists components, and ``describe`` shows their inputs and outputs."""
    listed = bench.run("types", "--all")
    [line] = [line for line in listed.out.splitlines() if line.split(maxsplit=1)[0] == "house"]
    assert "A wall, and a roof upon it. (component" in line
    [house] = [item for item in bench.run("types", "--json").document if item["name"] == "house"]
    assert (house["docs"], house["component"]) == ("A wall, and a roof upon it. Nobody lives there.", True)
    text = bench.run("describe", "House").out
    for words in ("INPUTS", "colour", "Integer[1, 9]", "default 2", "OUTPUTS", "serial: The number of its wall."):
        assert words in text
    document = bench.run("describe", "house", "--json").document
    assert [value["name"] for value in document["inputs"]] == ["colour", "size", "code"]
    assert document["outputs"] == {"serial": "The number of its wall."}
    assert "## Inputs" in bench.run("describe", "house", "--format", "markdown").out
    assert bench.run("describe", "nosuch").code == 64


def test_a_broken_component_disables_itself_only(bench: Bench) -> None:
    """``types`` and ``schema`` report the broken component and list everything else."""
    bench.write("modules/components/house.py", "1 / 0")
    for command in ("types", "schema"):
        result = bench.run(command)
        assert result.code == 0
        assert "components/house.py:1: ZeroDivisionError" in result.err
        assert "widget" in result.out


def test_a_component_that_is_called_like_a_type_disables_both_only(bench: Bench) -> None:
    """``types`` and ``schema`` report it once and list everything else."""
    bench.write("modules/components/widget.py", HOUSE.replace('"house"', '"widget"'))
    for command in ("types", "schema"):
        result = bench.run(command)
        assert result.code == 0
        assert [line for line in result.err.splitlines() if "cannot be called like a type" in line] == [
            result.err.rstrip()
        ]
        assert "token" in result.out


def test_the_schema_contains_components(bench: Bench) -> None:
    """The schema accepts valid inputs of a component and refuses an unknown one."""
    schema = bench.run("schema").document
    validator = Draft7Validator(schema)
    assert validator.is_valid({"resources": {"House[a]": {"colour": "red", "size": 3, "require": "Widget[w]"}}})
    assert validator.is_valid({"resources": {"House[a]": {"colour": "red", "size": "${inputs.size}"}}})
    assert not validator.is_valid({"resources": {"House[a]": {"colour": "red", "sise": 3}}})


def test_the_graph_draws_a_box_around_a_component(bench: Bench) -> None:
    """Graphviz and Mermaid output has a subgraph per component, and each JSON node names its parent."""
    site = bench.write("site.yaml", SITE)
    dot = bench.run("graph", site).out
    assert 'subgraph cluster_0 { label="House[a]"' in dot
    assert 'n2 [label="Widget[w]"]' in dot.partition("subgraph")[0]
    assert 'subgraph c0["House[a]"]' in bench.run("graph", site, "--format", "mermaid").out
    nodes = bench.run("graph", site, "--format", "json").document["nodes"]
    assert [node.get("parent") for node in nodes] == ["House[a]", "House[a]", None]


def test_state_commands_accept_components(bench: Bench) -> None:
    """``state rm`` removes all resources of a component, and ``state mv`` moves one into or out of it."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply(SITE, *state).code == 0
    urn = "urn:resource:default::site::house$widget::a::roof"
    assert bench.run("state", "show", urn, *state).out.startswith("House[a]/Widget[roof]:")
    assert bench.run("state", "mv", urn, "Widget[top]", *state).code == 0
    assert bench.run("state", "mv", "Widget[w]", "House[a]/Widget[x]", *state).code == 0
    listed = bench.run("state", "list", *state).out.splitlines()
    assert sorted(listed) == ["House[a]/Widget[wall]", "House[a]/Widget[x]", "Widget[top]"]
    assert bench.run("state", "rm", "House[a]", *state).code == 0
    assert bench.run("state", "list", *state).out.splitlines() == ["Widget[top]"]
    assert bench.run("state", "mv", "Widget[top]", "House[a]", *state).code == 64


def test_a_component_is_imported_resource_by_resource(bench: Bench) -> None:
    """Importing a component is refused with the list of its resources, each of which can be imported."""
    site = bench.write("site.yaml", SITE)
    result = bench.run("import", site, "House[a]")
    assert result.code == 64
    assert "import its resources one by one: House[a]/Widget[wall], House[a]/Widget[roof]" in result.err
    bench.put("widget", **{"a-roof": {}})
    assert bench.run("import", site, "House[a]/Widget[roof]").code == 0


def test_a_component_is_no_type_whose_resources_can_be_listed(bench: Bench) -> None:
    """The message says so, and offers no name that is the same."""
    bench.write("site.yaml", SITE)
    for command in (
        ["resource", "house"],
        ["resource", "House", "a"],
        ["import", "--all", "house", "-o", "x.yaml", "--yes"],
    ):
        refused = bench.run(*command)
        assert (refused.code, refused.err.split("; ", 1)[1]) == (
            64,
            "it is a component: name the types of its resources\n",
        )


def test_only_the_secret_members_of_an_input_are_secret(bench: Bench) -> None:
    """A component reads and tests the members beside them; the secrets are hidden, and the provider receives them."""
    bench.write(
        "modules/components/crew.py",
        """
        from resource_api import Attribute, ComponentDefinition
        MEMBERS = "Array[Struct[{name => String, code => Sensitive[String]}]]"
        COMPONENT = ComponentDefinition(name="crew", docs="Accounts.", inputs={"members": Attribute(MEMBERS, "m")})
        def build(m):
            for member in m.inputs.members:
                m.account(member.name, password=member.code, note="of " + member["name"])
            m.account("first", note=m.inputs.members[0].code, when={"inputs.members[0].name": "ann"})
        """,
    )
    result = bench.stream(
        "inputs: {code: {type: 'Sensitive[String]', default: hunter2hunter2}}\n"
        "resources: {'Crew[x]': {members: [{name: ann, code: 'a-${inputs.code}'}, {name: bo, code: swordfish}]}}"
    )
    assert (result.code, list(result.ends())) == (0, [f"Crew[x]/Account[{name}]" for name in ("ann", "bo", "first")])
    assert not re.search("hunter2hunter2|swordfish", result.out + result.err)
    rows = bench.things("account")
    assert (rows["ann"]["password"], rows["first"]["note"], rows["bo"]["note"]) == (
        "a-hunter2hunter2",
        "a-hunter2hunter2",
        "of bo",
    )


def test_encrypted_secrets_follow_a_renamed_component(bench: Bench) -> None:
    """After a component is renamed, the secrets of its declared and undeclared resources can still be decrypted."""
    state = ("--state", f"sqlite:{bench.home}/state.db", "--key", "file:key")
    assert bench.run("new", "key", "key").code == 0
    site = "project: p\nresources:\n  House[a]: {colour: red, code: hunter2hunter2}\n"
    assert bench.apply(site, *state).code == 0
    renamed = site.replace("House[a]: {", "House[b]: {lifecycle: {aliases: [a]}, ")
    bench.write("modules/components/house.py", HOUSE.replace("{m.title}", "a"))
    moved = bench.apply(renamed, "--detailed-exitcodes", *state)
    assert (moved.code, moved.err) == (0, "")
    assert bench.run("state", "check", *state).code == 0
    listed = bench.run("state", "list", *state).out.splitlines()
    assert "House[b]/Account[door]" in listed
    again = bench.apply(renamed, "--detailed-exitcodes", *state)
    assert (again.code, "3 unchanged" in again.out) == (0, True)
    # A resource that the component no longer declares keeps its secret under the new name.
    bench.write("modules/components/house.py", HOUSE.replace("{m.title}", "a").replace("is not None", "is ..."))
    renamed = renamed.replace("House[b]: {lifecycle: {aliases: [a]}", "House[c]: {lifecycle: {aliases: [b]}")
    assert bench.apply(renamed, *state).code == 0
    output = bench.run("state", "show", "House[c]/Account[door]", *state)
    assert (output.code, "password: <sensitive>" in output.out) == (0, True), output
    assert bench.run("destroy", "site.yaml", "--yes", *state).code == 0
    assert bench.things("account") == {}
