"""``hosts runtime`` as people type it: what is added, listed and refused."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests import command, json_schemas
from tests.namespaces import bind, private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.process

#: A program for x86_64 that is linked with nothing: the header of an ELF file (elf(5)), and no segments.
_PROGRAM: Final = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)


class Desk:
    """A directory with archives, and the command in it."""

    def __init__(self, directory: Path) -> None:
        """Keep everything beneath a directory."""
        self.directory = directory
        self.state = directory / "state"
        self.state.mkdir()

    def archive(self, name: str, minor: int, *members: tarfile.TarInfo) -> str:
        """Write an archive with Python 3.``minor`` and further members, and return its name."""
        with tarfile.open(self.directory / name, "w:gz") as file:
            for path, content in ((f"bin/python3.{minor}", _PROGRAM), ("lib/code.py", b"")):
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(content), 0o755
                file.addfile(info, io.BytesIO(content))
            for info in (_link("bin/python3", f"python3.{minor}"), *members):
                file.addfile(info)
        return name

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run ``hosts runtime`` and return its exit code, stdout and stderr."""
        options = ("hosts", "runtime", *arguments)
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": str(self.state)}
        process = command.run(options, cwd=self.directory, env=environment, text=True, timeout=50)
        json_schemas.check(options, process.stdout, process.returncode)
        return process.returncode, process.stdout, process.stderr

    def kept(self) -> list[str]:
        """Return the names of the files that are kept."""
        return sorted(path.name for path in self.state.rglob("*.*"))


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk that keeps no runtime; where root keeps them is a directory of its own."""
    result = Desk(tmp_path)
    with ExitStack() as stack:
        if os.geteuid() == 0:
            stack.enter_context(private_mounts())
            bind(result.state, "/var/lib")
        yield result


def test_interpreters_are_added_once_and_listed(desk: Desk) -> None:
    """The newest comes first; one that is there already is not there twice; as lines and as JSON."""
    assert desk.run("list") == (0, "", "")
    assert json.loads(desk.run("list", "--json")[1]) == []
    code, added, error = desk.run("add", desk.archive("old.tar.gz", 11))
    assert (code, error) == (0, "")
    assert added.endswith("  Python 3.11 for x86_64 with glibc 2.0, 0.0 MB\n")
    assert desk.run("add", desk.archive("again.tar.gz", 11)) == (0, added, "")
    code, newer, _ = desk.run("add", desk.archive("new.tar.gz", 13), "--json")
    assert code == 0
    listed = json.loads(desk.run("list", "--json")[1])
    assert [item["python"] for item in listed] == ["3.13", "3.11"]
    assert listed[0] == json.loads(newer)
    assert desk.run("list")[1].splitlines()[1] == added.strip()
    assert len(desk.kept()) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in desk.state.rglob("*.*"))


@pytest.mark.parametrize(
    ("name", "members", "code", "message"),
    [
        ("../python3", [tarfile.TarInfo("../python3")], 64, "is no archive that can be used: "),
        ("a link to elsewhere", [_link("lib/passwd", "/etc/passwd")], 64, "is no archive that can be used: "),
        (
            "a member beneath a link",
            [_link("a", "lib"), tarfile.TarInfo("a/b")],
            64,
            "is no archive that can be used: ",
        ),
    ],
)
def test_a_hostile_archive_is_refused(
    desk: Desk, name: str, members: list[tarfile.TarInfo], code: int, message: str
) -> None:
    """What leaves the directory in which it is unpacked is named, and nothing is kept."""
    result = desk.run("add", desk.archive("python.tar.gz", 12, *members))
    assert (result[0], message in result[2]) == (code, True), (name, result)
    assert desk.kept() == []


def test_what_is_no_runtime_is_refused(desk: Desk) -> None:
    """Another file, one that is too old, and one that is missing; nothing is kept."""
    (desk.directory / "notes.txt").write_text("no archive")
    for name, code, message in (
        ("notes.txt", 64, "notes.txt: is no archive that can be used: "),
        (desk.archive("older.tar.gz", 9), 64, "older.tar.gz: has Python 3.9; hosts need 3.11 or later"),
        ("missing.tar.gz", 64, "'missing.tar.gz' does not exist"),
    ):
        result = desk.run("add", name)
        assert (result[0], message in result[2]) == (code, True), result
    assert desk.kept() == []
