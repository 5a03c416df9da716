"""Compare a file with its fragments put together, and replace it as a whole."""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from lib import file_trees, prerequisites, protected_file, validate_cmd
from lib.backups import Backups
from lib.named_files import reported
from lib.sensitive import READABLE, refused_secrets, reveal, secret_attributes, shown_by_mode
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

#: The most bytes of all fragments together.
LARGEST = 16 << 20
NUMBER = re.compile(r"\d+")
#: The attributes whose texts are in the file.
MADE_OF = ("header", "separator")


class Provider(BaseProvider):
    """The files of this machine that are put together from fragments."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Remove needless slashes and dots from paths, so that equal paths are equal texts."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            source = resource.get("source")
            if isinstance(source, str):
                resource["source"] = files.canonical_path(source)
            elif source is not None:
                resource["source"] = list(map(files.canonical_path, source))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a file that is one of its own fragments, and the filter ``matches`` for a list of fragments."""
        yield from refused_secrets(should, *MADE_OF)
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))
        yield from shown_by_mode(should.get("mode"), secret_attributes(should, *MADE_OF))
        path, source = should.get("path"), should.get("source")
        paths = source if isinstance(source, list) else []
        if path in paths or (isinstance(source, str) and source == str(path).rpartition("/")[0]):
            yield Problem("source", "the file would be one of its own fragments")
        if paths and should.get("matches") is not None:
            yield Problem("matches", "matches is for the fragments of a directory, and they are named here")

    def insync(
        self, _context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the content with the fragments, which are read here, as ``get`` receives only names."""
        if attribute != "source":
            return protected_file.same_owner(attribute, is_, should)
        try:
            content = assembled(should)
        except FileNotFoundError as error:
            return False, f"'{error.filename}' does not exist"
        except (OSError, ResourceError) as error:
            return False, files.describe_error(error, "")
        return files.read_content(name) == content or (False, f"differs from the fragments in {_source_text(should)}")

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the files in ``names``."""
        return protected_file.read_all(context, names, "fragments", lambda content: {"checksum": files.sha256(content)})

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites: the directory, owner and group, the fragments, the program that checks."""
        return prerequisites.of_files(changes, _missing)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Write or remove one file after another; the old file is copied before, if that is declared."""
        for path, (is_, should) in changes.items():
            with Backups() as backups, reported(context, path):
                _change(backups, path, should, backup=should.get("backup") if is_ is not None else None)


def _missing(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the missing prerequisites of a file: directory, owner and group, fragments, the program that checks it."""
    yield from prerequisites.missing_place(path, should)
    for fragment in _listed(should.get("source") or []):
        yield from prerequisites.missing_file("source", fragment)
    yield from prerequisites.missing_checker(should.get("validate_cmd"))


def assembled(should: Mapping[str, Any]) -> bytes:
    """Return the header and the fragments, with separators between them, as one content.

    Raise ``OSError``, and ``ResourceError`` for no or too large fragments.
    """
    texts, size = [], 0
    for path in _fragments(should):
        with files.open_source(path) as file:
            text = file.read(LARGEST + 1) or b""
        if should.get("ensure_newline") and text and not text.endswith(b"\n"):
            text += b"\n"
        texts.append(text)
        size += len(text)
        if size > LARGEST:
            raise ResourceError(f"the fragments in {_source_text(should)} have more than 16 MiB together")
    header, separator = (reveal(should.get(name)) or "" for name in MADE_OF)
    return str(header).encode() + str(separator).encode().join(texts)


def _fragments(should: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fragments, as declared or of a directory. Raise ``ResourceError`` if it has none."""
    source = should["source"]
    if not isinstance(source, str):
        return list(source)
    patterns = _listed(should.get("matches") or "*")
    with files.Directories() as directories, file_trees.opened(directories.reach(source).fd) as fd:
        candidates = [name for name in sorted(os.listdir(fd)) if _is_fragment(name, patterns)]  # noqa: PTH208 - an open directory
        names = [name for name in candidates if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)]
    if not names:
        raise ResourceError(f"there is no fragment in {source}")
    if should.get("order") == "numeric":
        # Names without a number come first.
        names.sort(key=lambda name: int(number[0]) if (number := NUMBER.match(name)) else -1)
    return [f"{source.rstrip('/')}/{name}" for name in names]


def _is_fragment(name: str, patterns: list[str]) -> bool:
    """Return whether a file is a fragment, by its name: neither hidden nor an editor's backup, and of a pattern."""
    return not name.startswith(".") and not name.endswith("~") and any(fnmatch(name, pattern) for pattern in patterns)


def _change(backups: Backups, path: str, should: Mapping[str, Any], *, backup: Any) -> None:
    """Write or remove one file, and copy the present one before if ``backup`` is declared; None makes no copy."""
    with files.Batch() as batch:
        if should["ensure"] == "absent":
            if backup:
                backups.keep(path, backup, at_once=True)
            batch.remove(path)
        elif _write(batch, path, should) and backup:
            # The new content appears only at the end of the batch, so this is still a copy of the old one.
            backups.keep(path, backup, at_once=True)


def _write(batch: files.Batch, path: str, should: Mapping[str, Any]) -> bool:
    """Write the fragments to a file with the declared permissions, or set only the permissions if the content is right.

    Return whether the content is replaced at the end of the batch: until then the old file can be copied.
    """
    command, permissions, content = should.get("validate_cmd"), protected_file.permissions(should), assembled(should)
    if files.read_content(path) == content:
        batch.set_mode_owner(path, **permissions)
        return False
    check = None if command is None else validate_cmd.of_new_content(batch, path, command)
    if permissions["mode"] is None and not os.path.lexists(path):
        permissions["mode"] = 0o644 if _may_be_read_by_all(should) else 0o600
    batch.replace(path, content, **permissions, check=check)
    return True


def _may_be_read_by_all(should: Mapping[str, Any]) -> bool:
    """Return whether everybody may read each fragment and the declared texts; otherwise a new file is private."""
    modes = (os.stat(path).st_mode for path in _fragments(should))  # noqa: PTH116 - a text
    return not secret_attributes(should, *MADE_OF) and all(mode & READABLE for mode in modes)


def _listed(value: Any) -> list[str]:
    """Return the declared sources as a list: one may be declared as a text."""
    return [value] if isinstance(value, str) else list(value)


def _source_text(should: Mapping[str, Any]) -> str:
    """Return the declared sources for a message."""
    return ", ".join(_listed(should["source"]))
