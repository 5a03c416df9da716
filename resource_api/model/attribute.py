"""One attribute of a type: its data type, what it means, its kind, its default.

An attribute does not know its name, so it is checked by the definition that holds it, with ``problems`` here. What
spans several attributes belongs to ``definition``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.datatypes import build as datatypes
from resource_api.model.declaration import METAPARAMETERS, MISSING
from resource_api.model.values.errors import DataTypeError, nearest
from resource_api.model.values.reference import TYPE_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Never

    from resource_api.model.datatypes.build import DataType

Kind = Literal["namevar", "init_only", "read_only", "parameter"]
KINDS: Final = ("namevar", "init_only", "read_only", "parameter")
RESERVED: Final = METAPARAMETERS | {"title", "audit", "consume", "export", "schedule", "stage"}
KEYWORDS: Final = ("type", "docs", "kind", "default", "write_only", "derived_from")
_RENAMED: Final = {"desc": "docs", "behaviour": "kind", "behavior": "kind"}


class Attribute:
    """One attribute of a type: its data type, what it means, and its kind.

    Nothing is checked here, because an attribute does not know its name: the ``TypeDefinition`` that holds it does.
    """

    __slots__ = ("datatype", "default", "derived_from", "docs", "kind", "type", "unknown", "write_only")

    datatype: DataType

    def __init__(
        self,
        type: str,  # noqa: A002 - the Puppet Resource API's word
        docs: str = "",
        *,
        kind: Kind | None = None,
        default: Any = MISSING,
        write_only: bool = False,
        derived_from: str = "",
        **unknown: Never,
    ) -> None:
        """Declare an attribute of data type ``type``; without ``kind`` it is a property.

        ``derived_from``: the attribute that tells this ``read_only`` one, so that it is as secret as that one is.
        """
        self.type = type
        self.docs = docs
        self.kind = kind
        self.default = default
        self.write_only = write_only
        self.derived_from = derived_from
        self.unknown: Mapping[str, object] = unknown

    def fresh_default(self) -> Any:
        """Give a copy of the default, so that no resource shares it with another."""
        default = self.default
        return deepcopy(default) if isinstance(default, (list, dict)) else default

    @property
    def has_default(self) -> bool:
        """Whether a value is filled in where none is given."""
        return self.default is not MISSING

    @property
    def mandatory(self) -> bool:
        """Whether a manifest must give it (namevars come from the title, read_only is never given)."""
        return not (self.kind in {"namevar", "read_only"} or self.datatype.optional or self.default is not MISSING)

    def __repr__(self) -> str:
        """Show what was declared."""
        kind = f", kind={self.kind!r}" if self.kind else ""
        return f"Attribute({self.type!r}{kind})"


def hint(word: object, known: Iterable[str]) -> str:
    """Give ``; did you mean ...`` or nothing."""
    found = nearest(str(word), known)
    return f"; {found}" if found else ""


def unknown_keywords(unknown: Mapping[str, object], known: Iterable[str]) -> list[str]:
    """Name each keyword that a declaration does not have."""
    return [
        f"'{word}' is not a keyword here, write '{_RENAMED[word]}'"
        if word in _RENAMED
        else f"unknown keyword '{word}'{hint(word, known)}"
        for word in unknown
    ]


def problems(name: object, attribute: object, reserved: Collection[str] = RESERVED) -> list[str]:
    """Give what is wrong with an attribute called ``name``; its data type is parsed on the way.

    ``reserved`` are names that mean something else where it stands.
    """
    if not isinstance(attribute, Attribute):
        return [f"must be an Attribute(...), not {type(attribute).__name__}"]
    found = unknown_keywords(attribute.unknown, KEYWORDS)
    if not isinstance(name, str) or not TYPE_NAME.match(name):
        found.append("the name must be lower case letters, digits and underscores")
    if name in reserved:
        found.append("the name is reserved; a type must not define it")
    if attribute.kind is not None and attribute.kind not in KINDS:
        found.append(f"'{attribute.kind}' is not a kind{hint(attribute.kind, KINDS)}; one of {', '.join(KINDS)}")
    if attribute.write_only and attribute.kind is not None:
        found.append(f"only a property can be write_only, not a {attribute.kind}")
    if attribute.derived_from and attribute.kind != "read_only":
        found.append("only a read_only attribute is derived_from another")
    if name == "ensure" and attribute.kind is not None:
        found.append("ensure must be a property")
    try:
        attribute.datatype = datatypes.parse(attribute.type)
    except (DataTypeError, TypeError) as error:
        return [*found, f"data type {attribute.type!r}: {error}"]
    return [*found, *_value_problems(attribute)]


def _value_problems(attribute: Attribute) -> list[str]:
    """Check the default, and that an identity is no secret."""
    found: list[str] = []
    if attribute.kind == "namevar" and attribute.datatype.sensitive:
        found.append("a namevar cannot be sensitive; it is shown in every message")
    if attribute.default is MISSING:
        return found
    if attribute.kind == "read_only":
        found.append("a read_only attribute cannot have a default; it is never set")
    elif not attribute.datatype.accepts(attribute.default):
        shown = "given" if attribute.datatype.sensitive else repr(attribute.default)
        found.append(f"the default {shown} is not of its data type {attribute.type}")
    return found
