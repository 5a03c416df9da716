"""Assets and archives that cross to a worker: their digests go along, their bytes are read when they are asked for.

Both sides of it: what the runtime lends during one call, and what a worker makes of it. How contents are read, and that
they are what their digests say, is the contents' own business.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.assets import KINDS, Archive, Asset, Content, Limits, Member
from resource_api.plugins.worker import exceptions as failure
from resource_api.plugins.worker.messages import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Bytes that are passed on at once.
_CHUNK: Final = 1 << 18


class Lender:
    """The contents of one call, and those of them that are being read."""

    def __init__(self) -> None:
        """Lend nothing yet."""
        self._contents: dict[tuple[str, str], Content] = {}
        self._readers: dict[int, _Reader] = {}
        self._count = 0

    def lend(self, content: Content) -> None:
        """Let a content be asked for."""
        self._contents[content.word, content.sha256] = content

    def content(self, word: str, sha256: str, origin: str, given: Any) -> Content:
        """Give the content that was lent, where a worker sends it back."""
        return self._contents.get((word, sha256)) or known(word, sha256, origin, given)

    def answer(self, wish: str, about: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Give the frame that answers a question about a content. Raises ``LookupError`` for what was not lent."""
        try:
            value = self._open(**about) if wish == "open" else self._readers[about["reader"]].answer(wish)
        except LookupError:
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            return "refused", failure.describe(error)
        return "answer", {"value": value}

    def close(self) -> None:
        """End what has not been read to its end."""
        while self._readers:
            self._readers.popitem()[1].close()

    def _open(self, word: str, sha256: str, limits: tuple[int, int] | None) -> int:
        self._count += 1
        self._readers[self._count] = _Reader(self._contents[word, sha256], limits)
        return self._count


class _Reader:
    """One content that is being read."""

    def __init__(self, content: Content, limits: tuple[int, int] | None) -> None:
        self._file: BinaryIO | None = None
        self._members: Iterator[Member] = iter(())
        self._parts: Iterator[bytes] = iter(())
        if isinstance(content, Archive) and limits is not None:
            self._members = content.members(Limits(*limits))
        elif isinstance(content, Asset):
            self._file = content.open()
            self._parts = iter(partial(self._file.read, _CHUNK), b"")

    def answer(self, wish: str) -> Any:
        """Give the next piece, or the next member without its bytes; None, and nothing more, at the end."""
        if wish == "member":
            member = next(self._members, None)
            self._parts = iter(member.parts if member else ())
            return None if member is None else list(member[:-1])
        piece = next(self._parts, None)
        if piece is None and self._file is not None:
            self._file.close()
        return piece

    def close(self) -> None:
        """Let go of what is being read."""
        if self._file is not None:
            self._file.close()
        self._members, self._parts = iter(()), iter(())


def borrowed(ask: Callable[..., Any]) -> Callable[[str, str, str, Any], Content]:
    """Give what makes, in a worker, contents that are read by asking the runtime."""

    def content(word: str, sha256: str, origin: str, given: Any) -> Content:
        def opened() -> BinaryIO:
            return io.BufferedReader(_Borrowed(ask, ask("open", word=word, sha256=sha256, limits=None)))

        def members(limits: Limits) -> Iterator[Member]:
            reader = ask("open", word=word, sha256=sha256, limits=tuple(limits))
            while (member := ask("member", reader=reader)) is not None:
                name, kind, mode, target = member
                yield Member(name, kind, mode, target, iter(partial(ask, "read", reader=reader), None))

        return KINDS[word](sha256, origin, given, opened if word == Asset.word else members)

    return content


class _Borrowed(io.RawIOBase):
    """The bytes of an asset, asked for piece by piece."""

    def __init__(self, ask: Callable[..., Any], reader: int) -> None:
        self._ask = ask
        self._reader = reader
        self._rest = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Give what is left of the last piece, or the beginning of the next."""
        if not self._rest:
            self._rest = self._ask("read", reader=self._reader) or b""
        piece = self._rest[: len(buffer)]
        buffer[: len(piece)] = piece
        self._rest = self._rest[len(piece) :]
        return len(piece)
