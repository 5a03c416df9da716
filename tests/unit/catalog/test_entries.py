"""The entries of a manifest: references of attributes, and one problem for each mistake."""

from __future__ import annotations

from typing import Any, Final

import pytest

from resource_api import Attribute, BaseProvider, ComponentDefinition, ManifestError, Registry, Runtime, TypeDefinition

_DISK: Final = TypeDefinition(name="disk", attributes={"name": Attribute("String[1]", kind="namevar")})
_SERVER: Final = TypeDefinition(
    name="server",
    attributes={
        "name": Attribute("String[1]", kind="namevar"),
        "disks": Attribute("Optional[Array[Reference[disk]]]"),
        "note": Attribute("Optional[String]"),
    },
)


class _Provider(BaseProvider):
    def get(self, _context: Any, names: Any = None) -> Any:
        del names
        return []

    def set(self, _context: Any, changes: Any) -> None:
        raise NotImplementedError(changes)


def _rack(m: Any) -> None:
    """Build a component of which one resource is named like one of the manifest."""
    m.disk("data", name=f"{m.title}-data")
    m.server("s", name=m.title, disks=["Disk[data]", "Disk[spare]"])


@pytest.fixture
def runtime() -> Runtime:
    """Return a runtime with two types and a component."""
    registry = Registry()
    for definition in (_DISK, _SERVER):
        registry.register_type(definition)
        registry.register_provider(definition.name, _Provider)
    registry.register_component(ComponentDefinition(name="rack"), _rack)
    return Runtime(registry, state="memory:")


def test_a_reference_in_a_component_is_to_its_own_resource_first(runtime: Runtime) -> None:
    """Also as the text of an attribute, as in relationships."""
    catalog = runtime.validate({"resources": {"Disk[data]": {}, "Disk[spare]": {}, "Rack[r]": {}}})
    servers = {str(entry.reference): entry.should for entry in catalog.entries}
    assert servers["Rack[r]/Server[s]"]["disks"] == ["r-data", "spare"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("${inputs.nope}", "${inputs.nope}: unknown input 'nope'"),
        ("${Server[b].nope}", "${Server[b].nope}: unknown attribute 'nope'; did you mean 'note'?"),
        ("${Server[b].note}", "a namevar must be known before anything is done"),
        ("${inputs.number}", "input 'number': must be an integer, not a string"),
    ],
)
def test_a_wrong_namevar_is_one_problem(runtime: Runtime, name: str, message: str) -> None:
    """That it is not known for the mistake is no second one."""
    inputs = {"number": {"type": "Integer", "default": "x"}} if "number" in name else {}
    with pytest.raises(ManifestError) as error:
        runtime.validate({"inputs": inputs, "resources": {"Server[a]": {"name": name}, "Server[b]": {}}})
    assert [problem.message for problem in error.value.problems] == [message]
