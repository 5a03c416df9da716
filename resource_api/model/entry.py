"""One resource of a catalog: what is declared of it, canonical, and how it relates to others.

Tens of thousands of them live at once, so they are slotted and share what is empty. How they are made is the
catalog's business; they are not changed once it is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import exists
from resource_api.model.declaration import RELATIONSHIPS
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, capitalize_type, child_reference, split_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.declaration import Declaration
    from resource_api.model.type_definition import Name, TypeDefinition


class Lifecycle(NamedTuple):
    """How a resource may be replaced, deleted, and told apart from others."""

    #: None: not said; what was recorded holds.
    protect: bool | None = None
    retain: bool = False
    owned: bool | None = None
    ignore_changes: Sequence[str] = ()
    replace: str | None = None
    replace_on_changes: Sequence[str] = ()
    replace_triggered_by: Sequence[str] = ()
    deleted_with: str | None = None
    aliases: Sequence[str] = ()
    import_: str | None = None
    external: bool = False


class Meta(NamedTuple):
    """The metaparameters of one resource, relationships aside."""

    noop: bool | None = None
    loglevel: str = "notice"
    tags: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    provider: str | None = None
    timeout: float | Mapping[str, float] | None = None
    lifecycle: Lifecycle = Lifecycle()


NO_META: Final = Meta()
EMPTY: Final[Mapping[str, Any]] = {}


def make_meta(raw: Mapping[str, Any]) -> Meta:
    """Give the metaparameters of a declaration, their shapes already checked; the same for all that have none."""
    if raw.keys() <= RELATIONSHIPS:
        return NO_META
    lifecycle = dict(raw.get("lifecycle") or {})
    if "import" in lifecycle:
        lifecycle["import_"] = lifecycle.pop("import")
    return Meta(
        noop=raw.get("noop"),
        loglevel=raw.get("loglevel") or "notice",
        tags=frozenset(tag.lower() for tag in _list(raw.get("tag"))),
        aliases=tuple(_list(raw.get("alias"))),
        provider=raw.get("provider"),
        timeout=raw.get("timeout"),
        lifecycle=Lifecycle(**{key: value for key, value in lifecycle.items() if value is not None}),
    )


def _list(value: str | Sequence[str] | None) -> Sequence[str]:
    return [] if value is None else [value] if isinstance(value, str) else value


class Entry:
    """One resource: ``should`` is canonical and holds ``UNKNOWN`` for what only doing an earlier step will yield."""

    __slots__ = (
        "declaration",
        "definition",
        "index",
        "meta",
        "name",
        "pending",
        "should",
        "sources",
        "title",
        "written",
    )

    def __init__(self, declaration: Declaration, definition: TypeDefinition) -> None:
        """Begin an entry of which only the declaration is known."""
        self.declaration = declaration
        self.definition = definition
        self.title = declaration.title
        #: Where it stands: among what is declared, and when the order of execution is known, in that.
        self.index = -1
        self.name: Name = declaration.title
        self.should: dict[str, Any] = {}
        #: Values as written: attribute → value; or the names alone of those that ``should`` has just as written.
        self.written: dict[str, Any] | tuple[str, ...] = ()
        #: Values that refer to what other resources will have: attribute → value with expressions in it.
        self.pending: Mapping[str, Any] = EMPTY
        #: Whose values an attribute was made of, known or not: attribute → those resources.
        self.sources: Mapping[str, Sequence[Entry]] = EMPTY
        self.meta = NO_META

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Values as written, references to inputs, values and facts resolved: attribute → value."""
        # What is declared as null is nothing that should be: it is not found, and null again.
        spelt = self.written
        return spelt if type(spelt) is dict else {name: self.should.get(name) for name in spelt}

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.definition.name

    @property
    def instance(self) -> str:
        """The configured provider that answers for it, as ``vm_host@lab``; the type's name for the default one."""
        return self.definition.instance

    @property
    def provider(self) -> str | None:
        """The configured provider that it is of, None for its type's default one."""
        return split_instance(self.definition.instance)[1]

    @property
    def key(self) -> tuple[str, Name]:
        """Its identity: type, configured provider, and canonical name."""
        return self.definition.instance, self.name

    @property
    def parent(self) -> str:
        """The reference of the component that has made it; empty where none has."""
        return self.declaration.parent

    @property
    def reference(self) -> Reference:
        """The user's name for it."""
        parent = self.declaration.parent
        return (
            child_reference(parent, self.definition.name, self.title)
            if parent
            else Reference(self.definition.name, self.title)
        )

    @property
    def reference_text(self) -> str:
        """Its reference as text."""
        parent, name = self.declaration.parent, self.definition.name
        return str(child_reference(parent, name, self.title)) if parent else f"{capitalize_type(name)}[{self.title}]"

    @property
    def own_names(self) -> set[str]:
        """What its own name is: its title, and the value of its only namevar, canonical and as written."""
        namevars = self.definition.namevars
        only = (self.name, self.inputs.get(namevars[0])) if len(namevars) == 1 else ()
        return {self.title, *map(str, only)}

    @property
    def absent(self) -> bool:
        """Whether it is declared to be absent."""
        return not exists(self.should)

    def __repr__(self) -> str:
        """Show the reference."""
        return f"Entry({self.reference})"
