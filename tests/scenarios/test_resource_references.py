"""The data type Reference: an attribute that receives the name of another resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MOUNT = """
    "name": Attribute("String", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", default="present"),
    "disk": Attribute("Optional[Reference[disk]]"),
    "others": Attribute("Optional[Array[Reference]]"),
"""
DISK = """
    "id": Attribute("Pattern[/^[a-z]+$/]", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", default="present"),
"""
SLICE = """
    "disk": Attribute("String", kind="namevar"),
    "number": Attribute("Integer", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", default="present"),
"""
KEEPER = """
def _file(self, kind=Path(__file__).stem):
    return Path(os.environ["BENCH"], kind + ".json")
def get(self, context):
    return json.loads(self._file().read_text()) if self._file().exists() else []
def create(self, context, name, should):
    self._file().write_text(json.dumps([*self.get(context), dict(should)]))
def update(self, context, name, should):
    raise AssertionError
def delete(self, context, name):
    raise AssertionError
"""


@pytest.fixture
def types(bench: Bench) -> Bench:
    """Return a bench with mounts and the disks that they refer to."""
    bench.type("mount", MOUNT, provider=KEEPER)
    bench.type("disk", DISK, provider=KEEPER)
    bench.type("slice", SLICE, provider=KEEPER)
    return bench


def test_a_reference_yields_the_name_and_the_order(types: Bench) -> None:
    """The provider receives the name of the referenced resource, which is created first."""
    result = types.stream(
        """
        resources:
          Mount[a]: {disk: "Disk[data]", others: ["Disk[sda]", sdc]}
          Disk[data]: {id: sdb}
          Disk[sda]: {}
        """
    )
    assert result.code == 0
    order = [event["reference"] for event in result.events("step_end")]
    assert order.index("Mount[a]") > max(order.index("Disk[data]"), order.index("Disk[sda]"))
    [row] = types.run("resource", "mount", "a", "--json").document
    assert (row["disk"], row["others"]) == ("sdb", ["sda", "sdc"])


def test_a_handle_is_a_reference(types: Bench) -> None:
    """A handle in a Python manifest is accepted as a reference."""
    types.write("site.py", "def manifest(m):\n    m.mount('a', disk=m.disk('data', id='sdb'))\n")
    assert types.run("apply", "site.py").code == 0
    assert types.run("resource", "mount", "a", "--json").document[0]["disk"] == "sdb"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Disk[sdx]", "unknown resource 'Disk[sdx]'; did you mean 'Disk[sda]'?"),
        ("Mount[a]", "disk: must be a reference to Disk, not Mount[a]"),
        ("Disk['sda']", "disk: quotes are no part of a title; write Disk[sda]"),
        ("Dsik[sda]", "disk: must be a reference to Disk, not Dsik[sda]"),
    ],
)
def test_an_unresolved_reference_has_its_line(types: Bench, value: str, message: str) -> None:
    """The error has the position and a hint."""
    result = types.validate(f'resources:\n  Disk[sda]: {{}}\n  Mount[a]:\n    disk: "{value}"\n')
    assert result.code == 65
    assert "site.yaml:4:5: Mount[a]: " in result.err
    assert message in result.err


def test_a_resource_with_several_namevars_cannot_be_a_reference(types: Bench) -> None:
    """The error suggests a reference to one of its namevars."""
    result = types.validate('resources:\n  Slice[s]: {disk: sda, number: 1}\n  Mount[a]: {others: ["Slice[s]"]}\n')
    assert "others: Slice[s] is known by disk and number; refer to one: ${Slice[s].disk}" in result.err


def test_a_title_that_should_be_a_number_is_refused_with_the_declaration(types: Bench) -> None:
    """A title is a string, so a namevar of the data type Integer is declared."""
    types.type("port", '"number": Attribute("Integer", kind="namevar"),', provider=KEEPER)
    refused = types.validate("resources:\n  Port[80]: {}\n")
    assert refused.code == 65
    assert "Port[80]: number must be an integer, not a string; a title is a string; declare number: 80" in refused.err
    assert types.validate("resources:\n  Port[80]: {number: 80}\n").code == 0
