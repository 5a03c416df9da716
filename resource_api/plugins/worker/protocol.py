"""The provider protocol: values, errors and frames as lines and back.

A frame is a line, or several for one that is too long: a mark, and a JSON object with its kind and its values. Values
beyond JSON are tagged: secrets, unknowns, tuples, sets, assets (their digests, not their bytes), and values that are no
data at all, as their class's name and a text. ``docs/protocol.md`` says which side sends which frame when.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Difference, SideEffect
from resource_api.model.sealed_secrets import TAG
from resource_api.model.values import errors
from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import Problem, ProviderError
from resource_api.model.values.reference import hashable_name
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


#: The version of the protocol: counts up with every change of the frames that the other side could not understand.
VERSION: Final = 3
#: The exit code of a worker that lost its connection to the runtime.
DISCONNECTED: Final = 71
#: Bytes of one frame: a limit for providers whose answers never end.
MAX_FRAME: Final = 256 * 1024 * 1024
#: Bytes of one line, with its end.
MAX_LINE: Final = 1024 * 1024

#: A line with this mark is a frame, or the end of one; one with the other is a part of a frame that goes on.
_NAME: Final = b"RApi"
_MARK: Final = b"RApi "
_PART: Final = b"RApi+ "
_MARKS: Final = (_MARK, _PART)
#: The methods that a program may leave out; it says in ``ready`` which of them it has.
OPTIONAL_METHODS: Final = ("check_config", "diff_config", "suitable")

#: Levels of nested values; below them, and for a value within itself, a frame has a list without an end.
_MAX_DEPTH: Final = 200
#: Characters that are kept of a value that is no data, and of the text of an error.
_MAX_REPR: Final = 200
_MAX_ERROR: Final = 64 * 1024
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})


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


def unreadable_content(word: str, sha256: str, origin: str, source: object) -> Content:
    """Return an asset or archive whose contents this process cannot read: it compares it or passes it on."""
    return KINDS[word](sha256, origin, source)


def problem_fields(problem: Problem) -> dict[str, object]:
    """Return the fields of a problem that have a value, for a frame."""
    return {name: value for name, value in problem._asdict().items() if value != Problem._field_defaults.get(name)}


def problem(value: object) -> Problem:
    """Return the problem in a worker's frame, which is a text or an object of fields.

    A provider in any language may have sent it: raise ``ProviderError`` for anything else.
    """
    if isinstance(value, str):
        return Problem(None, value)
    if isinstance(value, dict) and value.keys() <= set(Problem._fields) and isinstance(value.get("message"), str):
        return Problem(**{"attribute": None, **value}).checked()
    raise ProviderError(f"a problem is a text, or an object with a message, not {value!r:.80}")


def side_effect_fields(effect: SideEffect) -> dict[str, object]:
    """Return the fields of a side effect as JSON data, for a frame.

    Raise ``ProviderError`` if a method ``side_effects`` has returned another value.
    """
    if not isinstance(effect, SideEffect):
        raise ProviderError(f"side_effects must return pairs of a name and a SideEffect, not {effect!r:.80}")
    state = None if effect.checked().state is None else dict(effect.state or {})
    return {**effect._asdict(), "state": state, "aliases": list(effect.aliases)}


def side_effect(fields: object) -> SideEffect:
    """Return the side effect in a worker's frame. Raise ``ProviderError`` for wrong fields.

    A name of several namevars is a list in JSON, and becomes a tuple again.
    """
    if isinstance(fields, dict) and {"name", "action"} <= fields.keys() <= set(SideEffect._fields):
        aliases = tuple(map(hashable_name, fields.get("aliases") or ()))
        return SideEffect(**{**fields, "name": hashable_name(fields["name"]), "aliases": aliases}).checked()
    raise ProviderError(f"a side effect is an object with a name and an action, not {fields!r:.80}")


def difference_fields(change: Difference) -> dict[str, object]:
    """Return the fields of a changed attribute, for a frame."""
    return {"attribute": change.attribute, "is": change.is_, "should": change.should, "message": change.message}


def difference(fields: Mapping[str, Any]) -> Difference:
    """Return the changed attribute in a frame. Raise ``LookupError`` where one of its fields is missing."""
    return Difference(fields["attribute"], fields["is"], fields["should"], fields.get("message", ""))


def encode(kind: str, body: Mapping[str, object], on_content: Callable[[Content], object] = id) -> bytes:
    """Return the bytes of a frame. Raise ``ProviderError`` for a frame that is too large.

    ``on_content`` is called with each asset and archive in it, which the other side may request; ``id`` has no effect.
    """
    return join(kind, {key: encode_value(value, on_content) for key, value in body.items()})


def encode_value(value: object, on_content: Callable[[Content], object] = id) -> str:
    """Return a value as JSON for a frame. Raise ``ProviderError`` for a value that cannot be sent.

    ``on_content`` is called with each asset and archive in it.
    """
    try:
        return _json(_Encoder(on_content).encode(value))
    except ValueError as error:
        raise ProviderError(f"a value cannot be passed on: {error}") from error


def encode_plain(kind: str, body: Mapping[str, object]) -> bytes:
    """Return the bytes of a frame of JSON data, as hosts send. Raise ``ProviderError`` if too large, ``ValueError``."""
    return _framed(_json({"kind": kind, **body}))


def join(kind: str, body: Mapping[str, str]) -> bytes:
    """Return the bytes of a frame of encoded values (name → JSON), which frames may share. Raise ``ProviderError``."""
    texts = {"kind": _json(kind), **body}
    return _framed("{" + ",".join(f"{_json(key)}:{text}" for key, text in texts.items()) + "}")


def _json(value: object) -> str:
    """Return a value as compact ASCII JSON. Raise ``ValueError`` for NaN and infinity, which JSON lacks."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _framed(text: str) -> bytes:
    """Return the bytes of a frame: a line with a mark, or more lines if it is longer than one line may be.

    All lines but the last have the mark of a part, so that the decoder joins them: the text ``ab`` in lines of one
    character is ``RApi+ a`` and ``RApi b``. Raise ``ProviderError`` for a frame that is too large.
    """
    data = text.encode("ascii")
    if len(data) > MAX_FRAME:
        raise ProviderError(f"sent more than {MAX_FRAME >> 20} MiB at once")
    size = MAX_LINE - len(_PART) - 1
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join([*(b"%b%b\n" % (_PART, part) for part in parts[:-1]), b"%b%b\n" % (_MARK, parts[-1])])


class Decoder:
    """Decodes frames from bytes that arrive in pieces of any size."""

    def __init__(
        self,
        on_other: Callable[[bytes], object] | None = None,
        *,
        plain: bool = False,
        largest: Mapping[str, int] | None = None,
    ) -> None:
        """Begin before the first frame; ``on_other`` receives lines that are no frames, None: these are an error.

        ``plain``: frames are JSON data without tags, and ``on_other`` may get many lines at once. ``largest``: kind →
        bytes of such a frame at most; kinds that are not in it are refused.
        """
        #: The unfinished line at the end of the bytes, and the text of a frame whose last part has not come.
        self._line = bytearray()
        self._parts = bytearray()
        self._on_other = on_other
        self._plain = plain
        self._largest = largest
        self._limit = MAX_FRAME if largest is None else max(largest.values())
        #: Builds assets and archives from their digests.
        self.content: Callable[[str, str, str, object], Content] = unreadable_content
        #: Is called with each secret that arrives.
        self.on_secret: Callable[[Sensitive[object]], object] = id

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Raise ``ValueError`` for bytes that are no frame."""
        # No frame is unfinished, no mark is in these bytes, and the line before them begins none: all is plain output.
        if self._plain and not self._parts and _NAME not in data and not self._line.startswith(_NAME[:1]):
            self._pass_on_lines(data)
            return
        first, *rest = data.split(b"\n")
        self._line += first
        if rest:
            yield from self._frames(self._line)
            for line in rest[:-1]:
                yield from self._frames(line)
            self._line = bytearray(rest[-1])
        self._check_length()

    def _pass_on_lines(self, data: bytes) -> None:
        """Pass on lines of which none can be a frame, all at once: a host may send very many."""
        lines, end, rest = data.rpartition(b"\n")
        if end:
            self._pass_on(self._line + lines)
            self._line = bytearray(rest)
        else:
            self._line += data
        self._check_length()

    def _check_length(self) -> None:
        """Pass on an unfinished line once it is too long for a frame: output without line ends must not fill memory."""
        if len(self._line) >= MAX_LINE:
            self._pass_on(self._line)
            self._line = bytearray()

    def _frames(self, line: bytes | bytearray) -> Iterator[Frame]:
        """Yield the frame that a line completes; keep a line that is a part of a frame, and pass on any other."""
        if len(line) >= MAX_LINE or not line.startswith(_MARKS):
            self._pass_on(line)
        elif line.startswith(_MARK):
            text = line[len(_MARK) :]
            if self._parts:
                self._parts += text
                text, self._parts = self._parts, bytearray()
                _check_size(len(text), self._limit)
            yield self._frame(text)
        else:
            if len(line) == len(_PART):  # they could follow each other without end
                raise ValueError("an empty part of a frame")
            self._parts += line[len(_PART) :]
            _check_size(len(self._parts), self._limit)

    def _frame(self, text: bytes | bytearray) -> Frame:
        """Return the frame of its whole text, a JSON object with a ``kind``. Raise ``ValueError`` for another form.

        Unless frames are ``plain``, tagged objects become values again, such as secrets and tuples.
        """
        try:
            hooks: dict[str, Any] = {"parse_constant": _refuse} if self._plain else {"object_hook": self._decode}
            body = json.loads(text.decode("utf-8"), **hooks)
        except RecursionError as error:
            raise ValueError("a frame is nested too deeply") from error
        kind = body.pop("kind", None) if type(body) is dict else None
        if type(kind) is not str:
            raise ValueError(f"a frame must be an object with a 'kind': {text[:40].decode('utf-8', 'replace')}")
        if self._largest is not None:
            _check_size(len(text), self._largest.get(kind, 0))
        return Frame(kind, body)

    def _pass_on(self, line: bytes | bytearray) -> None:
        """Pass a line that is no frame, or the beginning of a long one, to ``on_other``, which mostly logs it.

        Raise ``ValueError`` for a frame's line that is too long, and for any line if there is no ``on_other``.
        """
        if line.startswith(_MARKS):
            raise ValueError(f"a line of more than {MAX_LINE >> 20} MiB")
        if self._on_other is None:
            raise ValueError(f"{bytes(line[:40])!r} is no frame")
        self._on_other(bytes(line))

    def _decode(self, members: dict[str, Any]) -> object:
        """Return the value of a tagged JSON object, such as a tuple; other objects stay as they are.

        A secret is also passed to ``on_secret``, so that it is masked before anything shows it.
        """
        tag = members.get(TAG)
        if tag is None:
            return members
        value: Any = self.content(tag, *members["value"]) if tag in KINDS else _DECODERS[tag](members["value"])
        if tag == "sensitive":
            self.on_secret(value)
        return value


def _check_size(size: int, limit: int) -> None:
    """Raise ``ValueError`` for a frame that is larger than its kind may be; limit 0: no frame of the kind may come."""
    if size > limit:
        msg = f"a frame of more than {limit >> 20} MiB" if limit else "a frame of an unknown kind"
        raise ValueError(msg)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


class _Encoder:
    """Converts the values of one frame to values that JSON has."""

    def __init__(self, on_content: Callable[[Content], object]) -> None:
        """Call ``on_content`` with each asset and archive among the values."""
        self._on_content = on_content
        #: The containers around the value that is being encoded, by identity.
        self._around: list[int] = []

    def encode(self, value: Any) -> object:
        """Return a value as JSON data: a value that JSON does not have becomes an object with a tag and its parts.

        By the tag the other side builds the value again. A value within itself or nested too deep is sent as the tag
        ``endless``: the receiver's checks report it as they do without a worker.
        """
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if isfinite(value) else {TAG: "float", "value": repr(value)}
        if value is UNKNOWN:
            return {TAG: "unknown", "value": None}
        encode = _ENCODERS.get(kind)
        if encode is None:
            return {TAG: "odd", "value": _class_and_text(value)}
        if id(value) in self._around or len(self._around) >= _MAX_DEPTH:
            return {TAG: "endless", "value": None}
        self._around.append(id(value))
        try:
            return encode(self, value)
        finally:
            self._around.pop()

    def list(self, value: Iterable[object]) -> object:
        """Return a list; plain items, which nearly all are, need no call."""
        return [item if type(item) in _PLAIN else self.encode(item) for item in value]

    def mapping(self, value: Mapping[object, object]) -> object:
        """Return a mapping as JSON data; a mapping of plain values, as nearly all are, is returned without a copy."""
        # Keys that are no texts, or that make it look like a tagged value, are sent as a list of pairs.
        if not _TEXT.issuperset(map(type, value)) or TAG in value:
            return {TAG: "mapping", "value": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if _PLAIN.issuperset(map(type, value.values())):
            return value if type(value) is dict else dict(value)
        return {key: self.encode(item) for key, item in value.items()}

    def sequence(self, value: Iterable[object]) -> object:
        """Return a collection that JSON lacks, or a ``Problem``, as a list with its class for the other side."""
        return {TAG: type(value).__name__, "value": self.list(value)}

    def sensitive(self, value: Sensitive[object]) -> object:
        """Return a secret in clear text: the channel is private."""
        return {TAG: "sensitive", "value": self.encode(value.reveal())}

    def content(self, value: Content) -> object:
        """Return an asset or archive without its bytes, which the other side requests when it reads them."""
        self._on_content(value)
        return {TAG: value.word, "value": [value.sha256, value.origin, self.encode(value.source)]}

    def bytes(self, value: bytes) -> object:
        return {TAG: "bytes", "value": b64encode(value).decode("ascii")}


_ENCODERS: Final[Mapping[type, Callable[[_Encoder, Any], Any]]] = {
    list: _Encoder.list,
    dict: _Encoder.mapping,
    MappingProxyType: _Encoder.mapping,
    Sensitive: _Encoder.sensitive,
    bytes: _Encoder.bytes,
    **dict.fromkeys((tuple, set, frozenset, Problem), _Encoder.sequence),
    **dict.fromkeys(KINDS.values(), _Encoder.content),
}


def _class_and_text(value: object) -> tuple[str, str]:
    """Return the name of the class and the shortened ``repr`` of a value that is no data, such as an open file.

    The receiver's checks of a provider's answer show both in the error.
    """
    name = type(value).__name__
    try:
        return name, repr(value)[:_MAX_REPR]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        return name, f"<{name}>"


def _endless_list() -> list[object]:
    """Return a list that contains itself, in place of a value nested too deep to be sent.

    The checks of values refuse it, as they refuse such a value without a worker.
    """
    endless: list[object] = []
    endless.append(endless)
    return endless


@cache
def _opaque_class(name: str) -> type[Opaque]:
    """Return the class with the name of a class of the other side; equal names share it."""
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
    "endless": lambda _: _endless_list(),
    "odd": lambda pair: _opaque_class(pair[0])(pair[1]),
    "Problem": Problem._make,
}

#: The classes of errors that both sides have.
_BUILT_IN: Final = (Exception, OSError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException)
_ERRORS: Final[Mapping[str, type[BaseException]]] = {
    **{kind.__name__: kind for kind in _BUILT_IN},
    **{
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.ResourceAPIError)
    },
}


def encode_error(error: BaseException, mask: Callable[[str], str] = str) -> dict[str, object]:
    """Return the body of the frame for an error, from which ``decode_error`` makes a similar one.

    It has the class, the nearest base class that both sides have, the text and the fields. A text that is too long is
    masked before it is cut, because the receiver's mask would not recognize a part of a secret.
    """
    base = next(kind for kind in type(error).__mro__ if _ERRORS.get(kind.__name__) is kind)
    try:
        text = errors.text_of(error)
        text = text if len(text) <= _MAX_ERROR else mask(text)[:_MAX_ERROR]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        text = ""
    ours = isinstance(error, errors.ResourceAPIError)
    fields = vars(error) if ours else {errors.ORIGIN: errors.origin(error)}
    return {"name": type(error).__name__, "base": base.__name__, "text": text, "more": fields}


def decode_error(body: Mapping[str, Any]) -> BaseException:
    """Return the error that ``encode_error`` has put into the body of a frame.

    If this side lacks the error's class, one with its name is made. A program may send the text alone: that is a
    ``ResourceError``.
    """
    base = _ERRORS[body.get("base", "ResourceError")]
    name = body.get("name", base.__name__)
    kind = base if base.__name__ == name else _error_class(name, base.__name__)
    error = kind.__new__(kind)
    error.args = (str(body["text"]),) if body["text"] else ()
    vars(error).update(body.get("more", {}))
    return error


def decode_exception(body: Mapping[str, object]) -> Exception:
    """Return the error of one of many answers in a frame, as an ``Exception``, for this answer alone.

    A ``KeyboardInterrupt`` is raised instead: it ends the whole call.
    """
    error = decode_error(body)
    if isinstance(error, KeyboardInterrupt):
        raise error
    return error if isinstance(error, Exception) else ProviderError(errors.reason(error))


@cache
def _error_class(name: str, base: str) -> type[BaseException]:
    """Return the class for an exception class of the other side; equal names share it."""
    return type(name, (_ERRORS[base],), {})
