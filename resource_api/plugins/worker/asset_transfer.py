"""Assets and archives in calls of a worker: frames hold their digests, and the worker requests their bytes.

Both sides of the transfer: ``AssetSender`` in the runtime, ``requesting_content`` in the worker. How contents are read,
and the check of their digests, is in ``model.values.assets``.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.assets import KINDS, Archive, Asset, Content, Limits, Member
from resource_api.plugins.worker.protocol import encode_error, unreadable_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Bytes of one answer.
_CHUNK: Final = 1 << 18


class AssetSender:
    """The contents that a worker may read during one call, and those that it is reading."""

    def __init__(self) -> None:
        """Begin without contents."""
        self._contents: dict[tuple[str, str], Content] = {}
        self._readers: dict[int, _Reader] = {}
        self._count = 0

    def add(self, content: Content) -> None:
        """Allow the worker to read a content."""
        self._contents[content.word, content.sha256] = content

    def content(self, word: str, sha256: str, origin: str, given: Any) -> Content:
        """Return the content that a worker sends back: the one that was added, if it was."""
        return self._contents.get((word, sha256)) or unreadable_content(word, sha256, origin, given)

    def answer(self, request: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the frame that answers ``open``, ``member`` or ``read``.

        Raise ``LookupError`` for a content that was not added, or a reader that was not opened.
        """
        try:
            value = self._open(**body) if request == "open" else self._readers[body["reader"]].next(request)
        except LookupError:
            raise
        except Exception as error:  # noqa: BLE001 - raised in the worker
            return "refused", encode_error(error)
        return "answer", {"value": value}

    def close(self) -> None:
        """Close the contents that were not read to their end."""
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
        self._chunks: Iterator[bytes] = iter(())
        if isinstance(content, Archive) and limits is not None:
            self._members = content.members(Limits(*limits))
        elif isinstance(content, Asset):
            self._file = content.open()
            self._chunks = iter(partial(self._file.read, _CHUNK), b"")

    def next(self, request: str) -> Any:
        """Return the next chunk, or the next member without its bytes; None at the end."""
        if request == "member":
            member = next(self._members, None)
            self._chunks = iter(member.parts if member else ())
            return None if member is None else list(member[:-1])
        chunk = next(self._chunks, None)
        if chunk is None and self._file is not None:
            self._file.close()
        return chunk

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._members, self._chunks = iter(()), iter(())


def requesting_content(request: Callable[..., Any]) -> Callable[[str, str, str, Any], Content]:
    """Return a function that makes contents in a worker; their bytes are read with ``request``."""

    def content(word: str, sha256: str, origin: str, given: Any) -> Content:
        def open_asset() -> BinaryIO:
            reader = request("open", word=word, sha256=sha256, limits=None)
            return io.BufferedReader(_RequestedBytes(partial(request, "read", reader=reader)))

        def members(limits: Limits) -> Iterator[Member]:
            reader = request("open", word=word, sha256=sha256, limits=tuple(limits))
            while (member := request("member", reader=reader)) is not None:
                name, kind, mode, target = member
                yield Member(name, kind, mode, target, iter(partial(request, "read", reader=reader), None))

        return KINDS[word](sha256, origin, given, open_asset if word == Asset.word else members)

    return content


class _RequestedBytes(io.RawIOBase):
    """The bytes of an asset, requested chunk by chunk."""

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        self._read_chunk = read
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the rest of the last chunk, or the beginning of the next."""
        if not self._rest:
            self._rest = self._read_chunk() or b""
        piece = self._rest[: len(buffer)]
        buffer[: len(piece)] = piece
        self._rest = self._rest[len(piece) :]
        return len(piece)
