"""Tests of the named tuples and modules that cost little at the start."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import typing
from types import SimpleNamespace

import pytest

from resource_api.model.values.start_up import NamedTuple, late_modules, late_names
from resource_api.model.values.text import escape


class Part(NamedTuple):
    """A part."""

    name: str
    size: int = 1
    tags: tuple[str, ...] = ()

    @property
    def area(self) -> int:
        """The area of a square part."""
        return self.size**2

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class TypingPart(typing.NamedTuple):
    """The same part, as the standard library has it."""

    name: str
    size: int = 1
    tags: tuple[str, ...] = ()


def test_a_named_tuple_answers_as_that_of_the_standard_library() -> None:
    """Compare fields, defaults, signature, representation, replacement and conversion."""
    part, expected = Part("bolt", tags=("m8",)), TypingPart("bolt", tags=("m8",))
    assert part == expected == ("bolt", 1, ("m8",))
    assert repr(part) == repr(expected).removeprefix("Typing")
    assert (Part._fields, Part._field_defaults) == (TypingPart._fields, TypingPart._field_defaults)
    assert inspect.signature(Part).parameters.keys() == inspect.signature(TypingPart).parameters.keys()
    assert part._replace(size=2) == expected._replace(size=2)
    assert part._asdict() == expected._asdict()
    assert Part._make(expected) == part
    assert not hasattr(part, "__dict__")


def test_a_named_tuple_has_the_methods_of_its_class() -> None:
    """Properties, special methods and patterns work."""
    assert (Part("bolt", 3).area, str(Part("bolt"))) == (9, "bolt")
    match Part("bolt", 3):
        case Part(name, size):
            assert (name, size) == ("bolt", 3)


def test_a_named_tuple_can_be_copied_and_pickled() -> None:
    """Copies are equal and of the same class."""
    part = Part("bolt")
    pickled = pickle.loads(pickle.dumps(part))  # noqa: S301 - our own data
    for result in (copy.copy(part), copy.deepcopy(part), pickled):
        assert (result, type(result)) == (part, Part)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Part, r"Part\.__new__\(\) missing 1 required positional argument: 'name'"),
        (lambda: Part("bolt", weight=1), "unexpected keyword argument 'weight'"),  # type: ignore[call-arg]
        (lambda: Part("bolt")._replace(weight=1), r"unexpected field names: \['weight'\]"),  # type: ignore[call-arg]
        (lambda: Part._make(["bolt"]), "Expected 3 arguments, got 1"),
    ],
)
def test_a_wrong_field_of_a_named_tuple_is_named(call: typing.Callable[[], object], message: str) -> None:
    """The errors are those of the standard library."""
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_name_that_is_set_in_a_late_module_is_set_in_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a test that replaces a constant would test the module with its own one."""
    module = SimpleNamespace(limit=1)
    monkeypatch.setitem(sys.modules, "package.limits", module)  # type: ignore[arg-type]
    late: typing.Any = late_modules("package", "limits")("limits")
    assert late.limit == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late, "limit", 2)
        assert (module.limit, late.limit) == (2, 2)
    assert (module.limit, late.limit) == (1, 1)


def test_a_late_name_is_that_of_its_module_and_any_other_is_an_error() -> None:
    """The module is imported with the first use."""
    late = late_names("resource_api.model.values.text", "escape")
    assert late("escape")("a\x1b") == escape("a\x1b")
    with pytest.raises(AttributeError, match="no module attribute 'show'"):
        late("show")
