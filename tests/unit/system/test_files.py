"""File changes are atomic, durable and safe against other users: checked on the real system, through strace."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.system.filesystem import files, reading, trees
from resource_api.system.filesystem.directories import MAX_OPEN, Directories
from resource_api.system.filesystem.reading import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[3]
CALLS: Final = "openat,write,fchown,fchmod,fsetxattr,fsync,syncfs,rename,renameat,renameat2,mkdirat,unlinkat,close"
NOBODY: Final = 65534
LIMIT: Final = 1 << 20
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def run(program: str, *arguments: object, strace: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program that begins with ``files`` imported, under strace if asked."""
    head = "import os, sys; from resource_api.system.filesystem import files, reading\n"
    return subprocess.run(
        [*(["strace", "-f", "-s", "200", *strace] if strace else []), sys.executable, "-c", head + program]
        + [str(argument) for argument in arguments],
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def trace(tmp_path: Path, program: str, *arguments: object, inject: str = "") -> list[str]:
    """Return the system calls of a program; ``inject`` is an option of strace."""
    log = tmp_path.parent / f"{tmp_path.name}.strace"
    options = ["-y", "-o", str(log), "-e", f"trace={CALLS}", *(["-e", f"inject={inject}"] if inject else [])]
    result = run(program, *arguments, strace=options)
    assert result.returncode == 0, result.stderr
    return [line.split(maxsplit=1)[1] for line in log.read_text(encoding="utf-8").splitlines()]


def mode(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.lstat().st_mode)


def names(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(path.name for path in directory.iterdir())


def ended_process() -> int:
    """Return the number of a process that has ended."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    return dead.pid


def left(directory: Path) -> list[str]:
    """Return the temporary names in a directory."""
    return [name for name in names(directory) if name.endswith(files.TEMPORARY_SUFFIX)]


class TestDurability:
    """A file is on disk before it is visible, whole or not at all."""

    @pytest.mark.process
    def test_a_file_is_complete_and_on_disk_before_it_has_its_name(self, tmp_path: Path) -> None:
        """The order is O_EXCL with 0600, write, owner, mode, fsync, rename, fsync of the directory."""
        (tmp_path / "f").write_text("old")
        owner = "uid=1, gid=1" if os.geteuid() == 0 else ""
        calls = trace(tmp_path, f"files.replace(sys.argv[1], b'new', mode=0o640, {owner})", tmp_path / "f")
        patterns = [
            r"openat\(\d+<.*>, \"\.f\..*\.resource-api~\", .*O_CREAT\|O_EXCL\|O_NOFOLLOW.*, 0600\)",
            r"write\(\d+<.*>, \"new\", 3\)",
            *([r"fchown\(\d+<.*>, 1, 1\)"] if owner else []),
            r"fchmod\(\d+<.*>, 0640\)",
            r"fsync\(\d+<.*\.resource-api~>\)",
            r"rename(at2?)?\(\d+<.*>, \"\.f\..*\", \d+<.*>, \"f\"",
            r"fsync\(\d+<" + re.escape(str(tmp_path)) + r">\)",
        ]
        result = [next((n for n, call in enumerate(calls) if re.match(pattern, call)), -1) for pattern in patterns]
        assert -1 not in result, list(zip(patterns, result, strict=True))
        assert result == sorted(result)

    @pytest.mark.process
    def test_a_thousand_files_wait_for_the_disk_a_few_times(self, tmp_path: Path) -> None:
        """A batch flushes the filesystem and each directory once, before and after all renames."""
        program = "with files.Batch() as b:\n for n in range(1000): b.replace(f'{sys.argv[1]}/f{n}', b'x')"
        calls = trace(tmp_path, program, tmp_path)
        flushes = [n for n, call in enumerate(calls) if call.startswith(("fsync", "syncfs"))]
        renames = [n for n, call in enumerate(calls) if call.startswith("rename")]
        writes = [n for n, call in enumerate(calls) if call.startswith("write") and '"x"' in call]
        assert len(renames) == 1000
        assert len(flushes) <= 12
        assert any(max(writes) < flush < min(renames) for flush in flushes)
        assert max(flushes) > max(renames)

    @pytest.mark.process
    @pytest.mark.parametrize("call", ["write", "fchown", "fchmod", "fsync", "close", "renameat"])
    def test_a_step_that_fails_leaves_the_old_file_and_nothing_else(self, tmp_path: Path, call: str) -> None:
        """The error is raised, the old file stays, the temporary one is removed, and no step is repeated."""
        path = tmp_path / "f"
        path.write_text("old")
        program = (
            "try: files.replace(sys.argv[1], b'new', mode=0o640, gid=12)\n"
            "except OSError as error: assert error.errno == 5\n"
            "else: assert sys.argv[2:] == ['clean']"
        )
        clean = [line for line in trace(tmp_path, program, path, "clean") if line.startswith(f"{call}(")]
        ours = [number for number, line in enumerate(clean, 1) if files.TEMPORARY_SUFFIX in line]
        assert ours
        path.write_text("old")
        calls = trace(tmp_path, program, path, inject=f"{call}:error=EIO:when={ours[0]}")
        tried = [line for line in calls if line.startswith(f"{call}(") and files.TEMPORARY_SUFFIX in line]
        assert len(tried) == 1
        assert path.read_text(encoding="utf-8") == "old"
        assert left(tmp_path) == []

    @pytest.mark.process
    def test_a_failed_flush_of_many_files_shows_none_of_them(self, tmp_path: Path) -> None:
        """No file of the batch appears, and no temporary file stays."""
        program = (
            "try:\n with files.Batch() as b:\n  for n in range(20): b.replace(f'{sys.argv[1]}/f{n}', b'x')\n"
            "except OSError as error: assert error.errno == 5\nelse: sys.exit(9)"
        )
        calls = trace(tmp_path, program, tmp_path, inject="syncfs:error=EIO")
        assert any(call.startswith("syncfs(") for call in calls)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.process
    def test_a_short_write_is_completed(self, tmp_path: Path) -> None:
        """When the system writes one byte, the rest is written next."""
        calls = trace(tmp_path, "files.replace(sys.argv[1], b'new')", tmp_path / "f", inject="write:retval=1:when=1")
        assert [c for c in calls if c.startswith("write(") and '"ew", 2)' in c]

    def test_an_exception_in_a_batch_discards_waiting_files(self, tmp_path: Path) -> None:
        """Neither a file of the batch nor a temporary one stays."""

        def spoil() -> None:
            with files.Batch() as batch:
                batch.replace(f"{tmp_path}/f", b"new")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            spoil()
        assert list(tmp_path.iterdir()) == []

    def test_an_exception_in_the_content_leaves_nothing(self, tmp_path: Path) -> None:
        """The exception is raised, and the temporary file is removed."""

        def parts() -> Iterator[bytes]:
            yield b"x"
            raise ValueError("broken off")

        with files.Batch() as batch:
            with pytest.raises(ValueError, match="broken off"):
                batch.replace(f"{tmp_path}/f", parts())
            assert list(tmp_path.iterdir()) == []

    @pytest.mark.process
    def test_a_full_disk_leaves_the_old_file(self, tmp_path: Path) -> None:
        """ENOSPC on a real small filesystem is raised; afterwards a smaller file can be written."""
        program = (
            "import errno, subprocess\nd = sys.argv[1]\n"
            "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'none', d], check=True)\n"
            "files.replace(d + '/f', b'old')\n"
            "try: files.replace(d + '/f', b'x' * 100000)\n"
            "except OSError as e: assert e.errno == errno.ENOSPC\nelse: sys.exit(9)\n"
            "assert os.listdir(d) == ['f'] and reading.read(d + '/f', 9) == b'old'\n"
            "files.replace(d + '/f', b'new'); assert reading.read(d + '/f', 9) == b'new'"
        )
        unshared(program, tmp_path)


def unshared(program: str, *arguments: object) -> None:
    """Run a program in a mount namespace of its own."""
    head = "import os, sys; from resource_api.system.filesystem import files, reading\n"
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    subprocess.run(
        ["unshare", "--mount", *user, sys.executable, "-c", head + program, *map(str, arguments)],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        check=True,
    )


class TestLeftovers:
    """Temporary files of a crash are ignored by daemons, and removed by the next change."""

    def test_temporary_names_are_hidden_and_ignored_by_daemons(self, tmp_path: Path) -> None:
        """They begin with a dot, end in the suffix, and fit for a name of any length."""
        with files.Batch() as batch:
            batch.replace(f"{tmp_path}/{'ä' * 127}", b"")
            (name,) = names(tmp_path)
        assert name.startswith(".")
        assert name.endswith("~")

    @pytest.mark.process
    def test_a_killed_batch_is_cleaned_up_by_the_next(self, tmp_path: Path) -> None:
        """A kill at the rename leaves a temporary file, which the next change in the directory removes."""
        watch = ["-o", "/dev/null", "-e", "inject=renameat,rename,renameat2:signal=KILL"]
        result = run("files.replace(sys.argv[1], b'x')", tmp_path / "f.conf", strace=watch)
        assert result.returncode == -signal.SIGKILL
        assert len(left(tmp_path)) == 1
        assert list(tmp_path.glob("*.conf")) == []
        files.replace(f"{tmp_path}/g", b"")
        assert names(tmp_path) == ["g"]

    def test_files_of_others_stay(self, tmp_path: Path) -> None:
        """A file of another user who can add one, of a running process, or with another pattern is not removed."""
        tmp_path.chmod(0o777)
        dead = ended_process()
        stored = [f".f.{os.getppid()}.abc1{files.TEMPORARY_SUFFIX}", f"f{files.TEMPORARY_SUFFIX}"]
        for name in (
            *stored,
            f".f.{dead}.abc1{files.TEMPORARY_SUFFIX}",
            f".g.{dead}.abc2{files.TEMPORARY_SUFFIX}",
        ):
            (tmp_path / name).touch()
        if os.geteuid() == 0:
            os.chown(tmp_path / f".g.{dead}.abc2{files.TEMPORARY_SUFFIX}", NOBODY, NOBODY)
            stored.append(f".g.{dead}.abc2{files.TEMPORARY_SUFFIX}")
        files.replace(f"{tmp_path}/f", b"")
        assert names(tmp_path) == sorted([*stored, "f"])

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can change an owner")
    def test_a_file_that_had_got_its_owner_is_removed(self, tmp_path: Path) -> None:
        """Where no other user can add one, every file of a dead process is a leftover."""
        dead = ended_process()
        path = tmp_path / f".f.{dead}.abc1{files.TEMPORARY_SUFFIX}"
        path.touch()
        os.chown(path, NOBODY, NOBODY)
        files.replace(f"{tmp_path}/f", b"")
        assert names(tmp_path) == ["f"]

    def test_a_directory_made_aside_is_removed_if_the_new_one_exists(self, tmp_path: Path) -> None:
        """A crash after the move leaves an empty one."""
        tmp_path.chmod(0o777)
        dead = ended_process()
        (tmp_path / f".d.{dead}.abc1{files.TEMPORARY_SUFFIX}").mkdir()
        (tmp_path / "d").mkdir()
        with pytest.raises(FileExistsError), files.Batch() as batch:
            batch.make_directory(f"{tmp_path}/d")
        assert names(tmp_path) == ["d"]


class TestRights:
    """No user gains access on the way, and unmanaged permissions are kept."""

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_new_modes_do_not_depend_on_the_umask(self, tmp_path: Path, umask: int) -> None:
        """A new file is 0644, a new directory 0755, or as declared."""
        old = os.umask(umask)
        try:
            with files.Batch() as batch:
                batch.replace(f"{tmp_path}/f", b"")
                batch.replace(f"{tmp_path}/g", b"", mode=0o666)
                batch.make_directory(f"{tmp_path}/d")
                batch.make_directory(f"{tmp_path}/e", mode=0o1777)
        finally:
            os.umask(old)
        assert [mode(tmp_path / name) for name in "fgde"] == [0o644, 0o666, 0o755, 0o1777]

    @root_only
    def test_mode_and_owner_are_kept_where_they_are_not_given(self, tmp_path: Path) -> None:
        """New content keeps them, but not set-id bits, which were granted to the old content."""
        path = tmp_path / "f"
        path.write_text("old")
        os.chown(path, 1, 2)
        path.chmod(0o4751)
        files.replace(str(path), b"new")
        status = path.stat()
        assert (status.st_uid, status.st_gid, mode(path)) == (1, 2, 0o751)
        files.replace(str(path), b"new", mode=0o4755, gid=3)
        status = path.stat()
        assert (status.st_uid, status.st_gid, mode(path)) == (1, 3, 0o4755)

    @pytest.mark.process
    @root_only
    def test_attributes_and_acls_are_kept_and_capabilities_are_not(self, tmp_path: Path) -> None:
        """An ACL is kept with the new mode in it; extended attributes too, except those that certify the content."""
        path = tmp_path / "f"
        path.write_text("old")
        acl = rights_for_nobody()
        os.setxattr(path, "system.posix_acl_access", acl)
        for name, value in {"user.note": b"1", "trusted.t": b"2", "security.selinux": b"label"}.items():
            os.setxattr(path, name, value)
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        before = {name: os.getxattr(path, name) for name in os.listxattr(path) if name != "security.capability"}
        files.replace(str(path), b"new")
        assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == before
        assert run_as_nobody(f"open({str(path)!r})", path.parent).returncode == 0
        files.replace(str(path), b"newer", mode=0o600)
        assert mode(path) == 0o600
        assert run_as_nobody(f"open({str(path)!r})", path.parent).returncode != 0

    @root_only
    def test_a_default_acl_grants_nothing_on_a_replaced_file(self, tmp_path: Path) -> None:
        """A replaced file does not inherit what a new one would."""
        path = tmp_path / "f"
        path.write_text("old")
        os.setxattr(tmp_path, "system.posix_acl_default", rights_for_nobody())
        files.replace(str(path), b"new")
        assert "system.posix_acl_access" not in os.listxattr(path)

    @pytest.mark.process
    @root_only
    def test_nobody_gains_a_right_at_any_instant(self, tmp_path: Path) -> None:
        """Killed at every change of permissions, a file grants nothing beyond its old and its new state."""
        path = tmp_path / "f"
        for call, when in [("fchmod", 1), ("fchmod", 2), ("fchown", 1)]:
            path.unlink(missing_ok=True)
            path.touch()
            os.chown(path, 1, 1)
            path.chmod(0o664)
            watch = ["-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={when}"]
            program = "with files.Batch() as b: b.set_mode_owner(sys.argv[1], mode=0o640, uid=2, gid=2)"
            assert run(program, path, strace=watch).returncode == -signal.SIGKILL
            status = path.stat()
            assert not (status.st_gid == 2 and mode(path) & 0o020)
            assert not mode(path) & ~0o664
            assert (status.st_uid, status.st_gid) in {(1, 1), (2, 2)}

    @pytest.mark.process
    @root_only
    def test_a_secret_is_never_readable_before_it_is_complete(self, tmp_path: Path) -> None:
        """Killed at any step, the temporary file is readable by the caller or its owner only."""
        path = tmp_path / "f"
        path.write_text("old")
        path.chmod(0o644)
        for call in ("write", "fchown", "fchmod"):
            watch = ["-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when=1"]
            result = run("files.replace(sys.argv[1], b'secret', mode=0o600, uid=1)", path, strace=watch)
            assert result.returncode == -signal.SIGKILL
            (name,) = left(tmp_path)
            assert mode(tmp_path / name) == 0o600
            (tmp_path / name).unlink()

    @pytest.mark.process
    @root_only
    def test_an_acl_never_grants_more_than_the_new_mode(self, tmp_path: Path) -> None:
        """Killed before the mode is set, the copied ACL already grants no more than that mode."""
        path = tmp_path / "f"
        path.write_text("old")
        os.setxattr(path, "system.posix_acl_access", rights_for_nobody())
        watch = ["-o", "/dev/null", "-e", "inject=fchmod:signal=KILL:when=1"]
        assert run("files.replace(sys.argv[1], b'x', mode=0o600)", path, strace=watch).returncode == -signal.SIGKILL
        (name,) = left(tmp_path)
        assert "system.posix_acl_access" in os.listxattr(tmp_path / name)
        assert mode(tmp_path / name) == 0o600

    def test_permissions_of_a_swapped_file_are_not_changed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The opened file is the one that was checked, or nothing changes."""
        path, real = tmp_path / "f", os.open
        path.write_text("ours")
        (tmp_path / "other").write_text("theirs")

        def swapping(name: str, *arguments: Any, **options: Any) -> int:
            if name == "f":
                (tmp_path / "other").rename(path)
            return real(name, *arguments, **options)

        batch = files.Batch()
        monkeypatch.setattr(os, "open", swapping)
        with pytest.raises(OSError, match="replaced meanwhile"):
            batch.set_mode_owner(str(path), mode=0o600)
        assert mode(path) == 0o644

    def test_a_mode_alone_changes_neither_content_nor_inode(self, tmp_path: Path) -> None:
        """Permissions are changed on the existing file."""
        path = tmp_path / "f"
        path.write_text("x")
        before = path.stat()
        with files.Batch() as batch:
            batch.set_mode_owner(str(path), mode=0o600)
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns, mode(path)) == (before.st_ino, before.st_mtime_ns, 0o600)

    def test_a_new_directory_inherits_set_group_id(self, tmp_path: Path) -> None:
        """An inherited bit is kept unless a mode is given."""
        tmp_path.chmod(0o2755)
        with files.Batch() as batch:
            batch.make_directory(f"{tmp_path}/d")
            batch.make_directory(f"{tmp_path}/e", mode=0o700)
        assert mode(tmp_path / "d") == 0o2755
        assert mode(tmp_path / "e") == 0o700


@root_only
class TestPlantedRights:
    """Rights that another user has put on a file or directory do not outlive a change of its owner."""

    @pytest.fixture
    def planted(self, tmp_path: Path) -> Path:
        """Return a file of nobody, who has given it an ACL and an attribute; a file capability is on it, too."""
        path = tmp_path / "f"
        path.write_text("old")
        os.setxattr(path, "system.posix_acl_access", rights_for_nobody())
        os.setxattr(path, "user.note", b"1")
        os.chown(path, NOBODY, 0)
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        return path

    @pytest.mark.process
    @pytest.mark.parametrize("expected", [{"uid": 0, "mode": 0o640}, {"uid": 0}], ids=["owner and mode", "owner"])
    @pytest.mark.parametrize("written", [True, False], ids=["new content", "old content"])
    def test_they_end_with_a_new_owner(self, planted: Path, written: bool, expected: dict[str, int]) -> None:  # noqa: FBT001 - a table
        """With new content and without; the group gets no more than the ACL has granted it."""
        with files.Batch() as batch:
            if written:
                batch.replace(str(planted), b"secret", **expected)
            else:
                batch.set_mode_owner(str(planted), **expected)
        assert os.listxattr(planted) == []
        assert mode(planted) == expected.get("mode", 0o600)
        assert run_as_nobody(f"open({str(planted)!r})", planted.parent).returncode != 0

    @pytest.mark.parametrize("written", [True, False], ids=["new content", "old content"])
    def test_declared_mode_and_owner_are_all_rights(self, planted: Path, written: bool) -> None:  # noqa: FBT001 - a table
        """Also where the owner stays; with one of them alone the owner's ACL and attributes stay."""
        change = files.Batch.replace if written else files.Batch.set_mode_owner
        content = [b"new"] if written else []
        for expected, stored in (
            ({"mode": 0o640}, True),
            ({"uid": NOBODY}, True),
            ({"uid": NOBODY, "mode": 0o640}, False),
        ):
            with files.Batch() as batch:
                change(batch, str(planted), *content, **expected)
            assert ("system.posix_acl_access" in os.listxattr(planted)) is stored
            assert ("user.note" in os.listxattr(planted)) is stored
        assert "security.capability" not in os.listxattr(planted)

    @pytest.mark.parametrize("written", [True, False], ids=["new content", "old content"])
    @pytest.mark.parametrize("declared", [{"mode": 0o640}, {"gid": 0}], ids=["group undeclared", "mode undeclared"])
    def test_a_new_owner_does_not_keep_the_former_group_and_mode(
        self,
        tmp_path: Path,
        declared: dict[str, int],
        written: bool,  # noqa: FBT001 - a table
    ) -> None:
        """A user who has made the file before has also chosen its group and who may write to it."""
        path = tmp_path / "f"
        path.write_text("old")
        path.chmod(0o666)
        os.chown(path, NOBODY, NOBODY)
        with files.Batch() as batch:
            if written:
                batch.replace(str(path), b"secret", uid=0, **declared)
            else:
                batch.set_mode_owner(str(path), uid=0, **declared)
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
        assert mode(path) == declared.get("mode", 0o644)

    def test_a_new_file_of_root_does_not_get_the_group_of_another_users_directory(self, tmp_path: Path) -> None:
        """Its owner has set the set-group-ID bit; without a declared owner the system decides."""
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, NOBODY, NOBODY)
        theirs.chmod(0o2755)
        with files.Batch() as batch:
            batch.replace(str(theirs / "f"), b"secret", uid=0, mode=0o640)
            batch.replace(str(theirs / "g"), b"public")
        assert ((theirs / "f").stat().st_gid, (theirs / "g").stat().st_gid) == (0, NOBODY)

    def test_a_directory_passes_none_on(self, tmp_path: Path) -> None:
        """Neither its own ACL nor the default one stays, and what is made in a directory of others inherits none."""
        for name in ("own", "kept", "theirs"):
            (tmp_path / name).mkdir()
            for kind in ("access", "default"):
                os.setxattr(tmp_path / name, f"system.posix_acl_{kind}", rights_for_nobody())
            (tmp_path / name).chmod(0o777)
            os.chown(tmp_path / name, NOBODY, NOBODY)
        with files.Batch() as batch:
            batch.set_mode_owner(f"{tmp_path}/own", mode=0o755, uid=0)
            batch.set_mode_owner(f"{tmp_path}/kept", mode=0o755)
            for text in ("own", "kept", "theirs"):
                batch.make_directory(f"{tmp_path}/{text}/d", mode=0o750)
                batch.replace(f"{tmp_path}/{text}/f", b"secret", mode=0o640)
        assert os.listxattr(tmp_path / "own") == []
        assert len(os.listxattr(tmp_path / "kept")) == 2
        for word in ("own", "kept", "theirs"):
            assert os.listxattr(tmp_path / word / "d") == os.listxattr(tmp_path / word / "f") == []
        os.setxattr(tmp_path / "own", "system.posix_acl_default", rights_for_nobody())
        with files.Batch() as batch:
            batch.make_directory(f"{tmp_path}/own/e", mode=0o750)
            batch.make_directory(f"{tmp_path}/own/g", mode=0o750, uid=0)
            batch.replace(f"{tmp_path}/own/h", b"")
        assert len(os.listxattr(tmp_path / "own/e")) == 2
        assert os.listxattr(tmp_path / "own/g") == []
        assert os.listxattr(tmp_path / "own/h") == ["system.posix_acl_access"]

    def test_attributes_are_copied_from_the_file_that_was_checked(
        self, planted: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file that its neighbour puts in the place of ours meanwhile grants nothing."""
        ours, real = planted.parent / "ours", os.write
        ours.write_text("old")

        def swapping(fd: int, content: bytes) -> int:
            planted.rename(ours)
            return real(fd, content)

        monkeypatch.setattr(os, "write", swapping)
        with pytest.raises(OSError, match="replaced meanwhile"):
            files.replace(str(ours), b"secret")
        assert ours.read_text() == "old"
        assert left(planted.parent) == []


@root_only
class TestAttributes:
    """Extended attributes are changed on the open file, and are durable."""

    @pytest.mark.process
    def test_attributes_are_set_and_removed_and_flushed(self, tmp_path: Path) -> None:
        """Of the file that was opened; nothing is flushed where nothing changes."""
        (tmp_path / "f").touch()
        os.setxattr(tmp_path / "f", "user.old", b"1")
        program = "with files.Batch() as b: b.edit_attributes(sys.argv[1], lambda seen, now: dict.fromkeys(now))"
        log = tmp_path.parent / f"{tmp_path.name}.strace"
        watch = ["-o", str(log), "-e", "trace=removexattr,fsync"]
        for expected in (["removexattr", "fsync"], []):
            assert run(program, tmp_path / "f", strace=watch).returncode == 0
            calls = [line.split(maxsplit=1)[1] for line in log.read_text(encoding="utf-8").splitlines()]
            assert [line.partition("(")[0] for line in calls if "xattr(" in line or "fsync(" in line] == expected
        assert os.listxattr(tmp_path / "f") == []

    def test_a_link_has_no_attributes(self, tmp_path: Path) -> None:
        """It is not followed, whoever has made it."""
        (tmp_path / "f").touch()
        (tmp_path / "link").symlink_to("f")
        with Directories() as directories, pytest.raises(OSError, match="a symbolic link has no such attributes"):
            reading.stat_attributes(directories, str(tmp_path / "link"))


class TestNewDirectories:
    """A new directory has its rights when it appears, and no other directory gets them."""

    @pytest.mark.parametrize("expected", [{"uid": NOBODY, "gid": NOBODY}, {"mode": 0o777}, {}], ids=str)
    def test_a_directory_that_is_swapped_for_another_one_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, int]
    ) -> None:
        """A neighbour moves what we make away, and another directory of ours to its place."""
        theirs, real = tmp_path / "theirs", os.mkdir
        (theirs / "secret").mkdir(parents=True, mode=0o700)
        (theirs / "secret" / "file").touch()
        theirs.chmod(0o777)
        secret = (theirs / "secret").stat()

        def swapping(name: str, *arguments: Any, dir_fd: int | None = None) -> None:
            real(name, *arguments, dir_fd=dir_fd)
            if (theirs / name).exists():
                (theirs / name).rename(theirs / "away")
                (theirs / "secret").rename(theirs / name)

        monkeypatch.setattr(os, "mkdir", swapping)
        with suppress(OSError), files.Batch() as batch:
            batch.make_directory(f"{theirs}/new", **expected)
        (status,) = (path.stat() for path in theirs.iterdir() if path.stat().st_ino == secret.st_ino)
        assert (status.st_mode, status.st_uid, status.st_gid) == (secret.st_mode, secret.st_uid, secret.st_gid)

    @pytest.mark.process
    def test_it_appears_with_its_rights_and_nothing_is_left(self, tmp_path: Path) -> None:
        """Where others can write it is made aside; killed at any step, the next change removes what was left."""
        tmp_path.chmod(0o1777)
        program = "with files.Batch() as b: b.make_directory(sys.argv[1] + '/d', mode=0o750, uid=1, gid=1)"
        for call in ("mkdirat,mkdir", "fchown", "fchmod", "renameat2", "rmdir,unlinkat"):
            for when in (1, 2) if "mkdir" in call else (1,):
                watch = ["-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={when}"]
                run(program, tmp_path, strace=watch)
                if (tmp_path / "d").exists():
                    status = (tmp_path / "d").stat()
                    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o750, 1, 1)
                    (tmp_path / "d").rmdir()
        assert run(program, tmp_path).returncode == 0
        assert names(tmp_path) == ["d"]
        assert "FileExistsError" in run(program, tmp_path).stderr
        assert names(tmp_path) == ["d"]

    def test_a_directory_that_appears_meanwhile_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not replaced, not even an empty one."""
        tmp_path.chmod(0o777)
        real = os.fchmod

        def making(fd: int, bits: int) -> None:
            real(fd, bits)
            (tmp_path / "d").mkdir(exist_ok=True)

        monkeypatch.setattr(os, "fchmod", making)
        with pytest.raises(FileExistsError), files.Batch() as batch:
            batch.make_directory(f"{tmp_path}/d", mode=0o750, uid=1)
        assert (tmp_path / "d").stat().st_uid == 0
        assert names(tmp_path) == ["d"]


def rights_for_nobody() -> bytes:
    """Return an ACL that lets the owner and nobody read and write, and no other user."""
    entries = [(1, 6, 2**32 - 1), (2, 6, NOBODY), (4, 0, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1)]
    return b"\2\0\0\0" + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def run_as_nobody(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as nobody, who may search all directories above it."""
    for parent in (directory, *directory.parents):
        if parent.stat().st_uid == os.geteuid() and not mode(parent) & 0o001:
            parent.chmod(mode(parent) | 0o011)
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


class TestLinks:
    """A user who can write to a directory on a path cannot redirect an operation."""

    @pytest.fixture
    def theirs(self, tmp_path: Path) -> Path:
        """Return a directory that other users can write to."""
        path = tmp_path / "theirs"
        path.mkdir()
        path.chmod(0o777)
        return path

    def test_a_trusted_link_on_the_path_is_followed(self, tmp_path: Path) -> None:
        """Relative, absolute, through dots and other links: as the kernel does."""
        (tmp_path / "a/b").mkdir(parents=True)
        (tmp_path / "up").symlink_to("a/b/../b")
        (tmp_path / "abs").symlink_to(tmp_path / "up")
        (tmp_path / "a/b/back").symlink_to("../..")
        files.replace(f"{tmp_path}/abs/back/up/f", b"x")
        assert (tmp_path / "a/b/f").read_bytes() == b"x"

    def test_a_link_of_other_users_on_the_path_is_not_followed(self, tmp_path: Path, theirs: Path) -> None:
        """Reading, writing, changing, removing and copying below it fail, and nothing changes."""
        (tmp_path / "ours").mkdir()
        (tmp_path / "ours/f").write_text("ours")
        (theirs / "d").symlink_to(tmp_path / "ours")
        path = f"{theirs}/d/f"
        batch = files.Batch()
        for attempt in (
            lambda: reading.read(path, LIMIT),
            lambda: files.replace(path, b"x"),
            lambda: reading.open_source(path),
            lambda: batch.set_mode_owner(path, mode=0o777),
            lambda: batch.remove(path),
            lambda: batch.make_directory(path + "d"),
            lambda: batch.make_link(path + "l", "x"),
        ):
            with pytest.raises(OSError, match="symbolic link on the path") as caught:
                attempt()
            assert caught.value.errno == errno.ELOOP
        assert names(tmp_path / "ours") == ["f"]
        assert (tmp_path / "ours/f").read_text(encoding="utf-8") == "ours"

    def test_a_loop_of_links_is_an_error(self, tmp_path: Path) -> None:
        """It does not wait, and accuses nobody."""
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        for attempt in (lambda: reading.read(f"{tmp_path}/a/f", 1), lambda: reading.open_source(f"{tmp_path}/a")):
            with pytest.raises(OSError, match="Too many levels of symbolic links") as caught:
                attempt()
            assert caught.value.errno == errno.ELOOP

    def test_a_link_that_another_user_has_made_is_not_followed(self, tmp_path: Path) -> None:
        """Also in a directory that is root's by now: it may have been that user's when the link was made."""
        for name in ("ours", "taken"):
            (tmp_path / name).mkdir()
        (tmp_path / "taken" / "link").symlink_to(tmp_path / "ours")
        os.lchown(tmp_path / "taken" / "link", NOBODY, NOBODY)
        with pytest.raises(OSError, match="not followed"), files.Batch() as batch:
            batch.replace(str(tmp_path / "taken" / "link" / "f"), b"x")
        assert list((tmp_path / "ours").iterdir()) == []

    def test_a_link_at_the_end_is_replaced_itself(self, tmp_path: Path) -> None:
        """Its target is neither written nor changed."""
        (tmp_path / "target").write_text("old")
        (tmp_path / "f").symlink_to("target")
        files.replace(f"{tmp_path}/f", b"new")
        assert (tmp_path / "target").read_text(encoding="utf-8") == "old"
        assert not (tmp_path / "f").is_symlink()

    @root_only
    @pytest.mark.parametrize("call", ["symlink", "lstat"], ids=["a new link", "a present link"])
    def test_only_a_link_gets_the_owner_of_a_link(
        self, theirs: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        """A neighbour who puts a file of ours into the place of the link does not get it."""
        (theirs / "secret").touch(mode=0o600)
        if call == "lstat":
            (theirs / "l").symlink_to("target")
        real = getattr(os, call)

        def swapping(*arguments: Any, **options: Any) -> Any:
            answer = real(*arguments, **options)
            if (theirs / "secret").exists():
                (theirs / "secret").rename(theirs / arguments[-1])
            return answer

        monkeypatch.setattr(os, call, swapping)
        change = files.Batch.set_mode_owner if call == "lstat" else files.Batch.make_link
        target = ["target"] if call == "symlink" else []
        with pytest.raises(OSError, match="replaced meanwhile"), files.Batch() as batch:
            change(batch, f"{theirs}/l", *target, uid=NOBODY)
        assert {path.lstat().st_uid for path in theirs.iterdir()} <= {0}

    @pytest.mark.process
    @root_only
    @pytest.mark.parametrize("protected", ["0", "1"])
    def test_a_swapped_directory_does_not_redirect_a_write(self, tmp_path: Path, protected: str) -> None:
        """An attacker who swaps the directory for a link during a write gets no file at its target."""
        sysctl = Path("/proc/sys/fs/protected_symlinks")
        before = sysctl.read_text(encoding="ascii")
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        ours.mkdir(mode=0o700)
        (ours / "shadow").write_text("root only")
        (theirs / "d").mkdir(parents=True)
        os.chown(theirs, NOBODY, NOBODY)
        os.chown(theirs / "d", NOBODY, NOBODY)
        watch = ["-o", "/dev/null", "-e", "trace=fchmod", "-e", "inject=fchmod:delay_enter=700000"]
        try:
            sysctl.write_text(protected, encoding="ascii")
            swap = f"import os, time; os.chdir({str(theirs)!r}); time.sleep(.05)\n"
            swap += "while not any('resource' in n for n in os.listdir('d')): time.sleep(.01)\n"
            swap += f"os.rename('d', 'e'); os.symlink({str(ours)!r}, 'd')"
            argv = [
                sys.executable,
                "-c",
                f"import {files.__name__} as files\nfiles.replace({str(theirs / 'd/shadow')!r}, b'x', mode=0o666)",
            ]
            victim = subprocess.Popen(
                ["strace", *watch, *argv],
                env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
                stderr=subprocess.PIPE,
            )
            attack = run_as_nobody(swap, theirs)
            victim.communicate()
        finally:
            sysctl.write_text(before, encoding="ascii")
        assert attack.returncode == 0, attack.stderr
        assert (theirs / "d").is_symlink()
        assert (ours / "shadow").read_text(encoding="utf-8") == "root only"
        assert names(ours) == ["shadow"]

    def test_a_hard_link_keeps_the_old_content(self, tmp_path: Path) -> None:
        """Replacing a file separates it from its hard links."""
        (tmp_path / "f").write_text("old")
        (tmp_path / "other").hardlink_to(tmp_path / "f")
        files.replace(f"{tmp_path}/f", b"new")
        assert (tmp_path / "other").read_text(encoding="utf-8") == "old"

    def test_permissions_of_a_hard_link_of_other_users_stay(self, theirs: Path, tmp_path: Path) -> None:
        """It may be a file of another user."""
        (tmp_path / "f").write_text("x")
        (theirs / "f").hardlink_to(tmp_path / "f")
        batch = files.Batch()
        with pytest.raises(PermissionError, match="hard links"):
            batch.set_mode_owner(f"{theirs}/f", mode=0o666)
        batch.set_mode_owner(f"{tmp_path}/f", mode=0o600)
        assert mode(tmp_path / "f") == 0o600

    def test_more_directories_than_can_be_open_are_reached(self, tmp_path: Path) -> None:
        """The number of open directories is bounded, and all are closed at the end."""
        before = len(names(Path("/proc/self/fd")))
        with files.Batch() as batch:
            for number in range(2 * MAX_OPEN):
                batch.make_directory(f"{tmp_path}/{number}")
                batch.replace(f"{tmp_path}/{number}/f", b"x")
            assert len(names(Path("/proc/self/fd"))) < before + MAX_OPEN + 40
        assert len(list(tmp_path.glob("*/f"))) == 2 * MAX_OPEN
        assert len(names(Path("/proc/self/fd"))) == before


class TestSpecial:
    """Only regular files are opened or replaced."""

    def test_a_fifo_does_not_block_and_stays(self, tmp_path: Path) -> None:
        """Reading returns no content; replacing it and changing its permissions are errors."""
        os.mkfifo(tmp_path / "fifo")
        started = time.monotonic()
        with Directories() as directories:
            observed, content = reading.stat_and_read(directories, f"{tmp_path}/fifo", LIMIT)
        assert stat.S_ISFIFO(observed.st_mode)
        assert content is None
        batch = files.Batch()
        for attempt in (
            lambda: reading.read(f"{tmp_path}/fifo", LIMIT),
            lambda: reading.open_source(f"{tmp_path}/fifo"),
            lambda: files.replace(f"{tmp_path}/fifo", b""),
            lambda: batch.make_link(f"{tmp_path}/fifo", "x"),
            lambda: batch.set_mode_owner(f"{tmp_path}/fifo", mode=0o600),
        ):
            with pytest.raises(OSError, match="file"):
                attempt()
        assert time.monotonic() - started < 1
        assert (tmp_path / "fifo").is_fifo()

    def test_a_directory_is_not_replaced(self, tmp_path: Path) -> None:
        """Neither a file nor a link replaces it."""
        (tmp_path / "d").mkdir()
        for attempt in (
            lambda: files.replace(f"{tmp_path}/d", b""),
            lambda: files.Batch().make_link(f"{tmp_path}/d", "x"),
        ):
            with pytest.raises(IsADirectoryError):
                attempt()

    def test_a_file_of_proc_is_read_although_it_has_no_size(self) -> None:
        """The size in its status is not trusted."""
        assert reading.read("/proc/self/status", LIMIT).startswith(b"Name:")

    def test_a_file_above_the_limit_is_not_read(self, tmp_path: Path) -> None:
        """The limit holds for the size in the status, and for a growing file."""
        (tmp_path / "f").write_bytes(b"12345")
        assert reading.read(f"{tmp_path}/f", 5) == b"12345"
        with pytest.raises(OSError, match="larger than 4 bytes") as caught:
            reading.read(f"{tmp_path}/f", 4)
        assert caught.value.errno == errno.EFBIG
        with pytest.raises(OSError, match="larger than 4 bytes"):
            reading.read("/proc/self/status", 4)

    @pytest.mark.parametrize(("limit", "size"), [(1000, "1000 bytes"), (64 << 10, "64 KiB"), (16 << 20, "16 MiB")])
    def test_a_file_above_the_limit_is_named_with_it(self, tmp_path: Path, limit: int, size: str) -> None:
        """In the unit in which people count it; anything but a regular file is another error."""
        (tmp_path / "f").touch()
        os.truncate(tmp_path / "f", limit + 1)
        with pytest.raises(OSError, match=f"larger than {size}: '{tmp_path}/f'"):
            reading.read(f"{tmp_path}/f", limit)
        with pytest.raises(OSError, match=f"not a regular file: '{tmp_path}'") as caught:
            reading.read(f"{tmp_path}", limit)
        assert caught.value.errno == errno.EINVAL

    @pytest.mark.process
    @root_only
    def test_a_file_that_cannot_be_replaced_fails_alone(self, tmp_path: Path) -> None:
        """``flush`` returns a file that is mounted for reading; the others appear, and nothing is left."""
        program = (
            "import errno, subprocess\nd = sys.argv[1]\n"
            "for n in 'ab': files.replace(f'{d}/{n}', b'old')\n"
            "subprocess.run(['mount', '--bind', d + '/b', d + '/a'], check=True)\n"
            "subprocess.run(['mount', '-o', 'remount,bind,ro', d + '/a'], check=True)\n"
            "batch = files.Batch()\n"
            "for n in 'ac': batch.replace(f'{d}/{n}', b'new')\n"
            "((path, error),) = batch.flush()\n"
            "assert path == d + '/a' and error.errno == errno.EROFS, (path, error)\n"
            "assert sorted(os.listdir(d)) == ['a', 'b', 'c'], os.listdir(d)"
        )
        unshared(program, tmp_path)


class TestRemoval:
    """Removals are complete or refused."""

    @pytest.mark.parametrize("path", ["/", "/etc", "/usr/bin", "/home", "/var/lib", "/proc", "/root", "/bin"])
    def test_system_directories_are_never_removed(self, path: str) -> None:
        """No other path to one and no ``recursive`` changes that."""
        assert path in trees.PROTECTED_DIRECTORIES
        with pytest.raises(PermissionError, match="never removed"):
            trees.check_removable(path)

    @pytest.mark.process
    @root_only
    def test_a_link_to_a_system_directory_does_not_help(self, tmp_path: Path) -> None:
        """A link of the caller to the root makes no other name for ``/etc``; run where it could do no harm."""
        program = (
            "import subprocess\nd = sys.argv[1]\n"
            "subprocess.run(['mount', '-t', 'tmpfs', 'none', '/mnt'], check=True)\n"
            "os.symlink('/', d + '/root')\n"
            "try: files.Batch().remove(d + '/root/mnt', recursive=True)\n"
            "except PermissionError: pass\nelse: sys.exit(9)"
        )
        unshared(program, tmp_path)

    def test_a_directory_that_is_not_empty_is_removed_only_recursively(self, tmp_path: Path) -> None:
        """Without ``recursive`` it stays."""
        (tmp_path / "d/e").mkdir(parents=True)
        (tmp_path / "d/e/f").touch()
        with files.Batch() as batch:
            with pytest.raises(OSError, match="not empty") as caught:
                batch.remove(f"{tmp_path}/d")
            assert caught.value.errno == errno.ENOTEMPTY
            batch.remove(f"{tmp_path}/d", recursive=True)
        assert list(tmp_path.iterdir()) == []

    def test_links_in_a_tree_are_removed_and_not_followed(self, tmp_path: Path) -> None:
        """Their targets stay."""
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/f").touch()
        (tmp_path / "d").mkdir()
        (tmp_path / "d/link").symlink_to(tmp_path / "kept")
        files.Batch().remove(f"{tmp_path}/d", recursive=True)
        assert (tmp_path / "kept/f").exists()

    def test_a_tree_may_vanish_while_it_is_removed(self, tmp_path: Path) -> None:
        """Another process removes the same files, as a service that ends does."""
        for number in range(5):
            top = tmp_path / f"{number}"
            for inner in ("", "inner"):
                (top / inner).mkdir()
                for name in range(500):
                    (top / inner / f"{name}").touch()
            if not (other := os.fork()):
                for name in range(500, 0, -1):
                    (top / f"{name - 1}").unlink(missing_ok=True)
                os._exit(0)
            with Directories() as directories:
                trees.remove(*directories.place(str(top)))
            os.waitpid(other, 0)
            assert not top.exists()

    def test_a_tree_deeper_than_any_path_is_removed(self, tmp_path: Path) -> None:
        """Three thousand nested directories need neither stack, path nor descriptors."""
        fd = os.open(tmp_path, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("deep-directory", dir_fd=fd)
            below = os.open("deep-directory", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(fd)
        files.Batch().remove(f"{tmp_path}/deep-directory", recursive=True)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.process
    @root_only
    def test_nothing_is_removed_above_a_mount_point(self, tmp_path: Path) -> None:
        """The refusal comes before the first removal."""
        program = (
            "import subprocess\nd = sys.argv[1] + '/a b'\nos.makedirs(d + '/m/n')\nopen(d + '/f', 'w').close()\n"
            "subprocess.run(['mount', '-t', 'tmpfs', 'none', d + '/m/n'], check=True)\n"
            "try: files.Batch().remove(d, recursive=True)\n"
            "except OSError as e: assert e.errno == 16, e\nelse: sys.exit(9)\n"
            "assert os.path.exists(d + '/f')"
        )
        unshared(program, tmp_path)


def test_checksums_are_those_of_hashlib() -> None:
    """For small and for large ones."""
    for content in (b"", b"abc", b"x" * (1 << 19)):
        assert sha256(content) == hashlib.sha256(content).hexdigest()


def test_errors_of_directories_have_the_whole_path(tmp_path: Path) -> None:
    """Not only its last part, by which the system was asked: that names nothing to a reader."""
    long = f"{tmp_path}/{'a' * 300}"
    with Directories() as directories:
        for reach, path in ((directories.make, "/proc/none"), (directories.make, long), (directories.follow, long)):
            with pytest.raises(OSError, match=r"none|aaa") as caught:
                reach(path)
            assert caught.value.filename == path
