"""Find and remove files by age, size and name, without following links or crossing mount points."""

from __future__ import annotations

import os
import re
import stat
import time
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from lib import file_trees
from lib.imperative import ImperativeProvider
from lib.sensitive import refused_secrets
from resource_api import Problem, ResourceError, SideEffect, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Change, Context

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
UNITS = "bkmgt"
SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")
#: The most directories within each other that are tidied; each one is held open.
DEEPEST = 100


class Provider(ImperativeProvider):
    """The directories that are tidied."""

    unlisted = "what was removed cannot be read"

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a declaration without a directory, or without any criterion, which would remove all files."""
        yield from refused_secrets(should)
        name, path = should.get("name"), should.get("path")
        directory = name if path is None else path
        if isinstance(directory, str) and not _can_be_tidied(directory):
            yield Problem("path", "path is needed where the title is not the directory; '/' is none that can be tidied")
        if all(should.get(attribute) is None for attribute in ("age", "size", "matches")):
            yield Problem(None, "does not say what to remove; give an age, a size or 'matches'")

    def due(self, _context: Context, _name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:
        """Return whether files are to be removed, and their number and size."""
        matches = _Tidying(should, remove=False)
        return (True, f"{matches} to remove, such as '{matches.paths[0]}'") if matches.count else False

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the files to remove, so that a plan reports a conflict with a resource that declares one."""
        for name, (_, should) in changes.items():
            for path in _Tidying(should, remove=False).paths:
                yield name, SideEffect(path, "remove", "file", asked=True)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Remove the files; one that cannot be removed fails the resource at the end, after the others are removed."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Tidying"):
                removed = _Tidying(should, remove=True)
                if removed.failure:
                    raise removed.failure
                context.updated(name, message=f"Removed {removed}")


class _Tidying:
    """One pass through a directory: the matching files, which are removed if ``remove`` is set."""

    def __init__(self, should: Mapping[str, Any], *, remove: bool) -> None:
        """Find the matching files of the declared directory, and with ``remove`` delete them.

        ``count``, ``size``, ``paths`` and ``failure`` are the results. Raise ``ResourceError`` or ``OSError`` if the
        directory cannot be read.
        """
        age, size, matches = (should.get(attribute) for attribute in ("age", "size", "matches"))
        self.count = self.size = 0
        self.paths: list[str] = []
        self.failure: Exception | None = None
        self._remove = remove
        self._before = None if age is None else time.time() - int(age[:-1]) * SECONDS[age[-1]]
        self._larger = None if size is None else int(size[:-1]) << 10 * UNITS.index(size[-1])  # 2k: 2 * 1024
        patterns = [matches] if isinstance(matches, str) else matches or []
        self._names = re.compile("|".join(map(translate, patterns)) if patterns else "")
        self._time = f"st_{should['type']}"
        self._depth = DEEPEST if should["recurse"] is True else int(should["recurse"])
        self._directories, self._most = should["rmdirs"], should["max_files"]
        self._visit_all(files.canonical_path(should.get("path") or should["name"]))

    def _visit_all(self, path: str) -> None:
        """Visit a directory and, as declared, those below it on the same mount; a missing one has nothing to remove."""
        try:
            with files.Directories() as directories, file_trees.opened(directories.reach(path).fd) as fd:
                self._mount = files.mount_id(fd)
                self._visit(fd, path, 0)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise ResourceError(f"'{path}' is not a directory") from None

    def __str__(self) -> str:
        """Return the number and size of the matching files as text."""
        return f"{self.count} file{'' if self.count == 1 else 's'} of {_in_units(self.size)}"

    def _visit(self, directory: int, path: str, depth: int) -> bool:
        """Visit the entries of an open directory; return whether it is then empty, and so can be removed too.

        An entry that cannot be removed does not end the visit: ``set`` raises the first such error at the end.
        """
        empty = True
        with os.scandir(directory) as entries:
            for entry in entries:
                if self.count >= self._most:
                    return False
                try:
                    status = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
                    gone = self._examine(directory, entry.name, status, f"{path}/{entry.name}", depth)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.failure = self.failure or error
                    gone = False
                empty = empty and gone
        return empty

    def _examine(self, directory: int, name: str, status: os.stat_result, path: str, depth: int) -> bool:
        """Remove an entry of an open directory if it matches.

        Return whether it is removed, or would be without ``remove``: only then its directory can become empty.
        """
        is_directory = stat.S_ISDIR(status.st_mode)
        if is_directory:
            matches = self._visit_subdirectory(directory, name, status, path, depth)
        else:
            matches = self._selects(name, status)
        if not matches:
            return False
        if self._remove and is_directory:
            os.rmdir(name, dir_fd=directory)
        elif self._remove:
            os.unlink(name, dir_fd=directory)
        self.count += 1
        self.size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        self.paths.append(path)
        return True

    def _visit_subdirectory(self, directory: int, name: str, status: os.stat_result, path: str, depth: int) -> bool:
        """Visit the directory ``name`` in an open directory; return whether it is to be removed too.

        With ``rmdirs`` a directory is removed if it is old, and empty after the visit.
        """
        if depth >= self._depth:
            return False
        with file_trees.opened(directory, name) as fd:
            # A directory of the same filesystem may be mounted there.
            if files.mount_id(fd) != self._mount:
                return False
            empty = os.path.samestat(os.fstat(fd), status) and self._visit(fd, path, depth + 1)
        # Looking into a directory changes the time of its last access.
        old = self._before is None or status.st_mtime <= self._before
        return empty and old and self._directories and self.count < self._most

    def _selects(self, name: str, status: os.stat_result) -> bool:
        """Return whether a file is to be removed: its name matches, and it is old or large enough.

        If neither an age nor a size is declared, the name suffices.
        """
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)) or not self._names.match(name):
            return False
        old = self._before is not None and getattr(status, self._time) <= self._before
        large = self._larger is not None and status.st_size >= self._larger
        return old or large or (self._before is None and self._larger is None)


def _can_be_tidied(directory: str) -> bool:
    """Return whether a text is an absolute path without ``..``, and not that of the root in any spelling."""
    return directory.startswith("/") and files.canonical_path(directory) != "/" and ".." not in directory.split("/")


def _in_units(size: int) -> str:
    """Return a number of bytes in the largest unit that fits."""
    unit = min((size.bit_length() - 1) // 10, len(SIZES) - 1) if size else 0
    return f"{size} bytes" if unit == 0 else f"{size / (1 << 10 * unit):.1f} {SIZES[unit]}"
