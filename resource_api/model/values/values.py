"""Values beyond JSON: secrets, and values that are not known yet.

Data types are in ``datatypes``; nothing here performs I/O.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class Sensitive(Generic[T]):
    """A wrapper of a secret, from the parser to the provider; its text is always ``<sensitive>``."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        """Wrap ``value``; a wrapped value is not wrapped again."""
        self._value: T = value._value if isinstance(value, Sensitive) else value  # noqa: SLF001 - our own class

    def reveal(self) -> T:
        """Return the wrapped value."""
        return self._value

    def __repr__(self) -> str:
        """Hide the value."""
        return "<sensitive>"

    __str__ = __repr__
    __structlog__ = __repr__

    def __format__(self, spec: str) -> str:
        """Hide the value, and its length."""
        return "<sensitive>"

    def __eq__(self, value: object) -> bool:
        """Compare the wrapped values; a plain value never equals a sensitive one."""
        return isinstance(value, Sensitive) and bool(self._value == value._value)

    def __hash__(self) -> int:
        """Hash the wrapped value."""
        return hash(("sensitive", self._value))

    def __copy__(self) -> Sensitive[T]:
        """Return a wrapped value."""
        return Sensitive(self._value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Sensitive[T]:
        """Return a wrapped copy."""
        return Sensitive(deepcopy(self._value, memo))

    def __reduce__(self) -> NoReturn:
        """Refuse pickling, which would write the secret in clear."""
        msg = "a sensitive value cannot be pickled"
        raise TypeError(msg)


class Unknown:
    """A value that an earlier step will provide; one instance, ``UNKNOWN``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text in plans."""
        return "(known after apply)"

    __str__ = __repr__

    def __copy__(self) -> Unknown:
        """Return the one instance."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Unknown:
        """Return the one instance."""
        return self

    def __reduce__(self) -> str:
        """Unpickle to the one instance."""
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


#: The types of values that contain no other values; nearly all values have one of these.
SCALAR_TYPES: Final = frozenset({str, int, bool, float, type(None)})


def is_secret(value: object) -> bool:
    """Return whether ``value`` is sensitive or contains a sensitive value at any depth."""
    return type(value) not in SCALAR_TYPES and _any(value, lambda v: isinstance(v, Sensitive))


def is_unknown(value: object) -> bool:
    """Return whether ``value`` is unknown or contains an unknown value at any depth."""
    return type(value) not in SCALAR_TYPES and _any(value, lambda v: v is UNKNOWN)


def may_be(is_: Any, should: Any) -> bool:
    """Return whether two values are equal, or may be once their unknown parts are known."""
    is_, should = (side.reveal() if isinstance(side, Sensitive) else side for side in (is_, should))
    if is_ is UNKNOWN or should is UNKNOWN:
        return True
    if type(is_) is dict and type(should) is dict:
        return is_.keys() == should.keys() and all(may_be(item, should[key]) for key, item in is_.items())
    if type(is_) is list and type(should) is list:
        return len(is_) == len(should) and all(map(may_be, is_, should))
    return same_value(is_, should)


def is_undecided(is_: Any, should: Any) -> bool:
    """Return whether unknown parts decide if the two values differ."""
    return is_unknown(should) and may_be(is_, should)


def is_flat(resource: Mapping[str, Any]) -> bool:
    """Return whether all values of a resource are scalars, which contain no secrets and need no copy."""
    return SCALAR_TYPES.issuperset(map(type, resource.values()))


def copy_resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a resource that shares nothing mutable with it."""
    if is_flat(resource):
        return dict(resource)
    return {name: value if type(value) in SCALAR_TYPES else deepcopy(value) for name, value in resource.items()}


def _any(value: object, test: Callable[[object], bool]) -> bool:
    if test(value):
        return True
    if isinstance(value, Sensitive):
        return _any(value.reveal(), test)
    if isinstance(value, dict):
        return any(_any(v, test) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_any(v, test) for v in value)
    return False


def reveal(value: Any) -> Any:
    """Return ``value`` without any sensitive wrapper, at any depth."""
    if isinstance(value, Sensitive):
        return reveal(value.reveal())
    if isinstance(value, dict):
        return {k: reveal(v) for k, v in value.items()}
    if isinstance(value, list):
        return [reveal(v) for v in value]
    if isinstance(value, tuple):
        return tuple(reveal(v) for v in value)
    return value


def map_leaves(value: Any, change: Callable[[Any], Any], change_key: Callable[[Any], Any] | None = None) -> Any:
    """Return ``value`` with ``change(leaf)`` for each part that is no mapping, sequence or sensitive wrapper.

    ``change_key`` is called with the keys of mappings, or None.
    """
    if isinstance(value, Sensitive):
        return Sensitive(map_leaves(value.reveal(), change, change_key))
    if isinstance(value, dict):
        # Where it is the inputs of a Python manifest, ``items`` may be one of them.
        keys = value if change_key is None else map(change_key, value)
        return {key: map_leaves(value[original], change, change_key) for key, original in zip(keys, value, strict=True)}
    if isinstance(value, (list, tuple)):
        return [map_leaves(item, change, change_key) for item in value]
    return change(value)


def same_value(is_: Any, should: Any) -> bool:
    """Compare two canonical values exactly: ``1``, ``1.0`` and ``True`` differ.

    A sensitive wrapper makes no difference.
    """
    if type(is_) is str and type(should) is str:
        return is_ == should
    is_, should = reveal(is_), reveal(should)
    return is_ == should and _same_kinds(is_, should)


def _same_kinds(is_: Any, should: Any) -> bool:
    if isinstance(is_, dict):
        return all(_same_kinds(v, should[k]) for k, v in is_.items())
    if isinstance(is_, (list, tuple)):
        return type(is_) is type(should) and all(map(_same_kinds, is_, should))
    return isinstance(is_, bool) == isinstance(should, bool) and isinstance(is_, float) == isinstance(should, float)
