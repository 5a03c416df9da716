"""Components as people meet them: files on the module path, and every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
    """Its resources are made in order, and their lines and events say whose they are."""
    done = bench.stream(SITE)
    assert done.code == 0
    assert done.lines == [
        "Notice: House[a]/Widget[wall]: Successfully created",
        "Notice: House[a]/Widget[roof]: Successfully created",
        "Notice: Widget[w]: Successfully created",
    ]
    first = done.events("step_end")[0]
    assert first["reference"] == "House[a]/Widget[wall]"
    assert first["urn"] == "urn:resource:default::site::house$widget::a::wall"
    assert bench.things("widget")["w"]["colour"] == "S-a-wall"
    assert done.events("outputs")[0]["outputs"] == {"serial": "S-a-wall"}


def test_a_component_is_planned(bench: Bench) -> None:
    """For people and for programs."""
    done = bench.plan(SITE)
    assert "+ House[a]/Widget[wall]" in done.out.splitlines()
    (wall, *_) = bench.plan(SITE, "--json").document["steps"]
    assert (wall["reference"], wall["parent"]) == ("House[a]/Widget[wall]", "House[a]")
    assert wall["notifies"] == []


def test_a_python_manifest_uses_components(bench: Bench) -> None:
    """As it does types: handles, outputs, relationships."""
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
    """In lists, documents and on the command line; an export comes back as it was."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply(SITE, *state).code == 0
    listed = bench.run("state", "list", *state).out.splitlines()
    assert listed == ["House[a]/Widget[wall]", "House[a]/Widget[roof]", "Widget[w]"]
    shown = bench.run("state", "show", "House[a]/Widget[roof]", *state).out
    assert "urn: urn:resource:default::site::house$widget::a::roof" in shown
    assert "parent: House[a]" in shown
    exported = bench.run("state", "export", *state).out
    bench.home.joinpath("out.json").write_text(exported)
    other = ("--state", f"sqlite:{bench.home}/other.db")
    assert bench.run("state", "import", "out.json", *other).code == 0
    assert bench.run("state", "export", *other).out == exported
    assert bench.apply(SITE, "--detailed-exitcodes", *other).code == 0


def test_a_saved_plan_of_components_is_carried_out(bench: Bench) -> None:
    """And refused when the component has been changed since."""
    bench.write("site.yaml", SITE)
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 0
    bench.write("modules/components/house.py", HOUSE.replace("default=2", "default=3"))
    refused = bench.run("apply", "plan.json")
    assert (refused.code, "stale" in refused.err) == (65, True)
    bench.write("modules/components/house.py", HOUSE)
    assert bench.run("apply", "plan.json").code == 0
    assert sorted(bench.things("widget")) == ["a-roof", "a-wall", "w"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "components/house.py:1: ZeroDivisionError: division by zero"),
        ("x = (", "components/house.py:1: SyntaxError"),
        ("print(1)", "prints while it is loaded"),
        ("X = 1", "COMPONENT must be a ComponentDefinition, not NoneType"),
        (HOUSE.replace('"house"', '"hut"'), "COMPONENT is named 'hut' but its file is named 'house'"),
        (HOUSE.replace("def build", "def built"), "defines no function build(m)"),
        (HOUSE.replace("Integer[1, 9]", "Integr"), "component 'house': input 'size': data type 'Integr'"),
        (HOUSE.replace("m.inputs.size)", "m.inputs.sise)"), "components/house.py:18:1: House[a]: there is no 'sise'"),
        (
            HOUSE.replace("size=m.inputs.size", "sise=1"),
            "components/house.py:18:1: House[a]/Widget[wall]: unknown attr",
        ),
    ],
)
def test_a_broken_component_is_told_with_its_place(bench: Bench, text: str, says: str) -> None:
    """Nothing is touched, and what uses it is not wrong as well."""
    bench.write("modules/components/house.py", text)
    done = bench.apply(SITE)
    assert done.code == 65
    assert says in done.err
    assert len(done.lines) == 1
    assert bench.calls("widget") == []


def test_a_component_that_is_called_like_a_type_is_refused(bench: Bench) -> None:
    """Naming both files."""
    bench.write("modules/components/widget.py", HOUSE.replace('"house"', '"widget"'))
    done = bench.apply("resources: {'Widget[a]': {}}")
    assert done.code == 65
    assert "components/widget.py: a component cannot be called like a type" in done.err
    assert "types/widget.py" in done.err


def test_secrets_go_through_a_component_unseen(bench: Bench) -> None:
    """No stream shows them, also when its code raises one; the provider gets them."""
    site = """
    inputs:
      code: {type: "Sensitive[String]", default: hunter2hunter2}
    resources:
      House[a]: {colour: red, code: "${inputs.code}"}
    """
    for options in ((), ("--json",), ("--noop",), ("-d",)):
        done = bench.apply(site, *options)
        assert done.code == 0
        assert "hunter2hunter2" not in done.out + done.err
    assert bench.things("account")["a-door"]["password"] == "hunter2hunter2"
    bench.write(
        "modules/components/house.py", HOUSE.replace("wall = ", "raise ValueError(m.inputs.code.reveal())\n    x = ")
    )
    done = bench.apply(site, "-d")
    assert done.code == 65
    assert "House[a]: " in done.err
    assert "hunter2hunter2" not in done.out + done.err
