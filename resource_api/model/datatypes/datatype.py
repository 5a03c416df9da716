"""One data type as a frozen value: what it accepts, and its parts.

``build.parse`` makes it from an expression. The syntax of expressions does not enter here.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import predicates
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import UNKNOWN, Sensitive, is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from resource_api.model.datatypes.predicates import Check

_UNRESTRICTED: Final[dict[str, frozenset[type]]] = {
    "String": frozenset({str}),
    "Integer": frozenset({int}),
    "Boolean": frozenset({bool}),
    "Undef": frozenset({type(None)}),
}
#: The data types of which some values are lists or mappings.
_COLLECTIONS: Final = frozenset({"Any", "Data", "Array", "Tuple", "Hash", "Struct"})


class DataType(NamedTuple):
    """A data type; equal if the canonical ``text`` is.

    ``accepts`` decides about a value; ``check`` does so for values without sensitive wrappers. ``optional``: None is
    accepted. ``sensitive``: it is ``Sensitive[T]`` or contains one; ``conceal`` finds what is secret. ``parts`` are the
    types within it: content, elements, key and value, alternatives, or the values of a Struct, whose (key, required)
    pairs are ``fields``. ``low`` and ``high`` limit a number or a size; None: no limit.
    """

    kind: str
    text: str
    accepts: Check
    optional: bool
    sensitive: bool
    check: Check
    parts: tuple[DataType, ...] = ()
    low: float | None = None
    high: float | None = None
    words: tuple[str | bool, ...] = ()
    patterns: tuple[str, ...] = ()
    fields: tuple[tuple[str, bool], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare the canonical texts."""
        return isinstance(other, DataType) and self.text == other.text

    def __ne__(self, other: object) -> bool:
        """Compare the canonical texts."""
        return not self == other

    def __hash__(self) -> int:
        """Hash the canonical text."""
        return hash(self.text)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the same object, because it is immutable."""
        return self

    def __repr__(self) -> str:
        """Show the canonical text."""
        return f"DataType({self.text!r})"

    def accepts_known(self, value: Any) -> bool:
        """Return whether a value that is not known in part may be accepted: all that is known of it fits."""
        if type(value) is Sensitive:
            return self.accepts_known(value.reveal())
        if value is UNKNOWN or not is_unknown(value):
            return value is UNKNOWN or self.accepts(value)
        if self.kind in {"Any", "Data"}:
            return True
        if self.kind in {"Optional", "NotUndef", "Sensitive", "Variant"}:
            return any(part.accepts_known(value) for part in self.parts)
        # Nothing but the sizes and the keys of what holds the unknown part is left to check.
        if type(value) is dict and self.kind in {"Struct", "Hash"}:
            types = self._types_of(value)
            return types is not None and all(kind.accepts_known(value[key]) for key, kind in types.items())
        if type(value) is not list or self.kind not in {"Array", "Tuple"} or not self.has_size(value):
            return False
        return all(kind.accepts_known(item) for kind, item in self.elements(value))

    def _types_of(self, value: dict[Any, Any]) -> dict[Any, DataType] | None:
        """Return the data type of each member of a Struct or Hash; None if its keys do not fit."""
        if self.kind == "Hash":
            fits = self.has_size(value) and all(map(self.parts[0].accepts, value))
            return dict.fromkeys(value, self.parts[1]) if fits else None
        required, members = {key for key, needed in self.fields if needed}, self.members
        fits = required <= value.keys() <= members.keys()
        return {key: members[key] for key in value} if fits else None

    @property
    def members(self) -> dict[str, DataType]:
        """The data types of the values of a Struct, by key."""
        return dict(zip(dict(self.fields), self.parts, strict=True))

    def elements(self, value: list[Any]) -> Iterator[tuple[DataType, Any]]:
        """Return the elements of an Array or a Tuple, each with its data type: the last one repeats."""
        return zip(chain(self.parts, repeat(self.parts[-1])), value, strict=False)

    def has_size(self, value: Any) -> bool:
        """Return whether a collection has neither too few elements nor too many."""
        return (self.low is None or self.low <= len(value)) and (self.high is None or len(value) <= self.high)

    def conceal(self, value: Any) -> Any:
        """Return ``value`` with each part that is secret by this data type wrapped; all of it where that is uncertain.

        What is None, not known or wrapped already is returned as it is.
        """
        if not self.sensitive or value is None or value is UNKNOWN or type(value) is Sensitive:
            return value
        if self.kind in {"Optional", "NotUndef"}:
            return self.parts[0].conceal(value)
        if self.kind == "Struct" and type(value) is dict:
            members = self.members
            return {key: members[key].conceal(v) if key in members else Sensitive(v) for key, v in value.items()}
        if self.kind == "Hash" and type(value) is dict and not self.parts[0].sensitive:
            return {key: self.parts[1].conceal(item) for key, item in value.items()}
        if self.kind in {"Array", "Tuple"} and type(value) is list:
            return [kind.conceal(item) for kind, item in self.elements(value)]
        fitting = [part for part in self.parts if part.accepts(value)] if self.kind == "Variant" else []
        return fitting[0].conceal(value) if len(fitting) == 1 and fitting[0].sensitive else Sensitive(value)

    @property
    def holds_contents(self) -> bool:
        """Whether it is or contains ``Asset`` or ``Archive``."""
        return self.kind in {"Asset", "Archive"} or any(part.holds_contents for part in self.parts)

    @property
    def holds_collections(self) -> bool:
        """Whether it accepts lists or mappings."""
        return any(leaf.kind in _COLLECTIONS for leaf in self.leaves)

    @property
    def has_pattern(self) -> bool:
        """Whether it is or contains a ``Pattern``."""
        return self.kind == "Pattern" or any(part.has_pattern for part in self.parts)

    @property
    def refers_to(self) -> frozenset[str] | None:
        """The types to which a ``Reference`` in it may refer, empty for any type; None if it contains no Reference."""
        if self.kind == "Reference":
            return frozenset(str(word) for word in self.words)
        found = [part.refers_to for part in self.parts if part.refers_to is not None]
        return (frozenset().union(*found) if all(found) else frozenset()) if found else None

    @property
    def unrestricted_types(self) -> frozenset[type]:
        """The Python types of which it accepts every value, so that ``accepts`` need not be called."""
        if self.kind in {"Optional", "Variant"}:
            undef = {type(None)} if self.kind == "Optional" else ()
            return frozenset(undef).union(*(part.unrestricted_types for part in self.parts))
        limited = self.low is not None or self.high is not None or len(self.words) == 1
        return frozenset() if limited else _UNRESTRICTED.get(self.kind, frozenset())

    @property
    def branches(self) -> tuple[DataType, ...]:
        """The alternatives of a Variant or Optional, flattened; any other type is its only one."""
        if self.kind not in {"Optional", "Variant"}:
            return (self,)
        undef = (UNDEF,) if self.kind == "Optional" else ()
        return tuple(dict.fromkeys([*undef, *(branch for part in self.parts for branch in part.branches)]))

    @property
    def leaves(self) -> tuple[DataType, ...]:
        """The alternatives, also those within NotUndef and Sensitive."""
        return tuple(
            leaf
            for branch in self.branches
            for leaf in (branch.parts[0].leaves if branch.kind in {"NotUndef", "Sensitive"} else (branch,))
        )


def make(kind: str, check: Check, arguments: list[str], **facts: Any) -> DataType:
    """Return the type ``kind[arguments]`` that accepts what ``check`` does; ``facts`` are fields of ``DataType``."""
    parts: tuple[DataType, ...] = facts.get("parts", ())
    secret = kind == "Sensitive" or any(part.sensitive for part in parts)
    text = f"{kind}[{', '.join(arguments)}]" if arguments else kind
    accepts = predicates.ignoring_wrappers(check)
    return DataType(kind, text, accepts, check(None), secret, check, **facts)


ANY: Final = make("Any", predicates.is_json, [])
UNDEF: Final = make("Undef", predicates.absent, [])
STRING: Final = make("String", predicates.string(None, None), [])
