"""States and saved plans of older releases, each in a directory named by its commit, are read by this one.

``state.tar.gz`` has the state of ``site.yaml`` in two stacks, encrypted with ``key``, and of ``interrupted.yaml``,
whose run was killed in its second resource. ``plan.json`` is a plan of that state, ``export.json`` an export.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import command

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES: Final = sorted(path.parent.name for path in Path(__file__).parent.glob("*/plan.json"))
#: The directory in the manifests.
MANAGED: Final = Path("/tmp/resource-api-releases")  # noqa: S108 - as the older release has recorded it

pytestmark = pytest.mark.process


class Release:
    """The documents of a release, copied into a directory, and the present command for them."""

    def __init__(self, commit: str, directory: Path) -> None:
        """Unpack the state beside the manifests, and make what they declare."""
        self.path = directory / commit
        shutil.copytree(Path(__file__).parent / commit, self.path)
        (self.path / "key").chmod(0o600)
        with tarfile.open(self.path / "state.tar.gz") as tar:
            tar.extractall(self.path, filter="tar")
        assert self.run("apply", "site.yaml", "-q", state="memory:")[0] == 0

    def run(self, *arguments: str, state: str = "") -> tuple[int, str, str]:
        """Run a command with the state; return its exit code, stdout and stderr."""
        options = ["--state", state or f"sqlite:{self.path}/state.db"]
        if arguments[0] in {"apply", "destroy", "plan", "state"} and "interrupted.yaml" not in arguments and not state:
            options += ["--key", f"file:{self.path}/key"]
        environment = command.environment_of(self.path)
        ended = command.run(
            [*arguments, *(options if arguments[0] != "show" else [])], cwd=self.path, env=environment, text=True
        )
        return ended.returncode, ended.stdout, ended.stderr

    def document(self, *arguments: str) -> Any:
        """Return the JSON of a command that succeeds."""
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Release]:
    """Return a release with its managed directory, which is removed afterwards."""
    assert not MANAGED.exists()
    try:
        yield Release(request.param, tmp_path)
    finally:
        shutil.rmtree(MANAGED, ignore_errors=True)


def _without_boxes(value: Any) -> Any:
    """Return a document without its encrypted values, which each export writes anew."""
    if isinstance(value, dict):
        return {name: _without_boxes(item) for name, item in value.items() if name != "box"}
    return value


def test_the_state_of_an_older_release_is_complete(release: Release) -> None:
    """Its export has whatever the older one exported; its stacks, resources and runs are listed."""
    old = json.loads((release.path / "export.json").read_text())
    new = release.document("state", "export", "--project", "releases")
    sealed = {"resources", "sealing", "sealed_salt"}
    assert {name: new[name] for name in old.keys() - sealed} == {name: old[name] for name in old.keys() - sealed}
    for before, after in zip(old["resources"], new["resources"], strict=True):
        assert {name: _without_boxes(after[name]) for name in before} == _without_boxes(before)
    stacks = release.document("stack", "list")
    assert {(stack["project"], stack["stack"]) for stack in stacks} == {
        ("interrupted", "default"),
        ("releases", "default"),
        ("releases", "second"),
    }
    assert len(release.document("history", "--project", "releases")) >= 1


def test_a_plan_beside_the_state_of_an_older_release_is_silent(release: Release) -> None:
    """What is as the older release has recorded it needs no step, in both stacks; then everything can be deleted."""
    for stack in ("default", "second"):
        code, out, err = release.run("plan", "site.yaml", "--stack", stack)
        assert (code, out.splitlines()[-1]) == (0, "Plan: 1 to run; 6 unchanged."), err
    (release.path / "word").write_text("second")
    code, _, err = release.run("apply", "site.yaml", "-i", "word=@word")
    assert (code, (MANAGED / "secret").read_text()) == (0, "second"), err
    (release.path / "site.yaml").write_text("project: releases\n")
    code, _, err = release.run("apply", "site.yaml", "--prune")
    assert code == 1
    assert "File[/tmp/resource-api-releases/secret]" in err


def test_a_saved_plan_of_an_older_release_is_shown_and_carried_out_or_stale(release: Release) -> None:
    """``show`` prints its steps; ``apply`` does them, or refuses the whole plan."""
    code, out, err = release.run("show", "plan.json")
    assert code == 0, err
    assert "content: 'Hello\\n' → 'Hello again\\n'" in out
    code, _, err = release.run("apply", "plan.json")
    assert (MANAGED / "motd").read_text() == ("Hello again\n" if code == 0 else "Hello\n")
    assert code == 0 or (code == 65 and "stale" in err)


def test_a_run_that_an_older_release_left_unfinished_converges(release: Release) -> None:
    """The killed step is told, the rest is made, and the next run has nothing else to do."""
    manifest = release.path / "interrupted.yaml"
    manifest.write_text(manifest.read_text().replace("sleep 60", "/bin/true"))
    code, _, err = release.run("apply", "interrupted.yaml")
    assert code == 0, err
    assert (MANAGED / "after").read_text() == "after\n"
    code, out, err = release.run("destroy", "interrupted.yaml", "--yes")
    assert code == 0, out + err
    assert not (MANAGED / "after").exists()
