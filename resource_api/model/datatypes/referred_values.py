"""References and data types: convert referred values to text where required, and find references that never fit."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes.datatype import STRING, make
from resource_api.model.values.expression import (
    Expression,
    ExpressionPath,
    find_paths,
    fixed_texts,
    holds_in_order,
    is_reference,
    parse,
    text_of,
)
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive, escape_expressions, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from resource_api.model.datatypes.datatype import DataType

    #: Alternatives, one of which a value must fit; empty: nothing is known about it.
    Kinds = Sequence[DataType]
    #: Returns the data types at the end of a path.
    KindsOf = Callable[[ExpressionPath], Kinds]

#: Stands for a part of a reference's value.
_REFERRED: Final = Expression((ExpressionPath("values", ()),))
_SCALAR: Final = frozenset({str, int, float, bool})
_COLLECTIONS: Final = frozenset({list, dict, type(None)})
#: The Python types of values that may become text, or hold a part that may.
_CONVERTED: Final = frozenset({int, bool, list, dict, Sensitive})
#: Data type → the Python types of its values, for data types that messages can describe.
_VALUES: Final[dict[str, frozenset[type]]] = {
    **dict.fromkeys(("String", "Enum", "Pattern", "Regexp", "Timestamp"), frozenset({str})),
    **dict.fromkeys(("Array", "Tuple"), frozenset({list})),
    **dict.fromkeys(("Hash", "Struct"), frozenset({dict})),
    "Boolean": frozenset({bool}),
    "Float": frozenset({float}),
    "Integer": frozenset({int}),
    "Numeric": frozenset({int, float}),
    "Scalar": _SCALAR,
    "Timespan": frozenset({str, int, float}),
    "Undef": frozenset({type(None)}),
}


def with_texts(datatype: DataType, written: object, value: object) -> Any:
    """Return a value in which each number or Boolean that comes from a reference is text where only text fits.

    The author cannot put the value of a reference in quotes. A number that the manifest itself contains is not
    converted, and stays an error. ``written``: the same value as declared, which shows the references.
    """
    if type(value) not in _CONVERTED or datatype.accepts(value):
        return value
    return _convert(datatype.leaves, written, value)


def _convert(kinds: Kinds, written: object, value: Any) -> Any:
    """Return ``with_texts`` of a value that must fit one of ``kinds``, the alternatives of its data type, at any depth.

    A number or Boolean of a reference becomes text if an alternative accepts the text and none accepts the value.
    """
    if type(value) is Sensitive:
        return Sensitive(_convert(kinds, unwrapped(written), value.reveal()))
    if type(value) is dict:
        return {key: _convert(part_kinds(kinds, key), _part(written, key), item) for key, item in value.items()}
    if type(value) is list:
        return [_convert(part_kinds(kinds, i), _part(written, i), item) for i, item in enumerate(value)]
    if type(value) not in {int, bool} or not is_reference(written):
        return value
    text = text_of(value)
    only_text = any(kind.accepts(text) for kind in kinds) and not any(kind.accepts(value) for kind in kinds)
    return text if only_text else value


def _part(written: object, key: Any) -> Any:
    """Return the part at a key of a value as written, to see whether that part comes from a reference.

    If the whole collection comes from a reference, so does each part: the result is ``_REFERRED``, any reference.
    """
    if type(written) is dict:
        # A key that holds the characters ``${`` is written with another dollar sign.
        return written[key] if key in written else written[escape_expressions(key)]
    if type(written) is list:
        return written[key]
    return _REFERRED if is_reference(written) else None


def part_kinds(kinds: Kinds, key: object) -> Kinds:
    """Return the data types that the part at a key or an index of a collection may have, to follow a path into it.

    ``kinds``: the alternative data types of the collection. The result is empty if they allow any part.
    """
    if any(kind.kind not in _VALUES for kind in kinds):  # such as Any, which may have any part
        return ()
    types = chain.from_iterable(_types_at(kind, key) for kind in kinds)
    return [leaf for datatype in types for leaf in datatype.leaves]


def _types_at(kind: DataType, key: object) -> Iterable[DataType]:
    """Return the data types that a part at a key or an index of a value of ``kind`` can have; none for no such part."""
    if kind.kind == "Struct":
        return [part for member, part in kind.members.items() if member == key]
    if kind.kind == "Hash":
        return kind.parts[1:]
    return kind.parts if kind.kind in {"Array", "Tuple"} else ()


def missing_key(kinds: Kinds, keys: Iterable[str]) -> tuple[str, Kinds] | None:
    """Return the first of a reference's ``keys`` that no value can have, with the data types there, or None.

    So ``${Type[a].info.nmae}`` is an error before the value is known. ``kinds``: the data types of the attribute.
    """
    for key in keys:
        if kinds and not any(_may_have(kind, key) for kind in kinds):
            return key, kinds
        kinds = part_kinds(kinds, key)
    return None


def _may_have(kind: DataType, key: str) -> bool:
    """Return whether a value of the data type ``kind``, which has no alternatives, can have a reference's key or index.

    A Struct has its declared keys, a Hash any, a list only integers; a data type that may have any value has all.
    """
    if kind.kind == "Struct":
        return key in kind.members
    types = _VALUES.get(kind.kind)
    return types is None or dict in types or (list in types and key.lstrip("-").isdecimal())


class Misfit(NamedTuple):
    """A reference, or a text with references, that can never fit the data types at its path."""

    path: tuple[Any, ...]
    expected: Kinds
    referred: Kinds
    written: str


def misfits(kinds: Kinds, written: Any, kinds_of: KindsOf, path: tuple[object, ...] = ()) -> Iterator[Misfit]:
    """Yield the references in a value as ``written`` that can never fit the data types ``kinds`` at its ``path``.

    So a wrong reference is an error of the manifest, before its value is known. ``kinds_of`` returns the data types at
    the end of a reference, none where they are unknown.
    """
    if type(written) is Sensitive:
        yield from misfits(kinds, written.reveal(), kinds_of, path)
    elif type(written) in {dict, list}:
        for key, item in written.items() if type(written) is dict else enumerate(written):
            yield from misfits(part_kinds(kinds, key), item, kinds_of, (*path, key))
    else:
        referred = kinds_as_written(written, kinds_of)
        if kinds and referred and not _may_any_fit(referred, kinds):
            first = next(find_paths(written))
            yield Misfit(path, kinds, referred, str(first) if is_reference(written) else f"text around {first}")
        if not is_reference(written):
            yield from _collections_in_text(written, kinds_of, path)


def _collections_in_text(written: object, kinds_of: KindsOf, path: tuple[object, ...]) -> Iterator[Misfit]:
    """Yield the references in a text that only yield lists or mappings, which cannot be part of a text."""
    for expression in find_paths(written):
        referred = kinds_of(expression)
        if referred and all(_VALUES.get(kind.kind, _SCALAR) <= _COLLECTIONS for kind in referred):
            yield Misfit(path, (STRING,), referred, str(expression))


def kinds_as_written(written: object, kinds_of: KindsOf) -> Kinds:
    """Return the data types that a value as ``written`` with references can have, before it is known; else none.

    For one reference they are those of its target, from ``kinds_of``, without ``Undef``: a value is not refused because
    it may be missing. For a text with references it is a String that contains the texts around them.
    """
    parsed = parse(written) if type(written) is str and "${" in written else written
    if not isinstance(parsed, Expression):
        return ()
    first = parsed.parts[0]
    if len(parsed.parts) == 1 and isinstance(first, ExpressionPath):
        return [kind for kind in kinds_of(first) if kind.kind != "Undef"]
    texts = fixed_texts(part if isinstance(part, str) else None for part in parsed.parts)
    # The parts of the text that are certain: the value is at least as long, and has them in order.
    least = len("".join(texts))
    if not least:
        return (STRING,)
    return (make("String", lambda text: type(text) is str and holds_in_order(text, *texts), [repr(least)], low=least),)


def _may_any_fit(referred: Kinds, expected: Kinds) -> bool:
    """Return whether a value of one of the data types ``referred`` may fit one of those ``expected``."""
    return any(_may_fit(source, kind) for source in referred for kind in expected)


def _may_fit(referred: DataType, expected: DataType) -> bool:
    """Return whether some value of the data type ``referred`` fits ``expected``, itself or as text.

    Both are without alternatives. The result is true in doubt, because a false one makes the reference an error. The
    words of an Enum or a Boolean are tried one by one; of other data types only Python types and limits are compared.
    """
    if referred.kind not in _VALUES or expected.kind not in _VALUES:  # such as Any
        return True
    if words := _words(referred):  # all values that it can have
        return any(expected.accepts(word) or expected.accepts(text_of(word)) for word in words)
    types = _VALUES[referred.kind]
    # An Integer becomes text, as ``with_texts`` returns it.
    if str in _VALUES[expected.kind] and int in types:
        return True
    if words := _words(expected):
        return any(referred.accepts(word) for word in words)
    return bool(types & _VALUES[expected.kind]) and (referred.kind != expected.kind or _overlap(referred, expected))


def _words(kind: DataType) -> Sequence[str | bool]:
    """Return all values of a Boolean or an Enum, which can be tried one by one; empty for any other data type."""
    if kind.kind == "Boolean":
        return kind.words or (True, False)
    return kind.words if kind.kind == "Enum" else ()


def _overlap(one: DataType, second: DataType) -> bool:
    """Return whether the limits of two data types, of numbers or sizes, allow a common value.

    If they do not, a reference to a value of the one can never fit the other.
    """
    lows = [limit for limit in (one.low, second.low) if limit is not None]
    highs = [limit for limit in (one.high, second.high) if limit is not None]
    return not (lows and highs) or max(lows) <= min(highs)
