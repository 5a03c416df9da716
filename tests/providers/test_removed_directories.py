"""What is removed with a directory, or as a part of one, is not what another resource declares."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from tests.providers.applied import REGISTRY, reason, run

if TYPE_CHECKING:
    from pathlib import Path

PARTS = {
    "File[{}/sub/settings.ini]": {},
    "Ini_setting[{}/sub/settings.ini:a:b]": {"value": 1},
    "Acl[{}/other]": {"permission": ["user:root:r"]},
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a directory with a file in it and one further down."""
    top = tmp_path / "app"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "settings.ini").write_text("[a]\nb = 1\n")
    (top / "other").write_text("")
    return top


def errors(resources: dict[str, Any]) -> dict[str, str]:
    """Return why steps of a plan fail."""
    steps = Runtime(REGISTRY).plan({"project": "p", "resources": resources}).steps
    return {str(step.reference): step.error for step in steps if step.error}


@pytest.mark.parametrize("kind", ["File", "File_tree"])
@pytest.mark.parametrize("part", PARTS)
def test_a_directory_does_not_go_with_what_is_declared_in_it(top: Path, kind: str, part: str) -> None:
    """Of whatever type that is: the plan and the run fail the removal, naming the other declaration."""
    reference = part.format(top)
    removal = {"ensure": "absent", **({"force": True} if kind == "File" else {})}
    resources = {f"{kind}[{top}]": removal, reference: PARTS[part]}
    expected = f"would also remove File[{top}] and all below it, which {reference} declares as present"
    assert errors(resources)[f"{kind}[{top}]"].startswith(expected)
    run(resources)
    assert (top / "sub/settings.ini").read_text() == "[a]\nb = 1\n"
    assert errors({f"{kind}[{top}]": removal, reference: {"ensure": "absent"}}) == {}


def test_a_plan_says_that_a_directory_goes_with_its_content(top: Path) -> None:
    """Of an empty one, and of a file, there is nothing to say."""
    (top / "empty").mkdir()
    absent = {"ensure": "absent", "force": True}
    resources = {f"File[{top / name}]": absent for name in ("sub", "empty", "other")}
    steps = Runtime(REGISTRY).plan({"resources": resources}).steps
    output = [[str(effect) for effect in step.side_effects or ()] for step in steps]
    assert output == [[f"File[{top}/sub] and all below it"], [], []]
    [step] = Runtime(REGISTRY).plan({"resources": {f"File[{top}/sub]": {"ensure": "file", "force": True}}}).steps
    assert [str(effect) for effect in step.side_effects or ()] == [f"File[{top}/sub] and all below it"]


def test_a_tree_purges_no_declared_file(top: Path, tmp_path: Path) -> None:
    """What is purged is what was asked for, and not listed as a side effect; ``ignore`` is the way out."""
    source = tmp_path / "source"
    source.mkdir()
    tree: dict[str, Any] = {"source": str(source), "purge": True}
    resources: dict[str, Any] = {f"File_tree[{top}]": tree, f"File[{top}/other]": {"content": ""}}
    reason = errors(resources)[f"File_tree[{top}]"]
    assert reason.startswith(f"would remove File[{top}/other], which File[{top}/other] declares as present")
    tree["ignore"] = "other"
    assert errors(resources) == {}
    [step] = Runtime(REGISTRY).plan({"resources": {f"File_tree[{top}]": tree}}).steps
    assert step.side_effects == ()
    run(resources)
    assert [path.name for path in top.iterdir()] == ["other"]


def test_a_tree_says_what_goes_where_another_kind_replaces_it(top: Path, tmp_path: Path) -> None:
    """A file of the source in the place of a directory with content."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "sub").write_text("a file")
    tree = {f"File_tree[{top}]": {"source": str(source), "force": True}}
    reason = errors({**tree, f"File[{top}/sub/settings.ini]": {}})[f"File_tree[{top}]"]
    assert reason.startswith(f"would also remove File[{top}/sub] and all below it, which File[{top}/sub/settings.ini]")


def test_tidying_removes_no_declared_file(top: Path) -> None:
    """It would be created again by each run; what else there is, is removed."""
    tidy = {f"Tidy[{top}]": {"matches": ["other", "*.ini"], "recurse": True}}
    resources = {**tidy, f"File[{top}/other]": {"content": "x"}}
    assert errors(resources)[f"Tidy[{top}]"].startswith(f"would remove File[{top}/other], which File[{top}/other]")
    report, _ = run(resources)
    assert [bool(step.error) for step in report.steps] == [True, False]
    assert errors(tidy) == {}
    run(tidy)
    assert list(top.iterdir()) == [top / "sub"]


def test_a_checkout_goes_with_no_declared_file(top: Path, tmp_path: Path) -> None:
    """A file in it that is declared keeps it; without that the plan says that all goes."""
    subprocess.run(["git", "init", "-q", top], check=True)
    checkout = {f"Git_checkout[{top}]": {"ensure": "absent", "source": f"file://{tmp_path}/none", "force": True}}
    assert f"Git_checkout[{top}]" in errors({**checkout, f"File[{top}/other]": {}})
    assert reason(run(checkout)[0]) == ""
    assert not top.exists()


def test_an_environment_goes_with_no_declared_file(tmp_path: Path) -> None:
    """A file in it that is declared keeps it."""
    path = tmp_path / "venv"
    assert reason(run({f"Python_venv[{path}]": {"pip": False}})[0]) == ""
    absent = {f"Python_venv[{path}]": {"ensure": "absent"}}
    error = errors({**absent, f"File[{path}/pyvenv.cfg]": {}})[f"Python_venv[{path}]"]
    assert f"and all below it, which File[{path}/pyvenv.cfg] declares as present" in error
    assert reason(run(absent)[0]) == ""
    assert not os.path.lexists(path)
