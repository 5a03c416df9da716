"""Files of lines, edited so that every byte that is not ours stays as it is.

People comment, space, duplicate and forget the last newline as they like; an editor that parses a file and writes it
anew takes that away from them. What a line means is a provider's business and does not enter here, and how a file is
replaced is ``files``'.

Files of other users are read and edited too; ``directories`` says which symbolic links are followed then.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TRIES: Final = 5
_LARGEST: Final = 16 * 1024 * 1024  # bytes; what another user owns must not fill our memory


class Lines:
    """The lines of a file as a list of texts without line ends; bytes that are not UTF-8 are kept as surrogates.

    1. What is not assigned, inserted or deleted keeps its bytes.
    2. An assigned line keeps its own line end; a new one gets that of the last line that has one.
    3. A file that does not end in a newline does not get one.
    4. Deleting what was just added gives the very bytes of before.
    """

    def __init__(self, content: bytes) -> None:
        """Take the ``content`` of a file apart at its newlines."""
        *whole, rest = content.split(b"\n")
        self._lines = [line + b"\n" for line in whole]
        if rest:
            self._lines.append(rest)

    @property
    def content(self) -> bytes:
        """The bytes of the whole file."""
        return b"".join(self._lines)

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._lines)

    def __iter__(self) -> Iterator[str]:
        """Give the lines from the first to the last."""
        return map(_text, self._lines)

    def __getitem__(self, index: int) -> str:
        """Give one line."""
        return _text(self._lines[index])

    def __setitem__(self, index: int, text: str) -> None:
        """Say a line anew."""
        old = self._lines[index]
        self._lines[index] = _bytes(text) + old[len(_bare(old)) :]

    def __delitem__(self, index: int) -> None:
        """Take a line away, its line end with it; from an end without newline, the one before it."""
        if not self._lines.pop(index).endswith(b"\n") and self._lines:
            self._lines[-1] = _bare(self._lines[-1])

    def insert(self, index: int, text: str) -> None:
        """Put a line before the one at ``index``."""
        end = self._end()
        if index == len(self) and self._lines and not self._lines[-1].endswith(b"\n"):
            # A carriage return here is the line's own; with another before the newline it is not taken for its end.
            self._lines[-1] += b"\r\n" if self._lines[-1].endswith(b"\r") else end
            end = b""
        self._lines.insert(index, _bytes(text) + end)

    def append(self, text: str) -> None:
        """Put a line after the last one."""
        self.insert(len(self), text)

    def _end(self) -> bytes:
        ended = next((line for line in reversed(self._lines) if line.endswith(b"\n")), b"\n")
        return ended[len(_bare(ended)) :]


class _Seen(NamedTuple):
    """A file when it was looked at; two are equal when nobody has written to it or replaced it between them.

    ``place`` is its path with the links at its end followed; ``content`` and ``written`` are None if it is missing.
    """

    place: str
    content: bytes | None = None
    written: tuple[int, ...] | None = None


class _MovedError(Exception):
    """Somebody else has written to the file while it was being edited."""


def read(path: str) -> Lines:
    """Give the lines of the file at the absolute ``path``, none if it does not exist.

    Raises ``OSError`` for what is no regular file, or behind a link that others could have put there.
    """
    try:
        return Lines(_look(path).content or b"")
    except (FileNotFoundError, NotADirectoryError):
        return Lines(b"")


def edit(
    path: str, change: Callable[[Lines], None], *, mode: int, uid: int | None = None, gid: int | None = None
) -> None:
    """Let ``change`` edit the lines of the file at the absolute ``path``; replace the file if they are others then.

    An existing file keeps its mode and owner; a new one gets those given. What others write meanwhile is not lost:
    ``change`` is then called again, with that. Raises ``OSError``, and ``ResourceError`` for a file that never rests.
    """
    for _ in range(_TRIES):
        before = _look(path)
        lines = Lines(before.content or b"")
        change(lines)
        if lines.content == (before.content or b""):
            return
        try:
            with files.Batch() as batch:
                if before.content is None:
                    batch.replace(before.place, lines.content, mode=mode, uid=uid, gid=gid)
                else:
                    batch.replace(before.place, lines.content)
                # The new file is complete here: nothing but its renaming comes after this look.
                _compare(before, _look(path))
        except _MovedError:
            continue
        return
    msg = f"{path} was changed by others {_TRIES} times while it was being edited"
    raise ResourceError(msg)


def _compare(before: _Seen, now: _Seen) -> None:
    if now != before:
        raise _MovedError


def _look(path: str) -> _Seen:
    with Directories() as held:
        directory, name = held.follow(path)
        place = directory.beneath(name)
        try:
            status, content = files.look(held, place, _LARGEST)
        except FileNotFoundError:
            return _Seen(place)
    if content is None:
        raise OSError(errno.EINVAL, f"no regular file of at most {_LARGEST >> 20} MiB", path)
    written = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _Seen(place, content, written)


def shown(text: str) -> str:
    """Give ``text`` as it can be printed: bytes that are no UTF-8 as U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bare(line: bytes) -> bytes:
    """Give a line without its line end; a carriage return alone is none."""
    return line.removesuffix(b"\r\n") if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _text(line: bytes) -> str:
    return _bare(line).decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    if "\n" in text:
        msg = f"a line cannot hold a line break: {text!r}"
        raise ValueError(msg)
    return text.encode("utf-8", "surrogateescape")
