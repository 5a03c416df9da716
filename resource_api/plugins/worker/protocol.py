"""The wire format between the runtime and a worker: values, errors and frames as bytes and back.

A frame is a header of eight bytes (a mark, the length of the rest) and a JSON array of its kind and its body. Values
that JSON does not have are tagged: secrets, unknowns, tuples, sets, assets (their digests, not their bytes), and values
that are no data at all, of which the class's name and a text are kept. Which side sends which frame when is in
``docs/isolation.md``; nothing is sent or received here.
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
from resource_api.model.values import errors
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import Problem, ProviderError
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: The version of the protocol: counts up with every change of the frames that the other side could not understand.
VERSION: Final = 2
#: Bytes of one frame: a limit for providers whose answers never end.
MAX_FRAME: Final = 256 * 1024 * 1024

_MARK: Final = b"RApi"
_HEADER: Final = 8
_TAG: Final = "$resource_api"
#: Levels of nested values; below them, and for a value within itself, only a text is kept.
_MAX_DEPTH: Final = 200
#: Characters that are kept of a value that is no data, and of the text of an error.
_MAX_REPR: Final = 200
_MAX_ERROR: Final = 64 * 1024
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})
#: Classes of named tuples, sent as their fields in order.
_TUPLES: Final[Mapping[str, Any]] = {each.__name__: each for each in (Change, Difference, Planned, Problem)}


class Frame(NamedTuple):
    """One message: its kind, and named values."""

    kind: str
    body: Mapping[str, Any]


class Opaque:
    """Replaces a value that is no data; it equals nothing, and its class has the name of that value's class."""

    def __init__(self, text: str) -> None:
        """Keep the ``repr`` of the value."""
        self._text = text

    def __repr__(self) -> str:
        """Return the ``repr`` of the value."""
        return self._text


def unreadable_content(word: str, sha256: str, origin: str, given: Any) -> Content:
    """Return an asset or archive whose contents cannot be read in this process."""
    return KINDS[word](sha256, origin, given)


def encode(kind: str, body: Mapping[str, Any], on_content: Callable[[Content], object] = id) -> bytes:
    """Return the bytes of a frame; ``on_content`` is called with each asset and archive in it.

    Raise ``ProviderError`` for a frame that is too large.
    """
    encoder = _Encoder(on_content)
    try:
        text = json.dumps([kind, {key: encoder.encode(value) for key, value in body.items()}], separators=(",", ":"))
    except ValueError as error:
        msg = f"a value cannot be passed on: {error}"
        raise ProviderError(msg) from error
    if len(text) > MAX_FRAME:
        msg = f"sent more than {MAX_FRAME >> 20} MiB at once"
        raise ProviderError(msg)
    return b"%b%b%b" % (_MARK, len(text).to_bytes(_HEADER - len(_MARK), "big"), text.encode("ascii"))


class Decoder:
    """Decodes frames from bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        """Begin before the first frame."""
        self._buffer = bytearray()
        #: Makes assets and archives from what a frame holds of them.
        self.content: Callable[[str, str, str, Any], Content] = unreadable_content
        #: Is called with each secret that arrives.
        self.on_secret: Callable[[Sensitive[Any]], object] = id

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Raise ``ValueError`` for bytes that are no frame."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEADER:
            size = int.from_bytes(buffer[len(_MARK) : _HEADER], "big")
            if not buffer.startswith(_MARK) or size > MAX_FRAME:
                msg = f"{bytes(buffer[:_HEADER])!r} begins no frame"
                raise ValueError(msg)
            if len(buffer) < _HEADER + size:
                return
            text = buffer[_HEADER : _HEADER + size].decode("ascii")
            del buffer[: _HEADER + size]
            try:
                kind, body = json.loads(text, object_hook=self._decode)
            except RecursionError as error:
                msg = "a frame is nested too deeply"
                raise ValueError(msg) from error
            yield Frame(kind, body)

    def _decode(self, found: dict[str, Any]) -> Any:
        tag = found.get(_TAG)
        if tag is None:
            return found
        value: Any = self.content(tag, *found["value"]) if tag in KINDS else _DECODERS[tag](found["value"])
        if tag == "sensitive":
            self.on_secret(value)
        return value


class _Encoder:
    """Converts the values of one frame to values that JSON has."""

    def __init__(self, on_content: Callable[[Content], object]) -> None:
        self._on_content = on_content
        #: The containers around the value that is being encoded, by identity.
        self._around: list[int] = []

    def encode(self, value: Any) -> Any:
        """Return a value as JSON has it."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if isfinite(value) else {_TAG: "float", "value": repr(value)}
        if value is UNKNOWN:
            return {_TAG: "unknown", "value": None}
        encode = _ENCODERS.get(kind)
        if encode is None or id(value) in self._around or len(self._around) >= _MAX_DEPTH:
            return {_TAG: "odd", "value": _class_and_text(value)}
        self._around.append(id(value))
        try:
            return encode(self, value)
        finally:
            self._around.pop()

    def list(self, value: Iterable[Any]) -> Any:
        return [item if type(item) in _PLAIN else self.encode(item) for item in value]

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        """Return a mapping as it is where it holds only plain values, which nearly all do."""
        if not _TEXT.issuperset(map(type, value)) or _TAG in value:
            return {_TAG: "mapping", "value": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if _PLAIN.issuperset(map(type, value.values())):
            return value if type(value) is dict else dict(value)
        return {key: self.encode(item) for key, item in value.items()}

    def sequence(self, value: Iterable[Any]) -> Any:
        return {_TAG: type(value).__name__, "value": self.list(value)}

    def sensitive(self, value: Sensitive[Any]) -> Any:
        """Return a secret in clear text: the channel is private."""
        return {_TAG: "sensitive", "value": self.encode(value.reveal())}

    def content(self, value: Content) -> Any:
        self._on_content(value)
        return {_TAG: value.word, "value": [value.sha256, value.origin, self.encode(value.given)]}

    def bytes(self, value: bytes) -> Any:
        return {_TAG: "bytes", "value": b64encode(value).decode("ascii")}


_ENCODERS: Final[Mapping[type, Callable[[_Encoder, Any], Any]]] = {
    list: _Encoder.list,
    dict: _Encoder.mapping,
    MappingProxyType: _Encoder.mapping,
    Sensitive: _Encoder.sensitive,
    bytes: _Encoder.bytes,
    **dict.fromkeys((tuple, set, frozenset, *_TUPLES.values()), _Encoder.sequence),
    **dict.fromkeys(KINDS.values(), _Encoder.content),
}


def _class_and_text(value: Any) -> tuple[str, str]:
    name = type(value).__name__
    try:
        return name, repr(value)[:_MAX_REPR]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        return name, f"<{name}>"


@cache
def _opaque_class(name: str) -> type[Opaque]:
    return type(name, (Opaque,), {})


_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "float": float,
    "unknown": lambda _: UNKNOWN,
    "mapping": lambda pairs: dict(map(tuple, pairs)),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "sensitive": Sensitive,
    "bytes": b64decode,
    "odd": lambda found: _opaque_class(found[0])(found[1]),
    **{name: each._make for name, each in _TUPLES.items()},
}

#: The classes of errors that both sides have.
_BUILT_IN: Final = (Exception, OSError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException)
_ERRORS: Final[Mapping[str, type[BaseException]]] = {
    **{each.__name__: each for each in _BUILT_IN},
    **{
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.ResourceAPIError)
    },
}


def encode_error(error: BaseException, mask: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the body of the frame for an error: its class, the nearest class that both sides have, text, fields.

    A text that is too long is masked before it is cut.
    """
    base = next(each for each in type(error).__mro__ if _ERRORS.get(each.__name__) is each)
    try:
        text = str(error)
        text = text if len(text) <= _MAX_ERROR else mask(text)[:_MAX_ERROR]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        text = ""
    ours = isinstance(error, errors.ResourceAPIError)
    more = vars(error) if ours else {errors.ORIGIN: errors.origin(error)}
    return {"name": type(error).__name__, "base": base.__name__, "text": text, "more": more}


def decode_error(body: Mapping[str, Any]) -> BaseException:
    """Return the error of a frame: one of ours with its fields, a foreign one as a new class of the same name."""
    base = _ERRORS[body["base"]]
    kind = base if base.__name__ == body["name"] else _error_class(body["name"], body["base"])
    error = kind.__new__(kind)
    error.args = (body["text"],) if body["text"] else ()
    vars(error).update(body["more"])
    return error


def decode_exception(body: Mapping[str, Any]) -> Exception:
    """Return the error of a frame as an ``Exception``; raise it if it is a ``KeyboardInterrupt``."""
    error = decode_error(body)
    if isinstance(error, KeyboardInterrupt):
        raise error
    return error if isinstance(error, Exception) else ProviderError(errors.reason(error))


@cache
def _error_class(name: str, base: str) -> type[BaseException]:
    return type(name, (_ERRORS[base],), {})
