"""Files that cannot be replaced are overwritten: mount points in a namespace, directories without write access."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resource_api import ResourceError, files
from resource_api.system.filesystem import in_place
from tests.namespaces import bind, private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
OLD = b"127.0.0.1 localhost\n10.0.0.5 web\n"
NOBODY = 65534


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Yield a file that another one is mounted over, as in a container."""
    path, source = tmp_path / "etc" / "hosts", tmp_path / "outside"
    path.parent.mkdir()
    path.touch()
    source.write_bytes(OLD)
    with private_mounts():
        bind(source, str(path))
        yield path


def append(lines: files.Lines) -> None:
    """Add a host."""
    lines.append("10.0.0.6 db")


class TestMountPoint:
    """A mount point cannot be replaced by rename(2)."""

    def test_it_is_edited_where_it_is(self, mounted: Path) -> None:
        """The inode, the other lines and the mode stay, and no temporary file is left."""
        mounted.chmod(0o640)
        before = mounted.stat()
        files.edit_lines(str(mounted), append, mode=0o644)
        assert mounted.read_bytes() == OLD + b"10.0.0.6 db\n"
        after = mounted.stat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
        assert [path.name for path in mounted.parent.iterdir()] == ["hosts"]

    @pytest.mark.parametrize("content", [b"", b"short\n", OLD * 9000])
    def test_the_new_content_is_exact(self, mounted: Path, content: bytes) -> None:
        """Whether it is shorter or longer than the old one; it comes in parts, too."""
        files.replace(str(mounted), iter([content[:7], content[7:]]))
        assert mounted.read_bytes() == content

    def test_permissions_are_those_that_are_declared(self, mounted: Path) -> None:
        """Set-id bits were granted to the old content."""
        mounted.chmod(0o4755)
        files.replace(str(mounted), b"new")
        assert mounted.stat().st_mode & 0o7777 == 0o755
        files.replace(str(mounted), b"new", mode=0o600, uid=1, gid=2)
        status = mounted.stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o600, 1, 2)

    def test_it_is_written_under_its_lock(self, mounted: Path) -> None:
        """Two editors at a time lose nothing: the second one reads what the first one has written."""
        ended = []
        with mounted.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            editor = threading.Thread(target=lambda: ended.append(edit_in(mounted)))
            # A thread has the mounts of the one that has started it.
            editor.start()
            time.sleep(0.3)
            assert mounted.read_bytes() == OLD
            with mounted.open("ab") as second:
                second.write(b"10.0.0.7 mail\n")
        editor.join()
        assert ended == [None]
        assert mounted.read_bytes() == OLD + b"10.0.0.7 mail\n10.0.0.6 db\n"

    def test_a_lock_that_is_kept_fails_the_change(self, mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is written."""
        monkeypatch.setattr(in_place, "_LOCK_SECONDS", 0)
        with mounted.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(OSError, match="another process keeps it locked"):
                files.replace(str(mounted), b"new")
        assert mounted.read_bytes() == OLD

    @pytest.mark.process
    def test_it_is_on_disk_on_return_and_written_at_once(self, mounted: Path) -> None:
        """One write, the new length, fsync: the order is that of the system calls."""
        files.replace(str(mounted), b"new")  # what is loaded late is loaded
        log = mounted.parent.parent / "log"
        tracer = subprocess.Popen(
            ["strace", "-f", "-y", "-o", log, "-e", "trace=write,ftruncate,fsync,flock", "-p", str(os.getpid())],
            stderr=subprocess.PIPE,
        )
        assert tracer.stderr is not None
        assert b"attached" in tracer.stderr.readline()
        try:
            files.replace(str(mounted), b"newer")
        finally:
            tracer.terminate()
            tracer.communicate()
        calls = [line.split()[1].partition("(")[0] for line in log.read_text().splitlines() if "/hosts>" in line]
        assert calls == ["flock", "write", "ftruncate", "fsync"]

    def test_a_file_that_others_could_swap_is_left_alone(self, mounted: Path) -> None:
        """Another user can write to a directory on its path."""
        mounted.parent.chmod(0o777)
        with pytest.raises(PermissionError, match="other users can write to a directory on its path"):
            files.replace(str(mounted), b"new")
        assert mounted.read_bytes() == OLD
        assert [path.name for path in mounted.parent.iterdir()] == ["hosts"]

    def test_a_file_with_other_names_is_left_alone(self, mounted: Path, tmp_path: Path) -> None:
        """Their content would change too."""
        os.link(tmp_path / "outside", tmp_path / "other name")
        with pytest.raises(PermissionError, match="has other hard links"):
            files.replace(str(mounted), b"new")
        assert mounted.read_bytes() == OLD

    def test_it_is_neither_removed_nor_made_a_link(self, mounted: Path) -> None:
        """The message says that it is a mount point."""
        with files.Batch() as batch:
            with pytest.raises(OSError, match="it is a mount point") as caught:
                batch.remove(str(mounted))
            assert caught.value.errno == errno.EBUSY
            with pytest.raises(OSError, match="it is a mount point"):
                batch.make_link(str(mounted), "elsewhere")
        assert [path.name for path in mounted.parent.iterdir()] == ["hosts"]

    @pytest.mark.process
    def test_a_full_disk_leaves_the_old_content(self, tmp_path: Path) -> None:
        """What was written already is taken back."""
        path, small = tmp_path / "hosts", tmp_path / "small"
        path.touch()
        small.mkdir()
        with private_mounts():
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "ra-test", small], check=True)
            (small / "hosts").write_bytes(OLD)
            bind(small / "hosts", str(path))
            with pytest.raises(OSError, match="No space left") as caught:
                files.replace(str(path), b"x" * 100_000)
            assert caught.value.errno == errno.ENOSPC
            assert path.read_bytes() == OLD


def edit_in(path: Path) -> None:
    """Edit a file."""
    files.edit_lines(str(path), append, mode=0o644)


class TestDirectoryWithoutWriteAccess:
    """A user may write to a file, and not to the directory that it is in."""

    PROGRAM = (
        "import fcntl, os, sys\nfrom resource_api import files\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "def check(path):\n"
        "    print(open(path).read())\n"
        "try: files.edit(sys.argv[1], lambda old: old + b'new', mode=0o644, check=check)\n"
        "except OSError as error: print(error.strerror)\n"
    )

    def run(self, path: Path, *wrapper: str) -> str:
        """Edit a file as another user, and return what is printed."""
        process = subprocess.run(
            [*wrapper, sys.executable, "-c", self.PROGRAM, path], capture_output=True, text=True, check=True
        )
        return process.stdout

    @pytest.fixture
    def file(self) -> Iterator[Path]:
        """Yield a file of nobody in a directory of root that everybody can enter."""
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            directory.chmod(0o755)
            path = directory / "config"
            path.write_bytes(b"old ")
            os.chown(path, NOBODY, NOBODY)
            yield path

    def test_the_file_is_overwritten_after_its_check(self, file: Path) -> None:
        """The check can read the new content."""
        assert self.run(file) == "old new\n"
        assert file.read_bytes() == b"old new"

    def test_what_cannot_be_written_fails_as_before(self, file: Path) -> None:
        """The error is that of the directory."""
        file.chmod(0o444)
        assert self.run(file) == "Permission denied\n"
        assert file.read_bytes() == b"old "


def test_what_is_overwritten_in_place_is_known_before(mounted: Path, tmp_path: Path) -> None:
    """A mount point is, also at the end of a link where links are followed; another file, a missing one, are not."""
    (tmp_path / "link").symlink_to(mounted)
    paths = [str(mounted), str(tmp_path / "outside"), str(tmp_path / "none"), str(tmp_path / "link")]
    assert in_place.why_not_replaced(paths) == {str(mounted): f"'{mounted}' is a mount point"}
    assert list(in_place.why_not_replaced(paths, follow=True)) == [str(mounted), str(tmp_path / "link")]


def test_a_file_that_keeps_changing_fails(mounted: Path) -> None:
    """After five attempts; what the others have written stays."""

    def change(content: bytes) -> bytes:
        with mounted.open("ab") as file:
            file.write(b"x")
        return content + b"new"

    with pytest.raises(ResourceError, match="was changed by others 5 times"):
        files.edit(str(mounted), change, mode=0o644)
    assert mounted.read_bytes() == OLD + b"xxxxx"
