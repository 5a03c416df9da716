"""Messages between the runtime and a worker, as bytes and back: nothing but data, whatever carries them.

A frame is a header of eight bytes (a mark, the length of what follows) and a JSON array of its kind and its body.
What JSON does not have is marked: secrets, unknowns, tuples, sets, contents, of which the digest goes and the bytes
stay, and what is no data at all, of which the kind and a text remain.
Who sends which frame when is in ``docs/isolation.md``.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Change, Difference
from resource_api.model.provider_functions import Planned
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import Problem, ProviderError
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: Counts up with every change of the frames that one of the two sides could not understand.
PROTOCOL: Final = 1
#: Bytes of one frame; more is a provider running away.
LONGEST: Final = 256 * 1024 * 1024

_MARK: Final = b"RApi"
_HEADER: Final = 8
_TAG: Final = "$resource_api"
#: How deep data may be; what lies deeper is no data any more.
_DEEPEST: Final = 200
_SHOWN: Final = 200
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})
#: Values with fields of their own.
_TUPLES: Final[Mapping[str, Any]] = {each.__name__: each for each in (Change, Difference, Planned, Problem)}


class Frame(NamedTuple):
    """One message: its kind, and named values."""

    kind: str
    body: Mapping[str, Any]


def known(word: str, sha256: str, origin: str, given: Any) -> Content:
    """Make an asset or archive of what a frame says of it: nobody here can read it."""
    return KINDS[word](sha256, origin, given)


class Odd:
    """Stands for a value that is no data; its class has the name of that value's class."""

    def __init__(self, text: str) -> None:
        """Keep how the value was shown."""
        self._text = text

    def __repr__(self) -> str:
        """Show what the value showed."""
        return self._text


def pack(kind: str, body: Mapping[str, Any], lend: Callable[[Content], object] = id) -> bytes:
    """Give the bytes of a frame; ``lend`` is told of the contents in it. Raises ``ProviderError`` for a large one."""
    marker = _Marker(lend)
    try:
        text = json.dumps([kind, {key: marker.mark(value) for key, value in body.items()}], separators=(",", ":"))
    except ValueError as error:
        msg = f"a value cannot be passed on: {error}"
        raise ProviderError(msg) from error
    if len(text) > LONGEST:
        msg = f"said more than {LONGEST >> 20} MiB at once"
        raise ProviderError(msg)
    return b"%b%b%b" % (_MARK, len(text).to_bytes(_HEADER - len(_MARK), "big"), text.encode("ascii"))


class Splitter:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self) -> None:
        """Begin before the first frame."""
        self._waiting = bytearray()
        #: What makes assets and archives of what is said of them.
        self.content: Callable[[str, str, str, Any], Content] = known

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Give the frames that ``data`` completes. Raises ``ValueError`` for what is no frame."""
        waiting = self._waiting
        waiting += data
        while len(waiting) >= _HEADER:
            size = int.from_bytes(waiting[len(_MARK) : _HEADER], "big")
            if not waiting.startswith(_MARK) or size > LONGEST:
                msg = f"{bytes(waiting[:_HEADER])!r} begins no frame"
                raise ValueError(msg)
            if len(waiting) < _HEADER + size:
                return
            text = waiting[_HEADER : _HEADER + size].decode("ascii")
            del waiting[: _HEADER + size]
            kind, body = json.loads(text, object_hook=self._unmarked)
            yield Frame(kind, body)

    def _unmarked(self, found: dict[str, Any]) -> Any:
        tag = found.get(_TAG)
        if tag is None:
            return found
        return self.content(tag, *found["value"]) if tag in KINDS else _READ[tag](found["value"])


class _Marker:
    """Makes JSON of one frame's values."""

    def __init__(self, lend: Callable[[Content], object]) -> None:
        self._lend = lend
        #: The containers around what is being marked, by identity.
        self._above: list[int] = []

    def mark(self, value: Any) -> Any:
        """Give a value as JSON has it."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if isfinite(value) else {_TAG: "float", "value": repr(value)}
        if value is UNKNOWN:
            return {_TAG: "unknown", "value": None}
        mark = _MARKS.get(kind)
        if mark is None or id(value) in self._above or len(self._above) >= _DEEPEST:
            return {_TAG: "odd", "value": _odd(value)}
        self._above.append(id(value))
        try:
            return mark(self, value)
        finally:
            self._above.pop()

    def list(self, value: Iterable[Any]) -> Any:
        """Mark what a list holds."""
        return [item if type(item) in _PLAIN else self.mark(item) for item in value]

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        """Mark what a mapping holds; nearly all hold nothing that needs it."""
        if not _TEXT.issuperset(map(type, value)) or _TAG in value:
            return {_TAG: "mapping", "value": [[self.mark(key), self.mark(item)] for key, item in value.items()]}
        if _PLAIN.issuperset(map(type, value.values())):
            return value if type(value) is dict else dict(value)
        return {key: self.mark(item) for key, item in value.items()}

    def several(self, value: Iterable[Any]) -> Any:
        """Mark what is called like its class and holds values in a row."""
        return {_TAG: type(value).__name__, "value": self.list(value)}

    def sensitive(self, value: Sensitive[Any]) -> Any:
        """Mark a secret, which is in clear within its frame."""
        return {_TAG: "sensitive", "value": self.mark(value.reveal())}

    def content(self, value: Content) -> Any:
        """Mark an asset or archive, and lend it."""
        self._lend(value)
        return {_TAG: value.word, "value": [value.sha256, value.origin, self.mark(value.given)]}

    def bytes(self, value: bytes) -> Any:
        """Mark bytes."""
        return {_TAG: "bytes", "value": b64encode(value).decode("ascii")}


_MARKS: Final[Mapping[type, Callable[[_Marker, Any], Any]]] = {
    list: _Marker.list,
    dict: _Marker.mapping,
    MappingProxyType: _Marker.mapping,
    Sensitive: _Marker.sensitive,
    bytes: _Marker.bytes,
    **dict.fromkeys((tuple, set, frozenset, *_TUPLES.values()), _Marker.several),
    **dict.fromkeys(KINDS.values(), _Marker.content),
}


def _odd(value: Any) -> tuple[str, str]:
    name = type(value).__name__
    try:
        return name, repr(value)[:_SHOWN]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        return name, f"<{name}>"


@cache
def _class(name: str) -> type[Odd]:
    return type(name, (Odd,), {})


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "float": float,
    "unknown": lambda _: UNKNOWN,
    "mapping": lambda pairs: dict(map(tuple, pairs)),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "sensitive": Sensitive,
    "bytes": b64decode,
    "odd": lambda found: _class(found[0])(found[1]),
    **{name: each._make for name, each in _TUPLES.items()},
}
