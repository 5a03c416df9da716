"""Programs of Terraform providers in Python: pyvider-components, and one that is made with the package tf."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from resource_api.model.type_definition import TypeDefinition
from resource_api.terraform.family import Family
from tests.peers.terraform_programs import Site, program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a new directory."""
    return Site(tmp_path)


@pytest.mark.parametrize(("name", "resources", "functions"), [("pyvider", 4, 25), ("jar", 1, 0)])
def test_every_resource_and_function_of_a_provider_is_declared(name: str, resources: int, functions: int) -> None:
    """Each definition is valid."""
    family = Family(name, str(program(name)), lambda _level, _text: None)
    try:
        assert (len(family.schema["resource_schemas"]), len(family.schema["functions"])) == (resources, functions)
        names = [*family.schema["resource_schemas"], name]
        assert all(isinstance(family.definition(defined), TypeDefinition) for defined in names)
    finally:
        family.close()


def test_the_whole_life_of_notes(site: Site) -> None:
    """Create, a silent second run, a changed set of blocks, an argument taken away, replace, import, destroy."""
    notes = site.home / "notes"
    notes.mkdir()
    values = "kind: x, text: hello, tags: [b, a], ports: [80, 443], link: [{url: b}, {url: a, weight: 2}]"
    note = f"  Jar_note[one]: {{{values}}}\n"
    config, more = f"{{directory: {notes}}}", "values:\n  n: {invoke: jar.jar_count, with: {pattern: '*.json'}}\n"
    site.write("jar", note, config)
    assert "1 created" in site.run("apply", "site.yaml")[1]
    assert "nothing to do" in site.run("plan", "site.yaml")[1]
    site.write("jar", note.replace("weight: 2", "weight: 3").replace(", ports: [80, 443]", ""), config)
    plan = site.run("plan", "site.yaml")[1]
    assert "ports: [80, 443] → (none)" in plan
    assert "weight: 2 → 3" in plan
    assert "1 updated" in site.run("apply", "site.yaml")[1]
    site.write("jar", note.replace("kind: x", "kind: y"), config, more + "outputs: {n: '${values.n.number}'}\n")
    assert "(its provider cannot change kind in place)" in site.run("plan", "site.yaml")[1]
    code, text = site.run("apply", "site.yaml")
    assert (code, "1 replaced" in text) == (0, True), text
    assert "n: 1" in text
    (path,) = notes.glob("*.json")
    assert json.loads(path.read_text())["owner"] == "nobody"
    assert site.run("state", "rm", "Jar_note[one]", "--project", "site")[0] == 0
    assert site.run("import", "site.yaml", "Jar_note[one]", path.stem)[0] == 0
    assert "nothing to do" in site.run("plan", "site.yaml")[1]
    assert "1 deleted" in site.run("destroy", "site.yaml", "--yes")[1]
    assert list(notes.glob("*.json")) == []
    site.write("jar", note.replace("hello", "forbidden"), "{directory: /}")
    code, text = site.run("validate", "site.yaml")
    assert code == 65
    assert "This text is forbidden" in text
    assert "site.yaml:2:" in text
    assert "This directory is refused" in text


def test_resources_and_private_bytes_of_pyvider(site: Site) -> None:
    """A file, a directory, and a token whose private bytes the program has encrypted."""
    site.environment["PYVIDER_PRIVATE_STATE_SHARED_SECRET"] = "a-secret-of-the-test"
    resources = (
        f"  Pyvider_file_content[f]: {{filename: {site.home}/x.txt, content: hello}}\n"
        f"  Pyvider_local_directory[d]: {{path: {site.home}/made}}\n"
        "  Pyvider_timed_token[t]: {name: t}\n"
    )
    site.write(
        "pyvider",
        resources,
        more="outputs: {sum: '${values.sum}'}\nvalues:\n  sum: {invoke: pyvider.add, with: {a: 1, b: 2}}\n",
    )
    code, text = site.run("apply", "site.yaml")
    assert (code, "3 created" in text, "sum: 3" in text) == (0, True, True), text
    assert (site.home / "x.txt").read_text() == "hello"
    code, text = site.run("apply", "site.yaml")
    assert "3 unchanged" in text, text
    (site.home / "x.txt").write_text("drift")
    assert "content: drift → hello" in site.run("plan", "site.yaml")[1]
    code, text = site.run("destroy", "site.yaml", "--yes")
    assert (code, (site.home / "x.txt").exists(), (site.home / "made").exists()) == (0, False, False), text
