"""Read and set the capabilities of programs on open files, so that no link and no rename redirects a right."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import file_capabilities, prerequisites
from lib.named_files import NO_FILE, read_each
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from os import stat_result

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The capabilities of the programs of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write capabilities in the order of their numbers; remove needless slashes and dots from paths."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            text = resource.get("capability")
            if text is not None and not any(file_capabilities.problems(text)):
                resource["capability"] = file_capabilities.canonical(text)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse capabilities that the kernel cannot store."""
        if should.get("ensure") != "absent" and should.get("capability") is not None:
            yield from (Problem("capability", text) for text in file_capabilities.problems(should["capability"]))

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], _should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Refuse capabilities that are for some user namespaces only."""
        if attribute == "capability" and is_.get("root"):
            return False, f"is only for namespaces whose root is the user {is_['root']}"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the capabilities of the files in ``names``."""
        unlisted = "any program can have capabilities; name it, or run: getcap -r /usr"
        for path, (status, attributes) in read_each(context, names, unlisted, files.stat_attributes, NO_FILE):
            if (data := attributes.get(file_capabilities.ATTRIBUTE)) and stat.S_ISREG(status.st_mode):
                capabilities = file_capabilities.decode(data)
                row = {"ensure": "present", "path": path, "capability": file_capabilities.as_text(capabilities)}
                yield {**row, "root": capabilities.root} if capabilities.root else row

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield programs that do not exist."""
        for path in changes:
            yield from ((path, problem) for problem in prerequisites.missing_file("path", path))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one program after another."""
        with files.Batch() as batch:
            for path, (_, should) in changes.items():
                try:
                    replaceable = batch.can_others_replace(path)
                    batch.edit_attributes(path, partial(_change, should=should, replaceable=replaceable))
                except (OSError, ResourceError) as error:
                    context.failed(path, message=files.describe_error(error, path))


def _change(
    status: stat_result, attributes: Mapping[str, bytes], *, should: Mapping[str, Any], replaceable: bool
) -> dict[str, bytes | None]:
    """Return the new attribute of a program, or None to remove it. Raise ``ResourceError`` for an unsafe program.

    ``others``: whether other users can replace it.
    """
    if should["ensure"] == "absent":
        return {file_capabilities.ATTRIBUTE: None}
    if not stat.S_ISREG(status.st_mode):
        msg = "is not a regular file"
        raise ResourceError(msg)
    if replaceable:
        msg = "other users can write to a directory on its path, so they could give the capabilities to any program"
        raise ResourceError(msg)
    writable = status.st_mode & 0o022 or "system.posix_acl_access" in attributes
    if writable or status.st_uid not in {0, os.geteuid()} or status.st_nlink > 1:
        msg = (
            "other users may write to it, so they could use the capabilities for anything: it must belong to root, with"
            " no right to write for others, no access control list and no other hard link"
        )
        raise ResourceError(msg)
    return {file_capabilities.ATTRIBUTE: file_capabilities.encode(file_capabilities.parse(should["capability"]))}
