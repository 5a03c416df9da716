"""Official programs of Terraform providers, in Go, of three generations of their SDK: null, lxd and vsphere.

They come in wheels, which are installed into an environment of their own below ``.peers``.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from resource_api.model.type_definition import TypeDefinition
from resource_api.terraform.family import Family
from tests.peers.terraform_programs import Site, program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Iterator[Family]:
    """Return the types of the provider that a test names."""
    created = Family(request.param, str(program(request.param)), lambda _level, _text: None)
    yield created
    created.close()


@pytest.mark.parametrize(("family", "count"), [("null", 1), ("lxd", 10), ("vsphere", 39)], indirect=["family"])
def test_every_resource_of_a_provider_is_a_type(family: Family, count: int) -> None:
    """Each definition is valid, and so are the data sources and the configuration."""
    names = sorted(family.schema["resource_schemas"])
    assert len(names) == count
    functions = [family.name] if family.schema["data_source_schemas"] else []
    assert all(isinstance(family.definition(name), TypeDefinition) for name in [*names, *functions])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a new directory."""
    return Site(tmp_path)


def test_the_whole_life_of_null_resources(site: Site) -> None:
    """Create, a silent second run, replace with its dependents, destroy; no program is left."""
    resources = (
        "  Null_resource[one]: {triggers: {a: x}}\n  Null_resource[two]: {triggers: {id: '${Null_resource[one].id}'}}\n"
    )
    site.write("null", resources)
    assert "Plan: 2 to create" in site.run("plan", "site.yaml")[1]
    assert "2 created" in site.run("apply", "site.yaml")[1]
    assert "2 unchanged" in site.run("apply", "site.yaml", "--parallel", "4")[1]
    site.write("null", resources.replace("a: x", "a: y"))
    assert "(its provider cannot change triggers in place)" in site.run("plan", "site.yaml")[1]
    assert "2 replaced" in site.run("apply", "site.yaml")[1]
    code, text = site.run("import", "site.yaml", "Null_resource[two]", "1")
    assert code == 0, text
    assert "2 deleted" in site.run("destroy", "site.yaml", "--yes")[1]
    running = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert str(program("null")) not in running


def test_vsphere_checks_its_resources_with_their_place(site: Site) -> None:
    """Its own check of a disk is a problem of ``validate`` at the line of the attribute."""
    machine = (
        "  Vsphere_virtual_machine[vm]:\n    name: x\n    resource_pool_id: p\n"
        "    disk: [{label: a, unit_number: 99, size: 1}]\n    network_interface: [{network_id: n}]\n"
    )
    site.write("vsphere", machine, "{user: a, password: b, vsphere_server: 127.0.0.1}")
    code, text = site.run("validate", "site.yaml")
    assert code == 65
    assert "site.yaml:7:5: Vsphere_virtual_machine[vm]: " in text
    assert "expected disk.0.unit_number to be in the range (0 - 59), got 99" in text


def test_a_provider_without_its_service_fails_with_its_words(site: Site) -> None:
    """Vsphere is configured with the first call of a run: nothing listens there."""
    site.write(
        "vsphere", "  Vsphere_folder[f]: {path: a, type: vm}\n", "{user: a, password: b, vsphere_server: 127.0.0.1}"
    )
    code, text = site.run("apply", "site.yaml")
    assert code == 1
    assert "127.0.0.1" in text


def test_a_secret_in_an_attribute_that_is_none_needs_a_key(site: Site) -> None:
    """Without one nothing is created; with it the state keeps the provider's own state encrypted."""
    more = "inputs: {key: {type: String, sensitive: true, default: hunter2-key}}\n"
    site.write("null", "  Null_resource[one]: {triggers: {a: '${inputs.key}'}}\n", more=more)
    key = site.environment.pop("RESOURCE_API_KEY")
    code, text = site.run("apply", "site.yaml", "--state", f"sqlite:{site.home}/plain.db")
    assert (code, "'resource-api new key PATH' makes one" in text) == (1, True), text
    assert "Null_resource" not in site.run("state", "list", "--state", f"sqlite:{site.home}/plain.db")[1]
    site.environment["RESOURCE_API_KEY"] = key
    assert site.run("apply", "site.yaml")[0] == 0
    assert "1 unchanged" in site.run("apply", "site.yaml")[1]
    assert b"hunter2" not in (site.home / "state.db").read_bytes()
