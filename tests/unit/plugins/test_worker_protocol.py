"""The laws of the wire format between the runtime and a worker: decoding a frame returns what was encoded."""

from __future__ import annotations

import math
from collections import OrderedDict
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api import UNKNOWN, CommandError, ManifestError, Problem, ProviderError, Sensitive
from resource_api.model.values.assets import Archive, Asset, Content
from resource_api.model.values.errors import CannotList, ResourceError, reason
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.protocol import Decoder, Frame, decode_error, encode, encode_error, encode_plain
from tests.sampling import times

if TYPE_CHECKING:
    from collections.abc import Callable

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.just(UNKNOWN)
)
HASHABLE = st.one_of(st.integers(), st.text(), st.booleans(), st.tuples(st.text(), st.integers()))
KEYS = st.one_of(st.text(), st.just("$resource_api"), st.integers(), st.tuples(st.text(), st.text()))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of all containers of values."""
    return st.one_of(
        st.lists(inner),
        st.dictionaries(KEYS, inner),
        st.lists(inner).map(tuple),
        st.sets(HASHABLE),
        st.frozensets(HASHABLE),
        inner.map(Sensitive),
        st.builds(Problem, st.text(), st.text()),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=20)


def round_trip(value: Any) -> Any:
    """Return a value after encoding and decoding it."""
    (frame,) = Decoder().feed(encode("kind", {"value": value}))
    assert frame.kind == "kind"
    return frame.body["value"]


def kinds(value: Any) -> Any:
    """Return the classes in a value: values of different classes may compare equal."""
    if isinstance(value, Sensitive):
        return (Sensitive, kinds(value.reveal()))
    if isinstance(value, dict):
        return [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [kinds(item) for item in value])
    return type(value)


@given(VALUES)
def test_data_is_decoded_as_it_was(value: Any) -> None:
    """With the same classes and order of keys, also where a key is that of a tag."""
    decoded = round_trip(value)
    assert decoded == value
    assert kinds(decoded) == kinds(value)


@given(st.lists(VALUES, max_size=4), st.integers(1, 40))
def test_frames_may_be_cut_anywhere(values: list[Any], size: int) -> None:
    """Bytes arrive in pieces of any size, with one or more frames in each."""
    data = b"".join(encode("kind", {"value": value}) for value in values)
    decoder = Decoder()
    frames = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert frames == [Frame("kind", {"value": value}) for value in values]


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_kept(value: float) -> None:
    """Infinities and NaN."""
    assert round_trip([value]) == [value]
    assert math.isnan(round_trip({"x": math.nan})["x"])


def test_file_names_that_are_not_utf8_are_kept() -> None:
    """Surrogate escapes stay as they are."""
    assert round_trip("caf\udce9") == "caf\udce9"


def test_a_read_only_view_is_decoded_as_a_dict() -> None:
    """The states of a change are such views."""
    assert round_trip([MappingProxyType({"size": (1, 2)})]) == [{"size": (1, 2)}]


class Colour(StrEnum):
    """A subclass of ``str``."""

    RED = "red"


class Mute:
    """Its ``repr`` raises."""

    def __repr__(self) -> str:
        """Raise."""
        raise ValueError


NO_DATA = {
    "object": object(),
    "enum": Colour.RED,
    "ordered": OrderedDict(a=1),
    "mute": Mute(),
    "range": range(3),
    "len": len,
}


@pytest.mark.parametrize("value", NO_DATA.values(), ids=NO_DATA)
def test_a_value_that_is_no_data_keeps_the_name_of_its_class(value: object) -> None:
    """It equals nothing, and error messages name its class as they would the original's."""
    decoded = round_trip([value])[0]
    assert type(decoded).__name__ == type(value).__name__
    assert decoded != value
    assert repr(decoded)


def test_a_value_that_contains_itself_can_be_encoded() -> None:
    """Also twice, and at a depth above the limit."""
    loop: list[Any] = [1]
    loop += [loop, loop]
    first, *rest = round_trip(loop)
    assert first == 1
    assert [type(item).__name__ for item in rest] == ["list", "list"]
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    assert round_trip(deep)


def test_contents_are_encoded_as_digests() -> None:
    """Nested ones too; the sender is notified of each, and the bytes are not sent."""
    inner = Asset("1" * 64, "text", "hello")
    archive = Archive("2" * 64, "files", (("a", inner),))
    sent: list[Content] = []
    (frame,) = Decoder().feed(encode("kind", {"value": {"content": archive}}, sent.append))
    assert frame.body["value"] == {"content": archive}
    assert sent == [archive, inner]
    assert frame.body["value"]["content"].source[0][1].text == "hello"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"RApi x\n",
        b"RApi []\n",
        b"RApi {}\n",
        b'RApi {"kind": 1}\n',
        b'RApi {"kind": "done", "value": "\xff"}\n',
        b'RApi {"kind": "done"\n',
        b"RApi+ [\nx\n",
        b"RApi " + b"[" * 100_000 + b"\n",
        b"RApi " + b" " * (1 << 20) + b"\n",
    ],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    """When the line is complete, or longer than a line may be."""
    with pytest.raises(ValueError, match=r".*"):
        list(Decoder().feed(data))


@given(st.integers(0, 3 << 20))
@settings(max_examples=times(0.2))
def test_a_long_frame_is_sent_in_lines_of_bounded_length(size: int) -> None:
    """No line is longer than 1 MiB, and the frame is decoded as it was."""
    data = encode("kind", {"value": "x" * size})
    assert max(map(len, data.splitlines(keepends=True))) <= protocol.MAX_LINE
    assert list(Decoder().feed(data)) == [Frame("kind", {"value": "x" * size})]


@given(st.lists(st.one_of(st.binary(max_size=30), st.just(b"RApi"), st.just(b"\r"))), st.integers(1, 20))
def test_other_output_between_frames_is_passed_on(noise: list[bytes], size: int) -> None:
    """Lines without the mark, of a program that prints to the same stream, are no part of any frame."""
    lines = [line for text in noise for line in text.split(b"\n") if not line.startswith((b"RApi ", b"RApi+ "))]
    skipped: list[bytes] = []
    decoder = Decoder(skipped.append)
    data = b"".join(line + b"\n" + encode("kind", {"value": number}) for number, line in enumerate(lines))
    frames = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert frames == [Frame("kind", {"value": number}) for number in range(len(lines))]
    assert skipped == lines


def test_frames_among_other_lines_are_found_however_they_arrive() -> None:
    """In pieces of any size; nothing of the other lines is lost, whether they come one by one or many at once."""
    frame = encode_plain("event", {"document": {}})
    data = b"Welcome\n\nR\nRApi\nxRApi \n" + frame + b"RAp\nmore\n" + frame + b"RApi"
    expected = data.replace(frame, b"").removesuffix(b"RApi").replace(b"\n", b"")
    for size in range(1, len(data) + 1):
        skipped: list[bytes] = []
        decoder = Decoder(skipped.append, plain=True)
        frames = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
        assert frames == [Frame("event", {"document": {}})] * 2
        assert b"".join(skipped).replace(b"\n", b"") == expected


def test_a_frame_in_parts_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it fills the memory."""
    monkeypatch.setattr(protocol, "MAX_FRAME", 1 << 20)
    with pytest.raises(ValueError, match="a frame of more than 1 MiB"):
        list(Decoder().feed((b"RApi+ " + b"x" * 500_000 + b"\n") * 3))


def test_a_frame_that_is_too_large_is_refused_by_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a byte of it is sent."""
    monkeypatch.setattr(protocol, "MAX_FRAME", 1 << 20)
    with pytest.raises(ProviderError, match="sent more than 1 MiB at once"):
        encode("kind", {"value": "x" * (1 << 20)})
    with pytest.raises(ProviderError, match="a value cannot be passed on: Exceeds the limit"):
        encode("kind", {"value": 10**5000})


class OwnError(CommandError):
    """A subclass of an error of ours."""


class Halt(BaseException):
    """A ``BaseException`` that is no ``Exception``."""


class SilentError(Exception):
    """Its ``str`` raises."""

    def __str__(self) -> str:
        """Raise."""
        raise ValueError


#: Functions, so that each test has errors of its own.
RAISED: dict[str, Callable[[], BaseException]] = {
    "two_words": lambda: ValueError("two words"),
    "one_word": lambda: KeyError("colour"),
    "a_file": lambda: FileNotFoundError(2, "No such file", "/x"),
    "silent": lambda: SilentError("x"),
    "no_exception": lambda: Halt("for reasons of my own"),
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "cannot_list": lambda: CannotList("there is no list"),
    "own": lambda: OwnError("failed", ["ls"], 2, "no such"),
    "group": lambda: ExceptionGroup("two things went wrong", [ValueError(), KeyError()]),
}


@pytest.mark.parametrize("case", RAISED)
def test_errors_have_the_same_message_after_decoding(case: str) -> None:
    """And are caught by the same clauses, as far as these name our errors, ``OSError`` or ``BaseException``s."""
    error = RAISED[case]()
    decoded = decode_error(round_trip(encode_error(error)))
    assert reason(decoded) == reason(error)
    assert type(decoded).__name__ == type(error).__name__
    for kind in (Exception, OSError, ResourceError, CannotList, CommandError, KeyboardInterrupt, SystemExit):
        assert isinstance(decoded, kind) == isinstance(error, kind)


@pytest.mark.parametrize("value", [None, 3, {}, {"message": 3}, {"message": "x", "colour": "red"}, ["x"]])
def test_a_value_that_is_no_problem_is_refused(value: object) -> None:
    """A program's ``validate`` returns texts, or objects with a message."""
    with pytest.raises(ProviderError, match="a problem is a text, or an object with a message"):
        protocol.problem(value)


@given(st.builds(Problem, st.one_of(st.none(), st.text()), st.text(), st.sampled_from(["error", "warning"])))
def test_problems_keep_their_fields(problem: Problem) -> None:
    """Only those that have a value are sent."""
    assert protocol.problem(round_trip(protocol.problem_fields(problem))) == problem


def test_errors_of_ours_keep_their_fields() -> None:
    """The output of a program, the problems of a manifest."""
    error: Any = decode_error(round_trip(encode_error(CommandError("failed", ["ls", "x"], 2, "no such"))))
    assert (error.argv, error.status, error.stderr) == (("ls", "x"), 2, "no such")
    assert str(decode_error({"text": "the disk is full"})) == "the disk is full"
    assert isinstance(decode_error({"text": ""}), ResourceError)
    problem = Problem("size", "is odd", line=3)
    error = decode_error(round_trip(encode_error(ManifestError([problem]))))
    assert (error.problems, error.exit_code) == ([problem], 65)
