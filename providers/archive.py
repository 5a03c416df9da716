"""Unpack archives, and compare the record of their members with the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lib import prerequisites
from lib.named_files import read_each, reported
from lib.sensitive import has_secret, refused_secrets, reveal, secret_attributes, shown_by_mode
from resource_api import Archive, BaseProvider, Problem, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

#: The only name in ``altered`` when unpacking or removing was interrupted: the directory itself.
INTERRUPTED = "."


class Provider(BaseProvider):
    """The archives unpacked on the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Clean paths; write modes with four digits and owners' numbers as text, as in rows of ``get``."""
        for resource in resources:
            if isinstance(resource.get("path"), str):
                resource["path"] = files.canonical_path(resource["path"])
            if resource.get("mode") is not None:
                resource["mode"] = resource["mode"].rjust(4, "0")
            for attribute in ("owner", "group"):
                if (number := files.owner_number(resource.get(attribute))) is not None:
                    resource[attribute] = str(number)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse ``/``, and a directory name that is too long; warn of a secret that all users may read.

        The record of the unpacked files is beside the directory, with a file name that is even longer.
        """
        yield from refused_secrets(should, "source")
        yield from shown_by_mode(should.get("mode"), secret_attributes(should, "source"))
        if not isinstance(path := should["path"], str):  # unknown, which is refused elsewhere
            return
        name = path.rpartition("/")[2]
        if not name:
            yield Problem("path", "an archive is unpacked into a directory of its own, not into /")
        elif len(name.encode("utf-8", "surrogatepass")) > files.LONGEST_DIRECTORY_NAME:
            yield Problem("path", f"the directory's name is longer than {files.LONGEST_DIRECTORY_NAME} bytes")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare owners that are declared by number, and the unpacked files with the record of their archive.

        None leaves any other attribute to the comparison of values. The message omits the checksum of a secret archive.
        """
        if attribute in {"owner", "group"}:
            number = files.owner_number(should[attribute])
            return None if number is None else bool(is_.get("uid" if attribute == "owner" else "gid") == number)
        if attribute != "source":
            return None
        source, secret = reveal(should["source"]), isinstance(should["source"], Sensitive)
        if is_.get("source") != source:
            return False if secret else (False, f"changed from {is_.get('source', 'nothing')} to {source}")
        altered = is_.get("altered", ())
        return (False, f"not as it was unpacked: {', '.join(altered)}") if altered else True

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the archives recorded for the directories in ``names``, with the files that differ from the record."""
        unlisted = "unpacked archives cannot be listed; name their directories"
        yield from (row for _, row in read_each(context, names, unlisted, _read, missing=()))

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites (directory above, owner, group), and mount points that hinder a change."""
        yield from prerequisites.kept_by_mounts(changes)
        changes = prerequisites.present(changes)
        for path, should in changes.items():
            yield from ((path, problem) for problem in prerequisites.missing_place(path, should))
            for mount in sorted(files.mount_points()):
                if mount.startswith(f"{path}/") and os.path.isfile(mount):  # noqa: PTH113 - a text
                    message = f"'{mount}' is a mount point: a file of the archive is written there, which is not atomic"
                    yield path, Problem(None, message, severity="warning")

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Unpack or remove one archive after another; an error fails only its own archive."""
        for path, change in changes.items():
            with reported(context, path):
                self._apply(path, change.should)

    def _apply(self, path: str, should: Mapping[str, Any]) -> None:
        """Unpack or remove an archive; an undeclared owner, group or mode stays as in the record."""
        record = files.UnpackRecord.read(path)
        if should.get("ensure") == "absent":
            if record is not None:
                files.remove_unpacked(path, record)
            return
        recorded = record or files.UnpackRecord()
        archive: Archive = reveal(should["source"])
        owner, group, mode = should.get("owner"), should.get("group"), should.get("mode")
        # The members of a new archive that is secret are for their owner alone.
        default_mode = 0o600 if record is None and has_secret(should["source"]) else recorded.mode
        options = files.UnpackOptions(
            should["max_size"],
            should["max_members"],
            default_mode if mode is None else int(mode, 8),
            recorded.uid if owner is None else files.user_id(owner),
            recorded.gid if group is None else files.group_id(group),
            should.get("force", False),
        )
        files.unpack(path, archive, options, record)


def _read(_directories: files.Directories, path: str) -> Resource | None:
    """Return the row of the archive recorded for a directory, or None without a record.

    Raise ``OSError`` for an unreadable record, ``ResourceError`` for one that is damaged or may be another user's.
    """
    record = files.UnpackRecord.read(path)
    if record is None:
        return None
    # A record has no checksum until its archive is unpacked to the end.
    altered = files.altered_members(path, record) if record.sha256 else [INTERRUPTED]
    row: Resource = {"ensure": "present", "path": path, "altered": altered}
    if record.sha256:
        row["source"] = Archive(record.sha256)
    if record.mode is not None:
        row["mode"] = f"{record.mode:04o}"
    if record.uid is not None:
        row |= {"uid": record.uid, "owner": files.user_name(record.uid)}
    if record.gid is not None:
        row |= {"gid": record.gid, "group": files.group_name(record.gid)}
    return row
