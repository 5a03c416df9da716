"""Values of attributes: secrets, unknown values, and parts of nested values by key paths such as ``rules[*].port``."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from resource_api.model.values.start_up import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    #: The values of attributes, inputs or outputs by name, which nothing changes.
    Values = Mapping[str, Any]

    #: Keys of hashes and indexes of arrays, from the outside in; None means each member.
    KeyPath = tuple[str | int | None, ...]


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

    def __deepcopy__(self, memo: dict[int, object]) -> Sensitive[T]:
        """Return a wrapped copy."""
        return Sensitive(deepcopy(self._value, memo))

    def __reduce__(self) -> NoReturn:
        """Refuse pickling, which would write the secret in clear."""
        raise TypeError("a sensitive value cannot be pickled")


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

    def __deepcopy__(self, memo: dict[int, object]) -> Unknown:
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
    return type(value) not in SCALAR_TYPES and _has_leaf(value, lambda leaf: isinstance(leaf, Sensitive))


def is_unknown(value: object) -> bool:
    """Return whether ``value`` is unknown or contains an unknown value at any depth."""
    return type(value) not in SCALAR_TYPES and _has_leaf(value, lambda leaf: leaf is UNKNOWN)


def _has_leaf(value: Any, accepts: Callable[[Any], bool]) -> bool:
    """Return whether ``accepts`` holds for any leaf of a value; scalars in collections, most leaves, are not tested.

    The callers look for secrets and unknown values, which are no scalars. This is several times as fast as a loop over
    ``leaves``.
    """
    if isinstance(value, (dict, MappingProxyType)):
        items = value.values()
    elif type(value) in {list, tuple}:
        items = value
    else:
        return accepts(value) or (isinstance(value, Sensitive) and _has_leaf(value.reveal(), accepts))
    for item in items:  # noqa: SIM110 - ``any`` with a generator takes twice as long
        if type(item) not in SCALAR_TYPES and _has_leaf(item, accepts):
            return True
    return False


def may_be(is_: object, should: object, *, partial: bool = False) -> bool:
    """Return whether two values are equal, or may turn out equal once their unknown parts are known.

    False means that they certainly differ, by a part that is known already. ``partial``: mappings in ``is_`` may have
    members that ``should`` does not have, as the plan of a provider may add some.
    """
    is_, should = unwrapped(is_), unwrapped(should)
    if is_ is UNKNOWN or should is UNKNOWN:
        return True
    if type(is_) is dict and type(should) is dict:
        has_keys = should.keys() <= is_.keys() if partial else should.keys() == is_.keys()
        return has_keys and all(may_be(is_[key], item, partial=partial) for key, item in should.items())
    if type(is_) is list and type(should) is list:
        pairs = zip(is_, should, strict=False)
        return len(is_) == len(should) and all(may_be(*pair, partial=partial) for pair in pairs)
    return same_value(is_, should)


def is_undecided(is_: object, should: object) -> bool:
    """Return whether unknown parts decide if the two values differ: nothing known in them does."""
    return is_unknown(should) and may_be(is_, should)


def as_list(value: object) -> list[Any]:
    """Return a list as it is, nothing for None, and any other value in a list."""
    return [] if value is None else value if isinstance(value, list) else [value]


def is_flat(resource: Mapping[str, object]) -> bool:
    """Return whether all values of a resource are scalars, which contain no secrets and need no copy."""
    return SCALAR_TYPES.issuperset(map(type, resource.values()))


def copy_resource(resource: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy of a resource that shares nothing mutable with it: either may be changed afterwards."""
    if is_flat(resource):
        return dict(resource)
    return {name: value if type(value) in SCALAR_TYPES else deepcopy(value) for name, value in resource.items()}


def leaves(value: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (key path, part) for each part of ``value`` that is no mapping, list or tuple.

    A sensitive wrapper is a leaf, followed by the leaves of its content at the same path, so that secrets can be found
    and looked into.
    """
    if isinstance(value, (dict, MappingProxyType)):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif type(value) in {list, tuple}:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value
        if isinstance(value, Sensitive):
            yield from leaves(value.reveal(), path)


def unwrapped(value: object) -> Any:
    """Return the content of a sensitive wrapper, and any other value as it is."""
    return value.reveal() if isinstance(value, Sensitive) else value


def reveal(value: object) -> Any:
    """Return ``value`` without any sensitive wrapper, at any depth, to compare it or to pass it to a program."""
    if isinstance(value, Sensitive):
        return reveal(value.reveal())
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    if isinstance(value, tuple):
        return tuple(reveal(item) for item in value)
    return value


def map_leaves(value: object, change: Callable[[Any], Any], change_key: Callable[[Any], Any] | None = None) -> Any:
    """Return ``value`` with ``change(leaf)`` for each part that is no mapping, sequence or sensitive wrapper.

    Any tuple becomes a list, also a named one such as an ``Expression``, so that a value with expressions needs a loop
    of its own. ``change_key`` is called with the keys of mappings; None keeps these.
    """
    if isinstance(value, Sensitive):
        return Sensitive(map_leaves(value.reveal(), change, change_key))
    if isinstance(value, dict):
        # Not ``items()``: where it is the inputs of a Python manifest, ``items`` may be one of them.
        keys = value if change_key is None else map(change_key, value)
        return {key: map_leaves(value[original], change, change_key) for key, original in zip(keys, value, strict=True)}
    if isinstance(value, (list, tuple)):
        return [map_leaves(item, change, change_key) for item in value]
    return change(value)


def escape_expressions(text: str) -> str:
    """Return ``text`` with each ``${`` written so that ``expression.parse`` returns it literally."""
    return text.replace("${", "$${")


def literal(value: object) -> Any:
    """Return a value with each ``${`` escaped in its texts and keys, so that a manifest with it has exactly this value.

    ``expression.evaluate`` returns it as it was.
    """

    def escaped(part: object) -> object:
        return escape_expressions(part) if isinstance(part, str) else part

    if type(value) is str:
        return escape_expressions(value)
    return map_leaves(value, escaped, escaped)


def same_value(is_: object, should: object) -> bool:
    """Compare two canonical values exactly: ``1``, ``1.0`` and ``True`` differ; sensitive wrappers do not matter."""
    if type(is_) is str and type(should) is str:
        return is_ == should
    is_, should = reveal(is_), reveal(should)
    return is_ == should and _same_kinds(is_, should)


def _same_kinds(is_: object, should: Any) -> bool:
    """Return whether equal values are of equal kinds in all parts: ``1``, ``1.0`` and ``True`` are equal to Python."""
    if isinstance(is_, dict):
        return all(_same_kinds(member, should[key]) for key, member in is_.items())
    if isinstance(is_, (list, tuple)):
        return type(is_) is type(should) and all(map(_same_kinds, is_, should))
    return isinstance(is_, bool) == isinstance(should, bool) and isinstance(is_, float) == isinstance(should, float)


_PORTION: Final = 1000


def batches(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield consecutive batches of a thousand: results for all resources at once would need much memory."""
    return (many[start : start + _PORTION] for start in range(0, len(many), _PORTION))


def column_groups(
    resources: Sequence[Mapping[str, object]],
) -> Iterator[tuple[Sequence[int], Mapping[str, Sequence[Any]]]]:
    """Yield the indices of resources with the same attributes, and attribute → their values.

    Thousands of resources are checked faster by attribute, all values at once, than one by one.
    """
    by_attributes: dict[tuple[str, ...], list[int]] = {}
    for index, names in enumerate(map(tuple, resources)):
        group = by_attributes.get(names)
        if group is None:
            by_attributes[names] = [index]
        else:
            group.append(index)
    for names, indices in by_attributes.items():
        columns = zip(*[resources[index].values() for index in indices], strict=True)
        yield indices, dict(zip(names, columns, strict=True))


def are_flat(resources: Sequence[Mapping[str, object]]) -> bool:
    """Return whether all values of all resources are scalars; one search is faster than one for each resource."""
    return SCALAR_TYPES.issuperset(map(type, chain.from_iterable([resource.values() for resource in resources])))


_PLAIN: Final = regex(r"[A-Za-z0-9_-]+")
_STEP: Final = regex(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\['((?:[^']|'')*)'\]|\.\*|\[\*\]")
_ATTRIBUTE: Final = regex(r"[a-z_][a-z0-9_]*")


def place_text(path: Iterable[str | int]) -> str:
    """Return the text of a key path behind the name of its attribute: ``.tls.key``, ``[0]``, ``['a.b']``."""
    return "".join(map(_step_text, path))


def _step_text(step: str | int) -> str:
    """Return one key of a path as text: ``[0]``, ``.a``, or in quotes ``['a.b']`` where it is no plain word."""
    if type(step) is int:
        return f"[{step}]"
    is_plain = type(step) is str and _PLAIN.fullmatch(step)
    return f".{step}" if is_plain else "['{}']".format(str(step).replace("'", "''"))


def attribute_of(text: str) -> str:
    """Return the attribute at the beginning of a key path's text."""
    return text.partition(".")[0].partition("[")[0]


def parse_place(text: str) -> tuple[str, KeyPath]:
    """Return attribute and key path of a part of an attribute: ``settings`` and the keys of ``settings.tls.key``.

    So a manifest (``ignore_changes``) and a provider's plan name parts. Raises ``ValueError`` with a sentence for the
    user.
    """
    head = _ATTRIBUTE.match(text)
    path, end = _key_path(text, head.end()) if head else ((), 0)
    if head is None or end < len(text):
        msg = f"'{text}' is no place in an attribute; write settings.tls.key, rules[0].port or labels['a.b']"
        raise ValueError(msg)
    return head[0], path


def _key_path(text: str, end: int) -> tuple[KeyPath, int]:
    """Return the keys in a text from ``end`` on, and the position of the first character that belongs to none."""
    path: list[str | int | None] = []
    while step := _STEP.match(text, end):
        key, index, quoted = step.groups()
        if index is not None:
            path.append(int(index))
        else:
            path.append(key if quoted is None else quoted.replace("''", "'"))  # None for ``*``
        end = step.end()
    return tuple(path), end


def nearest_place(text: str) -> tuple[str, tuple[str | int, ...]]:
    """Return attribute and key path of ``rules[0].port``, up to a ``*`` or a mistake, for its position in a file."""
    attribute = attribute_of(text)
    path, _ = _key_path(text, len(attribute))
    return attribute, tuple(takewhile(lambda step: step is not None, path))  # type: ignore[arg-type] # without None


def with_present(should: object, is_: object, path: KeyPath) -> Any:
    """Return ``should`` with the present value at a path, which is ignored (``ignore_changes: [rules[0].port]``).

    A comparison with ``is_`` then finds no difference in that part. If ``is_`` lacks the last key of the path, the key
    is removed; if the path does not fit a value, the value stays as declared. None in the path is ``*``, each member.
    """
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        should, is_ = unwrapped(should), unwrapped(is_)
        return Sensitive(with_present(should, is_, path))
    if not path:
        return is_
    step, rest = path[0], path[1:]
    if step is None and not rest:
        return is_ if type(should) is type(is_) else should
    if step is None:
        for member in _members(should, is_):
            should = with_present(should, is_, (member, *rest))
        return should
    if type(should) is dict and type(is_) is dict:
        # An ignored key that only the system has is kept; a path through a key that is not declared fits nothing.
        if step in is_ and (step in should or not rest):
            return {**should, step: with_present(should.get(step), is_[step], rest)}
        return should if rest else {key: value for key, value in should.items() if key != step}
    if type(should) is list and type(is_) is list and type(step) is int and step < min(len(should), len(is_)):
        return [*should[:step], with_present(should[step], is_[step], rest), *should[step + 1 :]]
    return should


def at_place(is_: object, should: object, path: KeyPath) -> Iterator[tuple[Any, Any]]:
    """Yield, for each part that a path matches (with ``*`` several), its present and declared value.

    A plan finds by it whether a changed part needs a replacement. None: the value has no such part.
    """
    if not path:
        yield is_, should
        return
    is_, should = unwrapped(is_), unwrapped(should)
    for step in _members(is_, should) if path[0] is None else path[:1]:
        yield from at_place(_member(is_, step), _member(should, step), path[1:])


def _members(*values: object) -> list[str | int]:
    """Return the keys of hashes, or the indexes of arrays, that any of the values has: ``*`` matches each."""
    keys = [key for value in values for key in (value if type(value) is dict else ())]
    longest = max((len(value) for value in values if type(value) is list), default=0)
    return [*dict.fromkeys(keys), *range(longest)]


def _member(value: object, step: str | int | None) -> Any:
    """Return a member of a hash or an array; None if there is none, ``UNKNOWN`` if the whole is unknown."""
    if value is UNKNOWN:
        return UNKNOWN
    if type(value) is dict:
        return value.get(step)
    return value[step] if type(value) is list and type(step) is int and step < len(value) else None


def declared_part(is_: object, should: object) -> Any:
    """Return the part of a present value to compare with a merged attribute: the members that ``should`` has too.

    Other members may belong to other programs. A missing member is None; arrays are compared element by element only if
    they have one length.
    """
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        is_, should = unwrapped(is_), unwrapped(should)
        return Sensitive(declared_part(is_, should))
    if type(is_) is dict and type(should) is dict:
        return {key: declared_part(is_.get(key), value) for key, value in should.items()}
    if type(is_) is list and type(should) is list and len(is_) == len(should):
        return list(map(declared_part, is_, should))
    return is_
