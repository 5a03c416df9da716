"""One data type as a value: what it accepts, what it is made of, and how a message names it.

It is made by reading an expression (``datatypes``), never by hand; how expressions are written is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import predicates as acceptance
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from typing import Self

    from resource_api.model.datatypes.predicates import Check

_BY_MATCH: Final = frozenset({"Enum", "Pattern"})
_CONTAINERS: Final = frozenset({"Array", "Hash", "Struct", "Tuple"})
_UNRESTRICTED: Final[dict[str, frozenset[type]]] = {
    "String": frozenset({str}),
    "Integer": frozenset({int}),
    "Boolean": frozenset({bool}),
    "Undef": frozenset({type(None)}),
}


class DataType(NamedTuple):
    """A data type; two are equal when their canonical ``text`` is.

    ``accepts`` is the fast path, a plain callable. ``optional``: None is accepted. ``sensitive``: it is
    ``Sensitive[T]``, or holds one: then the whole value is a secret. ``check`` is ``accepts`` for values without
    wrappers.
    ``parts`` are the types within: the content, the elements, key and value, the branches, or a Struct's values, to
    which ``fields`` gives (key, whether it must be there). ``low`` and ``high`` limit a number or a size (None: not).
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
        """Stay the one value: nothing in it can change."""
        return self

    def __repr__(self) -> str:
        """Show the canonical text."""
        return f"DataType({self.text!r})"

    @property
    def holds_contents(self) -> bool:
        """Whether it, or a type within it, is ``Asset`` or ``Archive``."""
        return self.kind in {"Asset", "Archive"} or any(part.holds_contents for part in self.parts)

    @property
    def refers_to(self) -> frozenset[str] | None:
        """The types that a ``Reference`` in it may lead to, empty for any; None when there is no such type in it."""
        if self.kind == "Reference":
            return frozenset(str(word) for word in self.words)
        found = [part.refers_to for part in self.parts if part.refers_to is not None]
        return (frozenset().union(*found) if all(found) else frozenset()) if found else None

    @property
    def unrestricted_types(self) -> frozenset[type]:
        """The kinds of value of which it accepts every one: those need no call of ``accepts``."""
        if self.kind in {"Optional", "Variant"}:
            undef = {type(None)} if self.kind == "Optional" else ()
            return frozenset(undef).union(*(part.unrestricted_types for part in self.parts))
        limited = self.low is not None or self.high is not None or len(self.words) == 1
        return frozenset() if limited else _UNRESTRICTED.get(self.kind, frozenset())

    @property
    def branches(self) -> tuple[DataType, ...]:
        """The alternatives of a Variant or an Optional, nested ones spread out; any other type is its only one."""
        if self.kind not in {"Optional", "Variant"}:
            return (self,)
        undef = (UNDEF,) if self.kind == "Optional" else ()
        return tuple(dict.fromkeys([*undef, *(branch for part in self.parts for branch in part.branches)]))

    @property
    def expected(self) -> str:
        """What a value has to be, as messages say it behind ``expects`` (wording of Puppet's type checker)."""
        branches = self.branches
        if len(branches) == 1:
            return _expected(branches[0])
        spelt = [branch.text for branch in branches]
        if all(branch.kind in _BY_MATCH or branch is UNDEF for branch in branches):
            undef = ["an undef value"] if "Undef" in spelt else []
            return " or ".join([*undef, f"a match for {_any_of([text for text in spelt if text != 'Undef'])}"])
        return f"a value of type {_any_of(spelt)}"


def _expected(datatype: DataType) -> str:
    if datatype.kind in _BY_MATCH:
        return f"a match for {datatype.text}"
    text = datatype.kind if datatype.kind in _CONTAINERS else datatype.text
    return f"{'an' if text[0] in 'AEIOU' else 'a'} {text} value"


def _any_of(texts: list[str]) -> str:
    return " or ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])}, or {texts[-1]}"  # noqa: PLR2004 - English


def make(kind: str, check: Check, arguments: list[str], **facts: Any) -> DataType:
    """Make the type ``kind[arguments]`` that accepts what ``check`` does; ``facts`` are fields of ``DataType``."""
    parts: tuple[DataType, ...] = facts.get("parts", ())
    secret = kind == "Sensitive" or any(part.sensitive for part in parts)
    text = f"{kind}[{', '.join(arguments)}]" if arguments else kind
    accepts = acceptance.through_wrappers(check)
    return DataType(kind, text, accepts, check(None), secret, check, **facts)


ANY: Final = make("Any", acceptance.data, [])
UNDEF: Final = make("Undef", acceptance.absent, [])
STRING: Final = make("String", acceptance.string(None, None), [])
