"""Nothing that root writes, makes or removes is led elsewhere by what a neighbour has put into a directory of his."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import resource_api
from tests import command
from tests.bundled import directory_of_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and a neighbour")

#: What is told where a link of a neighbour is on the way.
REFUSED: Final = re.compile(r"a symbolic link on the path is not followed|others could have changed it")


class Trap:
    """A directory of the user nobody with links to one of root, and a manifest that makes a file elsewhere."""

    def __init__(self, path: Path) -> None:
        """Make both."""
        self.path = path
        for parent in (path, *path.parents[:-2]):
            parent.chmod(0o755)
        self.victim = path / "victim"
        self.victim.mkdir()
        (self.victim / "precious").write_text("precious")
        self.home = directory_of_nobody(path)
        for name, target in (("link", self.victim), ("file", self.victim / "precious"), ("new", self.victim / "new")):
            (self.home / name).symlink_to(target)
            os.chown(self.home / name, 65534, -1, follow_symlinks=False)
        self.site = path / "site"
        self.site.mkdir()
        (self.site / "site.json").write_text(json.dumps({"resources": {f"File[{path}/made]": {"content": "x"}}}))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "RESOURCE_API_STATE": f"sqlite:{path}/s/s.db",
        }

    def run(self, *words: str, cwd: Path | None = None, **variables: str) -> str:
        """Run the command, and return what it has told."""
        arguments = [word.replace("TRAP", str(self.home)).replace("SITE", str(self.site)) for word in words]
        environment = self.environment | {
            name: text.replace("TRAP", str(self.home)) for name, text in variables.items()
        }
        process = command.run(arguments, cwd=cwd or self.site, env=environment, text=True)
        return f"{process.stdout}{process.stderr}"

    def check(self) -> None:
        """Raise ``AssertionError`` if anything of root's was changed."""
        assert [path.name for path in self.victim.iterdir()] == ["precious"]
        assert (self.victim / "precious").read_text() == "precious"
        assert (self.victim / "precious").stat().st_mode & 0o7777 == 0o644


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    """Return a trap, and check afterwards that nobody was caught."""
    result = Trap(tmp_path)
    yield result
    result.check()


@pytest.mark.parametrize("path", ["TRAP/link/x", "TRAP/file", "TRAP/new"])
@pytest.mark.parametrize(
    "words",
    [
        ("apply", "site.json", "--report", "PLACE.json"),
        ("apply", "site.json", "--metrics", "PLACE"),
        ("plan", "site.json", "-o", "PLACE"),
        ("new", "key", "PLACE"),
        ("bundle", "make", "SITE", "-o", "PLACE"),
    ],
)
def test_a_file_that_is_written(trap: Trap, words: tuple[str, ...], path: str) -> None:
    """A result, a key or a bundle is not written through a link of a neighbour."""
    for link in ("file", "new"):
        (trap.home / f"{link}.json").symlink_to((trap.home / link).readlink())
    messages = trap.run(*(word.replace("PLACE", path) for word in words))
    assert REFUSED.search(messages) or "File exists" in messages or "is there and is no bundle" in messages, messages


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (("apply", "site.json", "--report", "TRAP/link/"), {}),
        (("rehearse", "site.json", "--keep", "TRAP/link/kept"), {}),
        (("apply", "site.json", "--state", "sqlite:TRAP/link/inner/state.db"), {}),
        (("apply", "site.json", "--state", "sqlite:TRAP/inner/state.db"), {}),
        (("agent", "once", "--from", "SITE", "site.json", "--directory", "TRAP/link/agent"), {}),
        (("agent", "once", "--from", "SITE", "site.json", "--directory", "TRAP/agent"), {}),
        (("completion", "install", "bash"), {"HOME": "TRAP/link", "XDG_DATA_HOME": "TRAP/link/data"}),
    ],
)
def test_a_directory_that_is_made(trap: Trap, words: tuple[str, ...], variables: dict[str, str]) -> None:
    """A directory of results, of state or of an agent is not made behind a link, nor used where others can swap it."""
    messages = trap.run(*words, **variables)
    if words[3:] != ("TRAP/link/",):  # it is a directory, and each report is a file in it
        assert REFUSED.search(messages) or "cannot be made" in messages or "could put another" in messages, messages
    assert not (trap.home / "inner" / "state.db").exists()


def test_a_type_that_is_new(trap: Trap) -> None:
    """Its directories are not made through a link in the working directory."""
    (trap.home / "types").symlink_to(trap.victim)
    assert REFUSED.search(trap.run("new", "type", "thing", cwd=trap.home))


def test_the_reports_of_an_agent_that_is_refused(trap: Trap) -> None:
    """What others can change is not used for anything, and no report is written there in the same run."""
    agent = trap.home / "agent"
    agent.mkdir()
    (agent / "reports").symlink_to(trap.victim)
    shutil.chown(agent, "nobody")
    messages = trap.run("agent", "once", "--from", "SITE", "site.json", "--directory", str(agent))
    assert REFUSED.search(messages), messages
    assert [path.name for path in agent.iterdir()] == ["reports"]
    (agent / "reports").unlink()
    (agent / "reports").mkdir()
    shutil.chown(agent / "reports", "nobody")
    trap.run("agent", "once", "--from", "SITE", "site.json", "--directory", str(agent))
    assert list((agent / "reports").iterdir()) == []


def test_a_pipe_of_a_neighbour(trap: Trap) -> None:
    """A plan is no more written to it than a run waits for it."""
    os.mkfifo(trap.home / "pipe", 0o666)
    shutil.chown(trap.home / "pipe", "nobody")
    assert "neither a file nor a link" in trap.run("plan", "site.json", "-o", "TRAP/pipe")


def test_every_module_that_makes_directories_or_files_uses_the_walker() -> None:
    """``os.makedirs``, ``Path.mkdir`` and files opened for writing by their path follow the links of others."""
    top = Path(resource_api.__file__).parent
    pattern = re.compile(
        r"os\.makedirs\(|\.mkdir\(|\.write_(text|bytes)\(|open\([^\n]*[\"'][wxa]b?\+?[\"']|shutil\.rmtree\("
    )
    result = {
        str(path.relative_to(top))
        for path in top.rglob("*.py")
        if any(pattern.search(line) for line in path.read_text().splitlines() if "dir_fd" not in line)
    }
    assert {name for name in result if not name.startswith(("system/overlay/", "testing/"))} == {
        "agent/bundle_format.py",  # an archive in memory
        "agent/verified_sources.py",  # in the agent's own directory, after it was checked
        "cli/commands/plan.py",  # a descriptor
        "cli/output.py",  # /dev/null
        "cli/editor.py",  # in a new directory that only the caller can enter, and which `interactive` removes
        "fleet/boot.py",  # in a cache that only its owner can open, and which is checked first
        "state/lock.py",
        "system/filesystem/private_files.py",
        "state/sqlite/run_archive.py",  # beside the state, whose directory was checked; so is the other
        "state/sqlite/store.py",
        "system/filesystem/account_files.py",
        "system/filesystem/backups.py",
        "system/filesystem/directories.py",  # a file in memory
        "system/process/child.py",
        "provider/computation.py",  # a pipe
        "system/process/interactive.py",
        "terraform/packages.py",  # in a cache that only its owner can open, and which is checked first
        "terraform/plugin_process.py",  # a private temporary directory of its own
    }
