"""Our named tuples are those of ``typing``."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Ours(NamedTuple):
    """A place."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def total(self) -> int:
        """A method of its own."""
        return self.x + self.y

    def doubled(self) -> Ours:
        """Use the class within itself."""
        kind: type[Ours] = __class__  # type: ignore[name-defined] # the cell of the class
        return kind(2 * self.x, 2 * self.y)


class Theirs(typing.NamedTuple):
    """A place."""

    x: int
    y: int = 2
    name: str = ""


class Nothing(NamedTuple):
    """Without fields."""


_CALLS: list[Callable[[Any], Any]] = [
    lambda kind: kind(1),
    lambda kind: kind(1, 3, "a"),
    lambda kind: kind(y=4, x=3),
    lambda kind: kind(1, name="b"),
    lambda kind: kind(),
    lambda kind: kind(1, 2, "c", 4),
    lambda kind: kind(1, z=2),
    lambda kind: kind(1, x=2),
    lambda kind: kind._make([1, 2, "d"]),
    lambda kind: kind._make([1]),
    lambda kind: kind(1)._replace(y=5),
    lambda kind: kind(1)._replace(z=5),
    lambda kind: kind(1)._asdict(),
    lambda kind: kind(1).x + kind(1)[1],
    lambda kind: setattr(kind(1), "x", 2),
    lambda kind: vars(kind(1)),
    lambda kind: hash(kind(1)),
    lambda kind: kind(1) == (1, 2, ""),
    lambda kind: kind(1) < kind(2),
    lambda kind: kind(1).index(2),
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__, kind.__module__),
    lambda kind: [each.replace(annotation="") for each in inspect.signature(kind).parameters.values()],
    lambda kind: tuple(copy.deepcopy(kind([1]))),
]


def _outcome(call: Callable[[Any], Any], kind: Any) -> Any:
    try:
        found = call(kind)
    except (TypeError, ValueError, AttributeError) as error:
        return type(error)
    return repr(found).replace("Theirs", "Ours")


@pytest.mark.parametrize("call", _CALLS, ids=range(len(_CALLS)))
def test_a_named_tuple_behaves_as_one_of_typing(call: Callable[[Any], Any]) -> None:
    """It returns and refuses the same."""
    assert _outcome(call, Ours) == _outcome(call, Theirs)


def test_a_named_tuple_is_pickled_copied_and_matched() -> None:
    """By its fields, and its own class."""
    found = pickle.loads(pickle.dumps(Ours(1, 3)))  # noqa: S301 - our own
    assert (type(found), found, type(copy.copy(found))) == (Ours, (1, 3, ""), Ours)
    match found:
        case Ours(1, y, name=name):
            assert (y, name) == (3, "")
    assert (found.total, found.doubled(), type(found.doubled())) == (4, (2, 6, ""), Ours)


def test_a_named_tuple_may_have_no_fields() -> None:
    """Then it is empty."""
    assert (Nothing(), repr(Nothing())) == ((), "Nothing()")


def test_a_field_without_a_default_must_come_first() -> None:
    """As an argument without one."""
    with pytest.raises(TypeError, match="follows one with a default"):

        class Wrong(NamedTuple):
            x: int = 1
            y: int  # type: ignore[misc] # what is tested
