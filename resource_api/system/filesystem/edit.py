"""Edit a file as a whole or line by line, and replace it unless another process has changed it meanwhile.

Files of other users are read and edited safely too, see ``directories``. Editing lines leaves every byte outside the
edited lines unchanged: comments, spacing, duplicates and a missing last newline.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem import files, reading
from resource_api.system.filesystem.directories import Directories
from resource_api.system.filesystem.in_place import file_version
from resource_api.system.filesystem.permissions import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TRIES: Final = 5
#: Largest file in bytes: a file of another user must not fill the memory.
_LARGEST: Final = 16 * 1024 * 1024


class _Version(NamedTuple):
    """The state of a file; two are equal if the file was neither written nor replaced between them.

    ``path`` is the path after following links; ``content`` and ``identity`` are None if the file is missing.
    """

    path: str
    content: bytes | None = None
    identity: tuple[int, ...] | None = None


def read_content(path: str) -> bytes | None:
    """Return a file's content, up to 16 MiB, or None if it is missing, for ``get`` of types that ``edit`` a file.

    As by ``edit``, links are followed. Raise ``OSError`` for a special file or another user's link.
    """
    try:
        return _read_version(path).content
    except (FileNotFoundError, NotADirectoryError):
        return None


def edit(
    path: str,
    change: Callable[[bytes], bytes],
    *,
    mode: int,
    uid: int | None = None,
    gid: int | None = None,
    check: Callable[[str], object] | None = None,
) -> None:
    """Call ``change`` with the content of the file at the absolute ``path``; replace the file if it returns another.

    An existing file keeps its mode and owner; a new file, with empty former content, gets ``mode``, ``uid`` and
    ``gid``. If another process writes the file meanwhile, ``change`` is called again with the new content: it must not
    depend on earlier calls. The new file is durable on return. ``check`` is called with the path of the complete new
    file, and may refuse it by raising. Raise ``OSError``, and ``ResourceError`` if the file keeps changing, or where
    other users could replace the new file between the check and its renaming.
    """
    for _ in range(_TRIES):
        before = _read_version(path)
        former = before.content or b""
        content = change(former)
        if content == former:
            return
        permissions = Permissions(mode, uid, gid) if before.content is None else Permissions()
        try:
            _replace(path, before, content, permissions, check)
        except OSError as error:
            if error.errno == errno.EAGAIN:  # raised also for a file that is overwritten in place
                continue
            if error.filename is not None and not os.path.isabs(error.filename):
                error.filename = before.path  # not the temporary file in its directory
            raise
        return
    raise ResourceError(f"{path} was changed by others {_TRIES} times while it was being edited")


def _replace(
    path: str, before: _Version, content: bytes, permissions: Permissions, check: Callable[[str], object] | None
) -> None:
    """Replace a file unless another process has changed it since ``before`` was read, so that no change is lost.

    Raise ``OSError``: EAGAIN for such a change, for which ``edit`` tries again. Raise the other errors of ``edit`` too.
    """
    with files.Batch() as batch:
        if check is not None and batch.can_others_replace(before.path):
            msg = "its new content cannot be checked where other users can write to a directory on its path"
            raise ResourceError(msg)
        batch.replace(before.path, content, **permissions._asdict(), check=check)
        # The new file is complete: only its renaming follows this check.
        if _read_version(path) != before:
            # Leaving the batch with an error discards the new file.
            raise BlockingIOError(errno.EAGAIN, "it has been changed meanwhile", path)


def _read_version(path: str) -> _Version:
    """Return a file's content and identity, to notice changes. Raise ``OSError`` for another kind, or above 16 MiB."""
    with Directories() as directories:
        directory, name = directories.follow(path)
        path = directory.beneath(name)
        try:
            status, content = reading.stat_and_read(directories, path, _LARGEST)
        except FileNotFoundError:
            return _Version(path)
    if content is None:
        raise reading.not_read(status, path, _LARGEST)
    return _Version(path, content, file_version(status))


class Lines:
    """The lines of a file as a list of texts without line ends, with surrogate escapes for bytes that are not UTF-8.

    1. A line that is not assigned, inserted or deleted keeps its bytes.
    2. An assigned line keeps its line end; a new one gets that of the last line that has one.
    3. A file without a newline at its end does not get one.
    4. Deleting a line that was just added restores the former bytes.
    """

    def __init__(self, content: bytes) -> None:
        """Split the ``content`` of a file at its newlines; each line keeps its end, so that untouched lines stay equal.

        Only the last line may be without an end.
        """
        *whole, rest = content.split(b"\n")
        self._lines = [line + b"\n" for line in whole]
        if rest:
            self._lines.append(rest)

    @property
    def content(self) -> bytes:
        """The bytes of the whole file."""
        return b"".join(self._lines)

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the lines from first to last."""
        return map(_text, self._lines)

    def __getitem__(self, index: int) -> str:
        """Return one line."""
        return _text(self._lines[index])

    def __setitem__(self, index: int, text: str) -> None:
        """Replace the text of a line. Raise ``ValueError`` for a text with a newline."""
        old = self._lines[index]
        self._lines[index] = _bytes(text) + old[len(_without_end(old)) :]

    def __delitem__(self, index: int) -> None:
        """Delete a line with its line end; for a last line without one, with the line end before it."""
        if not self._lines.pop(index).endswith(b"\n") and self._lines:
            self._lines[-1] = _without_end(self._lines[-1])

    def delete(self, numbers: Iterable[int]) -> None:
        """Delete the lines with these numbers (from 0) in one pass, which is faster than one by one for many.

        A file that ended without a newline still does: if its last line is deleted, the new last line loses its end.
        """
        removed = set(numbers)
        shortens = len(self) - 1 in removed and not self._lines[-1].endswith(b"\n")
        self._lines = [line for number, line in enumerate(self._lines) if number not in removed]
        if shortens and self._lines:
            self._lines[-1] = _without_end(self._lines[-1])

    def insert(self, index: int, text: str) -> None:
        """Insert a line before the one at ``index``, with the line end that the file uses.

        In a file that ends without a newline, a line added at the end has none either; the line before it gets one.
        Raise ``ValueError`` for a text with a newline.
        """
        end = self._end()
        if index == len(self) and self._lines and not self._lines[-1].endswith(b"\n"):
            # A carriage return here belongs to the line; a second one keeps it from being read as part of the line end.
            self._lines[-1] += b"\r\n" if self._lines[-1].endswith(b"\r") else end
            end = b""
        self._lines.insert(index, _bytes(text) + end)

    def append(self, text: str) -> None:
        """Add a line after the last one. Raise ``ValueError`` for a text with a newline."""
        self.insert(len(self), text)

    def _end(self) -> bytes:
        """Return the line end for a new line: that of the last line that has one."""
        last = next((line for line in reversed(self._lines) if line.endswith(b"\n")), b"\n")
        return last[len(_without_end(last)) :]


def read_lines(path: str) -> Lines:
    """Return a file's lines, none if it is missing. Raise ``OSError`` for a special file or another user's link."""
    return Lines(read_content(path) or b"")


def edit_lines(
    path: str,
    change: Callable[[Lines], None],
    *,
    mode: int,
    uid: int | None = None,
    gid: int | None = None,
    check: Callable[[str], object] | None = None,
) -> None:
    """Call ``change`` with the lines of the file at the absolute ``path``, and replace the file if it changes them.

    As for ``edit``, a new file gets ``mode``, ``uid`` and ``gid``, ``check`` may refuse the complete new file, and
    ``change`` is called again if another process writes the file meanwhile. Raise ``OSError``, ``ResourceError``.
    """

    def changed(content: bytes) -> bytes:
        """Return the content after ``change`` of its lines."""
        lines = Lines(content)
        change(lines)
        return lines.content

    edit(path, changed, mode=mode, uid=uid, gid=gid, check=check)


def printable(text: str) -> str:
    """Return ``text`` with U+FFFD instead of bytes that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _without_end(line: bytes) -> bytes:
    """Return a line without its line end; a carriage return alone is not one."""
    return line.removesuffix(b"\r\n") if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _text(line: bytes) -> str:
    """Return a line without its end as text, with surrogate escapes for bytes that are not UTF-8."""
    return _without_end(line).decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    """Return the bytes of a line, without its end. Raise ``ValueError`` for a text with a newline: it is two lines."""
    if "\n" in text:
        raise ValueError(f"a line cannot hold a line break: {text!r}")
    return text.encode("utf-8", "surrogateescape")
