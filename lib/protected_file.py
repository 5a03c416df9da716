"""The owner, group and mode of a file that a type writes as a whole: attributes, reading and writing."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

from lib.named_files import read_each, reported
from lib.path_attribute import directories_above
from resource_api import Attribute, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

MODE = r"Pattern[/\A0[0-7]{3}\z/]"
FOUR_DIGITS = "four octal digits such as '0640'"
OWNER = r"Optional[Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]"
#: Longest file in bytes that is read.
LIMIT = 1 << 20


def protection_attributes(mode: str) -> dict[str, Attribute]:
    """Return the attributes ``owner``, ``group`` and ``mode``, with its default, for a type of files."""
    return {
        "mode": Attribute(MODE, "The mode, octal and in quotes.", default=mode, must_be=FOUR_DIGITS),
        "owner": Attribute(
            OWNER, "The owner, by name or number; by default the user of the run.", must_be="a user's name"
        ),
        "group": Attribute(OWNER, "The group, by name or number.", must_be="a group's name"),
    }


def same_owner(attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> bool | None:
    """Return whether an owner or group declared by number is the present one, which ``get`` returns by name.

    None for any other attribute, and for a declared name: the runtime compares these itself.
    """
    if attribute not in {"owner", "group"} or (number := files.owner_number(should[attribute])) is None:
        return None
    find = files.user_id if attribute == "owner" else files.group_id
    return find(is_[attribute]) == number


def files_before(should: Mapping[str, Any], *attributes: str) -> list[str]:
    """Return the files that must exist first: all directories above, the nearest first, and those in ``attributes``."""
    return directories_above(should) + [should[name] for name in attributes if isinstance(should.get(name), str)]


def read_all(
    context: Context, names: Collection[str] | None, kind: str, describe: Callable[[bytes], Resource]
) -> Iterator[Resource]:
    """Yield the files in ``names``, with the attributes that ``describe`` returns of a content.

    A file that cannot be read fails alone. Raise ``CannotList``, with ``kind`` as the subject of its message, if
    ``names`` is None.
    """

    def read(directories: files.Directories, path: str) -> Resource:
        row, content = _read(path, directories)
        return row | describe(content)

    for _, row in read_each(context, names, f"{kind} can be in any file; name it", read):
        yield row


def content(path: str) -> bytes:
    """Return the content of another file to which an attribute refers, such as the key of a certificate.

    Raise ``ResourceError`` with the path of that file, as it is not the title of the resource.
    """
    try:
        return files.read(path, LIMIT)
    except (OSError, ResourceError) as error:
        raise at(path, error) from None


def at(path: str, error: OSError | ResourceError) -> ResourceError:
    """Return an error about a file, with its path."""
    return ResourceError(f"'{path}': {files.describe_error(error, path)}")


def write_all(
    context: Context,
    changes: Mapping[str, Change],
    content: Callable[[str, Mapping[str, Any] | None, Mapping[str, Any]], bytes | None],
) -> None:
    """Write or remove files; a file that cannot be written fails alone.

    ``content(path, is_, should)`` returns the new content for a path, its present and its declared attributes; with
    None the present one stays, and only owner and mode are set.
    """
    with files.Batch() as batch:
        for path, (is_, should) in changes.items():
            with reported(context, path):
                if should.get("ensure") == "absent":
                    batch.remove(path)
                else:
                    _write(batch, path, content(path, is_, should), should)
            # At once: the next file may be made by means of this one, as a certificate by that of its authority.
            for written, failure in batch.flush():
                context.failed(written, message=files.describe_error(failure, written))


def permissions(should: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared ``mode``, ``uid`` and ``gid`` as numbers, as functions of ``files`` take them, or None.

    Raise ``ResourceError`` for unknown owners.
    """
    owner, group, mode = should.get("owner"), should.get("group"), should.get("mode")
    return {
        "mode": None if mode is None else int(mode, 8),
        "uid": None if owner is None else files.user_id(owner),
        "gid": None if group is None else files.group_id(group),
    }


def _read(path: str, directories: files.Directories) -> tuple[Resource, bytes]:
    """Return a file's attributes and content. Raise ``OSError``, and ``ResourceError`` for a special or large file."""
    status, content = files.stat_and_read(directories, path, LIMIT)
    if content is None:
        msg = "is larger than 1 MiB" if stat.S_ISREG(status.st_mode) else "is not a regular file"
        raise ResourceError(msg)
    row: Resource = {"ensure": "present", "path": path, "mode": f"{stat.S_IMODE(status.st_mode):04o}"}
    return row | {"owner": files.user_name(status.st_uid), "group": files.group_name(status.st_gid)}, content


def _write(batch: files.Batch, path: str, content: bytes | None, should: Mapping[str, Any]) -> None:
    """Write a file with the declared owner, group and mode.

    With ``content`` None, for a file whose content is right already, only these three are changed.
    """
    attributes = permissions(should)
    if content is None:
        batch.set_mode_owner(path, **attributes, former_uid=None)
    else:
        batch.replace(path, content, **attributes)
