"""Messages between the runtime and a worker, as bytes and back: nothing but data, whatever carries them.

A frame is a header of eight bytes (a mark, the length of what follows) and a JSON array of its kind and its body.
What JSON does not have is marked: secrets, unknowns, tuples, sets, and what is no data at all, of which the kind and a
text remain.
Who sends which frame when is in ``docs/isolation.md``.
"""

from __future__ import annotations

import json
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.nouns.change import Change, Difference
from resource_api.nouns.errors import Problem, ProviderError
from resource_api.nouns.tools import Planned
from resource_api.nouns.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


class Odd:
    """Stands for a value that is no data; its class has the name of that value's class."""

    def __init__(self, text: str) -> None:
        """Keep how the value was shown."""
        self._text = text

    def __repr__(self) -> str:
        """Show what the value showed."""
        return self._text


def pack(kind: str, body: Mapping[str, Any]) -> bytes:
    """Give the bytes of a frame. Raises ``ProviderError`` for one that is too large."""
    try:
        text = json.dumps([kind, {key: _marked(value, ()) for key, value in body.items()}], separators=(",", ":"))
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
            kind, body = json.loads(text, object_hook=_unmarked)
            yield Frame(kind, body)


def _marked(value: Any, above: tuple[int, ...]) -> Any:
    """Give a value as JSON has it; ``above`` are the containers that it is in, by identity."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if isfinite(value) else {_TAG: "float", "value": repr(value)}
    if value is UNKNOWN:
        return {_TAG: "unknown", "value": None}
    if id(value) in above or len(above) >= _DEEPEST or (mark := _MARKS.get(kind)) is None:
        return _odd(value)
    return mark(value, (*above, id(value)))


def _list(value: list[Any], above: tuple[int, ...]) -> Any:
    return [item if type(item) in _PLAIN else _marked(item, above) for item in value]


def _mapping(value: Mapping[Any, Any], above: tuple[int, ...]) -> Any:
    if not _TEXT.issuperset(map(type, value)) or _TAG in value:
        pairs = [[_marked(key, above), _marked(item, above)] for key, item in value.items()]
        return {_TAG: "mapping", "value": pairs}
    if _PLAIN.issuperset(map(type, value.values())):
        return value if type(value) is dict else dict(value)
    return {key: _marked(item, above) for key, item in value.items()}


def _tuple(value: tuple[Any, ...], above: tuple[int, ...]) -> Any:
    return {_TAG: "tuple", "value": _list(list(value), above)}


def _sensitive(value: Sensitive[Any], above: tuple[int, ...]) -> Any:
    return {_TAG: "sensitive", "value": _marked(value.reveal(), above)}


def _set(value: set[Any] | frozenset[Any], above: tuple[int, ...]) -> Any:
    return {_TAG: type(value).__name__, "value": _list(list(value), above)}


def _fields(value: tuple[Any, ...], above: tuple[int, ...]) -> Any:
    return {_TAG: type(value).__name__, "value": _list(list(value), above)}


_MARKS: Final[Mapping[type, Callable[[Any, tuple[int, ...]], Any]]] = {
    list: _list,
    dict: _mapping,
    MappingProxyType: _mapping,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    Sensitive: _sensitive,
    **dict.fromkeys(_TUPLES.values(), _fields),
}


def _odd(value: Any) -> Any:
    try:
        text = repr(value)[:_SHOWN]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        text = ""
    return {_TAG: "odd", "value": [type(value).__name__, text or f"<{type(value).__name__}>"]}


def _unmarked(found: dict[str, Any]) -> Any:
    tag = found.get(_TAG)
    return found if tag is None else _READ[tag](found["value"])


@cache
def _class(name: str) -> type[Odd]:
    return type(name, (Odd,), {})


def _read_mapping(pairs: list[list[Any]]) -> dict[Any, Any]:
    return dict(map(tuple, pairs))


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "float": float,
    "unknown": lambda _: UNKNOWN,
    "mapping": _read_mapping,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "sensitive": Sensitive,
    "odd": lambda found: _class(found[0])(found[1]),
    **{name: each._make for name, each in _TUPLES.items()},
}
