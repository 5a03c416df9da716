"""File tools for authors of providers: atomic, durable, and safe against other users of the machine.

Every path is absolute, and every failure is an ``OSError`` unless the name's documentation says otherwise. These laws
hold (docs/files.md explains them, the tests in tests/unit/system prove them):

- Atomic: a reader sees the whole old or the whole new content of a file; a failed operation has changed nothing.
  A file that cannot be replaced, such as a mount point, is overwritten: see ``why_not_replaced``.
- Durable: when a ``Batch`` is flushed, or ``replace``, ``edit`` or ``edit_lines`` returns, the change is on disk.
- Safe: a symbolic link is followed only where no other user could have put it (``ELOOP`` otherwise), and at no
  instant has anybody more access than the old or the new permissions grant.

This module only re-exports names of ``resource_api.system.filesystem``; nothing must be defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_names
from resource_api.system.filesystem.directories import Directories, Directory, canonical_path
from resource_api.system.filesystem.edit import Lines, edit, edit_lines, printable, read_content, read_lines
from resource_api.system.filesystem.files import TEMPORARY_SUFFIX, Batch, describe_error, replace
from resource_api.system.filesystem.in_place import locked_path, why_not_replaced
from resource_api.system.filesystem.permissions import (
    directory_mode,
    group_id,
    group_name,
    owner_number,
    user_id,
    user_name,
)
from resource_api.system.filesystem.reading import open_source, parts, read, sha256, stat_and_read, stat_attributes
from resource_api.system.filesystem.trees import PROTECTED_DIRECTORIES, mount_id, mount_points, mounts_beneath, unmount
from resource_api.system.filesystem.unpack import (
    LONGEST_DIRECTORY_NAME,
    UnpackOptions,
    UnpackRecord,
    altered_members,
    remove_unpacked,
    unpack,
)

if TYPE_CHECKING:
    from resource_api.system.filesystem.download import fetch
else:  # most providers download nothing
    __getattr__ = late_names("resource_api.system.filesystem.download", "fetch")

__all__ = [
    "LONGEST_DIRECTORY_NAME",
    "PROTECTED_DIRECTORIES",
    "TEMPORARY_SUFFIX",
    "Batch",
    "Directories",
    "Directory",
    "Lines",
    "UnpackOptions",
    "UnpackRecord",
    "altered_members",
    "canonical_path",
    "describe_error",
    "directory_mode",
    "edit",
    "edit_lines",
    "fetch",
    "group_id",
    "group_name",
    "locked_path",
    "mount_id",
    "mount_points",
    "mounts_beneath",
    "open_source",
    "owner_number",
    "parts",
    "printable",
    "read",
    "read_content",
    "read_lines",
    "remove_unpacked",
    "replace",
    "sha256",
    "stat_and_read",
    "stat_attributes",
    "unmount",
    "unpack",
    "user_id",
    "user_name",
    "why_not_replaced",
]
