"""A mount point is a border, whatever its device."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from resource_api import files
from resource_api.system import c_library
from resource_api.system.overlay import overlay
from resource_api.system.process import interactive
from tests import namespaces
from tests.bundled import directory_of_nobody
from tests.providers.applied import reason, run

if TYPE_CHECKING:
    from pathlib import Path

needs_mounts = pytest.mark.skipif(not namespaces.may_mount(), reason="needs the right to mount")
pytestmark = needs_mounts


def bound(tmp_path: Path, name: str = "top") -> tuple[Path, Path]:
    """Return a directory in which another one of the same filesystem is mounted, and that other one."""
    top, real = tmp_path / name, tmp_path / "real"
    (top / "inner" / "mounted").mkdir(parents=True)
    real.mkdir()
    (real / "precious").write_text("precious")
    namespaces.bind(real, str(top / "inner" / "mounted"))
    return top, real


def test_a_bind_mount_of_the_same_filesystem_is_seen(tmp_path: Path) -> None:
    """By its number, and in the list of mount points, also with a space in its path."""
    with namespaces.private_mounts():
        top, real = bound(tmp_path, "a b")
        with files.Directories() as directories:
            above = directories.reach(str(top))
            assert files.mounts_beneath(above) == {"inner/mounted"}
            number = files.mount_id(above.fd)
            inner = directories.reach(f"{top}/inner/mounted")
            assert inner.device == above.device
            assert files.mount_id(inner.fd) != number
            assert files.mount_id(directories.reach(str(real)).fd) == number


def test_a_mount_may_have_any_path_and_no_source(tmp_path: Path) -> None:
    """A user can mount at a path with a carriage return, by fuse(4), and must not stop commands of root by it."""
    strange = tmp_path / "a\rb - \u2028c\\d\x85"
    strange.mkdir()
    with namespaces.private_mounts():
        c_library.call("mount", b"", os.fsencode(strange), b"tmpfs", 2, None)
        assert str(strange) in files.mount_points()
        [mount] = [mount for mount in overlay.mounts() if mount.path == str(strange)]
        assert (mount.kind, mount.flags) == ("tmpfs", overlay.NO_SETUID)
        with interactive.memory_directory() as directory:
            assert directory.startswith("/")


@pytest.mark.process
@pytest.mark.parametrize(
    "declared",
    [
        {"Tidy[TOP]": {"age": "0s", "recurse": True, "rmdirs": True}},
        {"File_tree[TOP]": {"source": "SOURCE", "purge": True}},
        {"File_tree[TOP]": {"ensure": "absent"}},
        {"File_tree[TOP]": {"mode": "0700"}},
        {"File[TOP]": {"ensure": "absent", "force": True}},
        {"Git_checkout[TOP]": {"ensure": "absent", "source": "SOURCE", "force": True}},
        {"Python_venv[TOP]": {"ensure": "absent"}},
    ],
)
def test_nothing_behind_a_bind_mount_is_touched(tmp_path: Path, declared: dict[str, dict[str, object]]) -> None:
    """By no type that goes into a directory."""
    source = tmp_path / "source"
    (source / "inner" / "mounted").mkdir(parents=True)
    with namespaces.private_mounts():
        top, real = bound(tmp_path)
        before = (real / "precious").stat()
        ((key, attributes),) = declared.items()
        if key.startswith("Git_checkout"):
            subprocess.run(["git", "init", "-q", top], check=True)
            subprocess.run(["git", "-C", top, "remote", "add", "origin", source], check=True)
        elif key.startswith("Python_venv"):
            (top / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
        document = json.loads(json.dumps(attributes).replace("SOURCE", str(source)))
        error = reason(run({key.replace("TOP", str(top)): document})[0])
        assert (real / "precious").read_text() == "precious"
        assert (real / "precious").stat().st_mode == before.st_mode
        assert key.startswith("Tidy") or "mounted" in error, error


def test_a_file_that_is_a_mount_point_is_a_border(tmp_path: Path) -> None:
    """Its mode is that of another file."""
    top, real = tmp_path / "top", tmp_path / "real"
    top.mkdir()
    real.write_text("precious")
    (top / "file").touch()
    with namespaces.private_mounts():
        namespaces.bind(real, str(top / "file"))
        before = real.stat().st_mode
        assert "mounted" in reason(run({f"File_tree[{top}]": {"mode": "0777"}})[0])
        assert real.stat().st_mode == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a neighbour")
def test_unmounting_is_not_redirected(tmp_path: Path) -> None:
    """By a neighbour who swaps his directory for a link after it was reached."""
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    home, srv = directory_of_nobody(tmp_path), tmp_path / "srv"
    (srv / "real").mkdir(parents=True)
    (home / "d" / "real").mkdir(parents=True)
    with namespaces.private_mounts():
        namespaces.mount_memory(str(srv / "real"))
        namespaces.mount_memory(str(home / "d" / "real"))
        with files.Directories() as directories:
            reached = directories.place(f"{home}/d/real")
            (home / "d").rename(home / "aside")
            (home / "d").symlink_to(srv)
            files.unmount(*reached)
        assert os.path.ismount(srv / "real")
        assert not os.path.ismount(home / "aside" / "real")


def test_what_was_unpacked_is_removed_before_a_mount_point_only(tmp_path: Path) -> None:
    """A file behind it has the name of a member, and did not come from the archive."""
    source, top, real = tmp_path / "source", tmp_path / "top", tmp_path / "real"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "precious").write_text("a member")
    declared = {"source": {"archive": {"directory": str(source)}}}
    assert reason(run({f"Archive[{top}]": declared})[0]) == ""
    real.mkdir()
    (real / "precious").write_text("a member")
    (real / "precious").chmod(0o644)
    with namespaces.private_mounts():
        namespaces.bind(real, str(top / "inner"))
        assert "mounted" in reason(run({f"Archive[{top}]": {"ensure": "absent", **declared}})[0])
        assert (real / "precious").exists()
