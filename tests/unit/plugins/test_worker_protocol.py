"""Frames between the runtime and a worker: what goes in comes out, wherever the bytes are cut."""

from __future__ import annotations

import math
from collections import OrderedDict
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import UNKNOWN, Change, CommandError, ManifestError, Problem, ProviderError, Sensitive
from resource_api.model.change import Difference
from resource_api.model.provider_functions import Planned
from resource_api.model.values.assets import Archive, Asset, Content
from resource_api.model.values.errors import CannotList, ResourceError, reason
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.protocol import Decoder, Frame, decode_error, encode, encode_error

if TYPE_CHECKING:
    from collections.abc import Callable

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.just(UNKNOWN)
)
HASHABLE = st.one_of(st.integers(), st.text(), st.booleans(), st.tuples(st.text(), st.integers()))
KEYS = st.one_of(st.text(), st.just("$resource_api"), st.integers(), st.tuples(st.text(), st.text()))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Put values into everything that may hold some."""
    return st.one_of(
        st.lists(inner),
        st.dictionaries(KEYS, inner),
        st.lists(inner).map(tuple),
        st.sets(HASHABLE),
        st.frozensets(HASHABLE),
        inner.map(Sensitive),
        st.builds(Change, st.dictionaries(st.text(), inner), st.dictionaries(st.text(), inner)),
        st.builds(Difference, st.text(), inner, inner, st.text()),
        st.builds(Planned, st.dictionaries(st.text(), inner), st.lists(st.text())),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=20)


def back(value: Any) -> Any:
    """Send a value through a frame."""
    (found,) = Decoder().feed(encode("kind", {"value": value}))
    assert found.kind == "kind"
    return found.body["value"]


def kinds(value: Any) -> Any:
    """Give the classes in a value, for what compares equal and is not the same."""
    if isinstance(value, Sensitive):
        return (Sensitive, kinds(value.reveal()))
    if isinstance(value, dict):
        return [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [kinds(item) for item in value])
    return type(value)


@given(VALUES)
def test_data_comes_out_as_it_went_in(value: Any) -> None:
    """Of the same classes, keys in their order, also where it looks like a mark."""
    found = back(value)
    assert found == value
    assert kinds(found) == kinds(value)


@given(st.lists(VALUES, max_size=4), st.integers(1, 40))
def test_frames_may_be_cut_anywhere(values: list[Any], size: int) -> None:
    """Bytes come in pieces of any size, several frames in one of them."""
    data = b"".join(encode("kind", {"value": value}) for value in values)
    decoder = Decoder()
    found = [each for at in range(0, len(data), size) for each in decoder.feed(data[at : at + size])]
    assert found == [Frame("kind", {"value": value}) for value in values]


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_numbers_that_json_has_not_come_through(value: float) -> None:
    """As themselves."""
    assert back([value]) == [value]
    assert math.isnan(back({"x": math.nan})["x"])


def test_file_names_that_are_no_text_come_through() -> None:
    """Surrogates that stand for bytes stay."""
    assert back("caf\udce9") == "caf\udce9"


def test_a_read_only_view_comes_out_as_a_mapping() -> None:
    """A change holds such views."""
    assert back(Change(None, MappingProxyType({"size": (1, 2)}))) == Change(None, {"size": (1, 2)})


class Colour(StrEnum):
    """Text, and more."""

    RED = "red"


class Mute:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        """Refuse."""
        raise ValueError


ODD = {
    "object": object(),
    "enum": Colour.RED,
    "ordered": OrderedDict(a=1),
    "mute": Mute(),
    "range": range(3),
    "len": len,
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_what_is_no_data_arrives_as_something_of_that_name(value: object) -> None:
    """Which equals nothing, so that whoever checks it names it as if it were the thing itself."""
    found = back([value])[0]
    assert type(found).__name__ == type(value).__name__
    assert found != value
    assert repr(found)


def test_what_contains_itself_ends() -> None:
    """Also where it does so twice, which would never end otherwise."""
    loop: list[Any] = [1]
    loop += [loop, loop]
    first, *rest = back(loop)
    assert first == 1
    assert [type(each).__name__ for each in rest] == ["list", "list"]
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    assert back(deep)


def test_contents_go_along_as_digests_and_are_lent() -> None:
    """Nested ones too; the bytes stay."""
    inner = Asset("1" * 64, "text", "hello")
    archive = Archive("2" * 64, "files", (("a", inner),))
    lent: list[Content] = []
    (found,) = Decoder().feed(encode("kind", {"value": {"content": archive}}, lent.append))
    assert found.body["value"] == {"content": archive}
    assert lent == [archive, inner]
    assert found.body["value"]["content"].given[0][1].text == "hello"


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"RApi\xff\xff\xff\xff", b"RApi\0\0\0\1x", b"RApi\0\0\0\4[[]]", b"RApi\0\0\0\1\xff"],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    """At its first eight bytes, or when it is whole."""
    with pytest.raises(ValueError, match=r".*"):
        list(Decoder().feed(data))


def test_what_is_too_large_is_refused_where_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a byte of it is sent."""
    monkeypatch.setattr(protocol, "MAX_FRAME", 1 << 20)
    with pytest.raises(ProviderError, match="sent more than 1 MiB at once"):
        encode("kind", {"value": "x" * (1 << 20)})
    with pytest.raises(ProviderError, match="a value cannot be passed on: Exceeds the limit"):
        encode("kind", {"value": 10**5000})


class OwnError(CommandError):
    """An error of ours that somebody has made more of."""


class Halt(BaseException):
    """Something that is no ``Exception``."""


class SilentError(Exception):
    """Raises when asked what it says."""

    def __str__(self) -> str:
        """Refuse."""
        raise ValueError


#: All of them raised anew: what one test does to an error is not seen by the next.
RAISED: dict[str, Callable[[], BaseException]] = {
    "two_words": lambda: ValueError("two words"),
    "one_word": lambda: KeyError("colour"),
    "a_file": lambda: FileNotFoundError(2, "No such file", "/x"),
    "silent": lambda: SilentError("x"),
    "no_exception": lambda: Halt("for reasons of my own"),
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "cannot_list": lambda: CannotList("nobody keeps a list"),
    "own": lambda: OwnError("failed", ["ls"], 2, "no such"),
    "group": lambda: ExceptionGroup("two things went wrong", [ValueError(), KeyError()]),
}


@pytest.mark.parametrize("case", RAISED)
def test_errors_say_the_same_on_the_other_side(case: str) -> None:
    """And are caught by the same clauses, as far as those name ours, ``OSError`` or what is no ``Exception``."""
    error = RAISED[case]()
    found = decode_error(back(encode_error(error)))
    assert reason(found) == reason(error)
    assert type(found).__name__ == type(error).__name__
    for kind in (Exception, OSError, ResourceError, CannotList, CommandError, KeyboardInterrupt, SystemExit):
        assert isinstance(found, kind) == isinstance(error, kind)


def test_errors_of_ours_keep_what_they_carry() -> None:
    """What a program said, which problems a manifest has."""
    found: Any = decode_error(back(encode_error(CommandError("failed", ["ls", "x"], 2, "no such"))))
    assert (found.argv, found.status, found.stderr) == (("ls", "x"), 2, "no such")
    problem = Problem("size", "is odd", line=3)
    found = decode_error(back(encode_error(ManifestError([problem]))))
    assert (found.problems, found.exit_code) == ([problem], 65)
