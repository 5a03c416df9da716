"""The laws of other users of the machine: their files never change the results for another user.

The author of a type names the paths of such files; their hostile contents are here.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import os
import pwd
import shutil
import struct
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.testing.examples import OBSTACLES, Neighbour
from resource_api.testing.foundation_laws import FoundationLaws
from resource_api.testing.harness import Harness, failures, without

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Bytes of an oversized file; it has a hole and needs no room on the disk.
OVERSIZED: Final = 4 << 30
#: Characters of a line on which a regular expression with quadratic time would never end.
LONG_LINE: Final = 1_200_000
#: Forms of files that do not keep the type from reading: writable by everybody, with a very long line, a link to a file
#: without end, or a program that shows that it was executed.
OTHER_FORMS: Final = ("records", "access control list", "group-writable", "long line", "endless", "program")
#: Time limit in seconds of the laws with such files.
PATIENCE: Final = 60.0
#: An access control list (acl(5), as the kernel stores it) that lets user 65534 read and write.
ACL: Final = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 65534 if tag == 2 else 2**32 - 1)  # noqa: PLR2004 - ACL_USER, the named user
    for tag, rights in ((1, 6), (2, 6), (4, 4), (16, 6), (32, 4))
)


class NeighbourLaws(FoundationLaws):
    """Files of another user grant nothing, block nothing and hide nothing."""

    def test_neighbours_change_nothing_for_others(self, harness: Harness) -> None:
        """With hostile files of others, creation, update and deletion have the same results as without."""
        usable = _usable(harness)
        undisturbed = _lifecycle(harness)
        for neighbour in usable:
            for form in (*OTHER_FORMS, *OBSTACLES):
                with _planted(neighbour, form):
                    began = time.monotonic()
                    assert _lifecycle(harness) == undisturbed, "what is done for another user has changed"
                    assert time.monotonic() - began < PATIENCE, "what another user has written keeps the type busy"

    def test_neighbours_do_not_disturb_what_exists(self, harness: Harness) -> None:
        """Hostile files that appear later are no reason for a change, and no obstacle to one."""
        for neighbour in _usable(harness):
            for form in ("records", *OBSTACLES):
                harness.converge(harness.examples.present)
                with _planted(neighbour, form):
                    harness.assert_converged(harness.examples.present)
                    if harness.definition.ensurable:
                        harness.converge(harness.absent(harness.examples.present))

    def test_what_cannot_be_read_fails_alone(self, harness: Harness) -> None:
        """A file that cannot be read fails the resources in it, present or absent, and no others."""
        present = harness.examples.present
        for neighbour in _usable(harness):
            for obstacle in neighbour.obstacles if neighbour.resources else ():
                for resource in neighbour.resources:
                    harness.track(present, resource)
                    with _planted(neighbour, obstacle):
                        failed = failures(harness.runtime.apply(harness.manifest(resource, present)))
                    reference = str(harness.entries(resource)[0].reference)
                    cause = f"{obstacle} in {neighbour.path}"
                    assert reference in failed, f"{resource} is taken for done or absent with {cause}, which hides it"
                    assert failed.keys() == {reference}, f"{cause} of one user fails the resources of others: {failed}"
                    harness.assert_converged(present)
                    harness.restore()


def _usable(harness: Harness) -> Sequence[Neighbour]:
    """Return the neighbours to test with; skip the law without any, with the author's reason."""
    harness.require("readable")
    neighbours = harness.examples.neighbours
    if neighbours is None:
        pytest.skip("the fixture 'neighbours' does not say where other users write what the type reads")
    if isinstance(neighbours, str):
        assert neighbours.strip(), "give the reason why the type reads nothing that other users write"
        pytest.skip(neighbours)
    return neighbours


def _lifecycle(harness: Harness) -> list[Any]:
    """Create, update and delete the example; return the rows after each, without ``read_only`` values."""
    volatile = harness.definition.names_of_kind("read_only")
    results: list[Any] = []
    for stage in harness.stages:
        harness.converge(stage)
        rows = harness.existing(harness.names(stage))
        results.append([without(row, volatile) for row in rows.values()])
        results.append(rows.keys() & _listed_names(harness))
    return results


def _listed_names(harness: Harness) -> set[Any]:
    """Return the names in a listing of all resources; a file that cannot be read must not end it."""
    return {harness.definition.name_of(row) for row in harness.listing() or ()}


@contextmanager
def _planted(neighbour: Neighbour, form: str) -> Iterator[None]:
    """Create one form of hostile file; fail if it is changed meanwhile, and remove it afterwards."""
    hostile, victim = Path(neighbour.path), Path(tempfile.mkdtemp(prefix="ra-test-"))
    (victim / "file").write_bytes(neighbour.content)
    assert not os.path.lexists(hostile), f"{hostile} exists already; the law would overwrite it"
    try:
        _plant(neighbour, form, victim)
        before = [_state(path) for path in (hostile, victim, victim / "file")]
        yield
        after = [_state(path) for path in (hostile, victim, victim / "file")]
        assert before == after, "a file of another user, or what it links to, has been changed"
    except BaseException as error:
        error.add_note(f"with {form} in {hostile} of another user")
        raise
    finally:
        if not hostile.is_symlink() and hostile.is_dir():  # the kernel may refuse to follow the link of another user
            shutil.rmtree(hostile)
        else:
            hostile.unlink(missing_ok=True)
        shutil.rmtree(victim)


def _plant(neighbour: Neighbour, form: str, victim: Path) -> None:
    """Write a file as a hostile user would; ``victim`` is a directory of root that only links lead to."""
    path = Path(neighbour.path)
    if form == "link":
        path.symlink_to(victim / "file")
    elif form == "endless":
        path.symlink_to("/dev/zero")
    elif form == "directory link":
        path.symlink_to(victim)
    elif form == "directory":
        path.mkdir()
    elif form == "fifo":
        os.mkfifo(path)
    else:
        _write(path, neighbour.content, form, victim)
    if os.geteuid() == 0:
        owner = pwd.getpwnam(neighbour.user)
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def _write(path: Path, content: bytes, form: str, victim: Path) -> None:
    """Write a regular file of a hostile user."""
    if form == "program":
        content = f"#!/bin/sh\ntouch {victim}/executed\n".encode()
    elif form == "long line":
        content += b"\na" + b" a" * (LONG_LINE // 2) + b"\n"
    path.write_bytes(content)
    if form == "oversized":
        os.truncate(path, OVERSIZED)
    elif form == "access control list":
        with suppress(OSError):  # a file system may have none
            os.setxattr(path, "system.posix_acl_access", ACL)
    elif form in {"group-writable", "program"}:
        path.chmod(0o777)


def _state(path: Path) -> tuple[Any, ...]:
    """Return the metadata that any change of a file changes."""
    status, names = path.lstat(), os.listxattr(path, follow_symlinks=False)
    attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    return (
        *(getattr(status, f"st_{field}") for field in ("ino", "mode", "uid", "gid", "size", "ctime_ns")),
        attributes,
    )
