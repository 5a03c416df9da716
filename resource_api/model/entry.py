"""One resource of a catalog, its canonical declared state and its references to resources; one use of a component.

Tens of thousands exist at once, so entries have slots and share empty values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.change import exists
from resource_api.model.values.reference import Reference, capitalize_type, child_reference, split_instance
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import as_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.declaration import Declaration
    from resource_api.model.record import Record
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.document import Document
    from resource_api.model.values.values import Values


#: The longest time limit that is enforced, ten years in seconds: timers of the system do not accept any number.
LONGEST: Final = 315_360_000


class Lifecycle(NamedTuple):
    """The ``lifecycle`` metaparameter: how a resource may be replaced, deleted, and matched to its record."""

    #: None: not declared; the recorded value holds.
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

    @property
    def allows_replacement(self) -> bool:
        """Whether ``replace`` allows to replace the resource where that is needed."""
        return self.replace in {"delete_first", "create_first"}


class RetryPolicy(NamedTuple):
    """The ``retry`` metaparameter: how often a change is tried, and the seconds between two tries (contract §10.8)."""

    tries: int
    delay: float = 0


class Meta(NamedTuple):
    """The metaparameters of one resource, without relationships."""

    noop: bool | None = None
    loglevel: str = "notice"
    tags: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    provider: str | None = None
    implementation: str | None = None
    #: In seconds, or operation → seconds; None: the type's.
    timeout: float | Mapping[str, float] | None = None
    lifecycle: Lifecycle = Lifecycle()
    #: None: a failed change is repeated only where it shared its call (contract §4).
    retry: RetryPolicy | None = None
    #: The references of the resources and components of which one must have failed in the run (contract §10.8).
    on_failure: tuple[str, ...] = ()


NO_META: Final = Meta()
EMPTY: Final[Values] = {}


def make_meta(raw: Mapping[str, Any]) -> Meta:
    """Return the checked metaparameters of a declaration as fields, without relationships, which the catalog resolves.

    Most declarations have at most relationships, and share ``NO_META``, which saves memory and time.
    """
    if raw.keys() <= RELATIONSHIPS and "on_failure" not in raw:
        return NO_META
    lifecycle, retry = dict(raw.get("lifecycle") or {}), raw.get("retry")
    if "import" in lifecycle:
        lifecycle["import_"] = lifecycle.pop("import")
    return Meta(
        noop=raw.get("noop"),
        loglevel=raw.get("loglevel") or "notice",
        tags=frozenset(tag.lower() for tag in as_list(raw.get("tag"))),
        aliases=tuple(as_list(raw.get("alias"))),
        provider=raw.get("provider"),
        implementation=raw.get("implementation"),
        timeout=raw.get("timeout"),
        lifecycle=Lifecycle(**{key: value for key, value in lifecycle.items() if value is not None}),
        retry=None if retry is None else RetryPolicy(retry["tries"], retry.get("delay") or 0),
        on_failure=tuple(as_list(raw.get("on_failure"))),
    )


class Entry:
    """One resource; values of ``should`` are canonical, or ``UNKNOWN`` until an earlier step is done."""

    __slots__ = (
        "declaration",
        "definition",
        "ephemeral",
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
        """Make an entry of which only the declaration is known; the compiler sets the other fields step by step."""
        self.declaration = declaration
        self.definition = definition
        self.title = declaration.title
        #: Its index: first in the order of declaration, then in the order of execution.
        self.index = -1
        self.name: Name = declaration.title
        self.should: dict[str, object] = {}
        #: Attribute → value as written; or a tuple of attributes, whose written values equal those in ``should``.
        self.written: dict[str, object] | tuple[str, ...] = ()
        #: Attribute → value with expressions that refer to other resources.
        self.pending: Values = EMPTY
        #: Attribute → the resources from which its value is computed, known or not.
        self.sources: Mapping[str, Sequence[Entry]] = EMPTY
        #: The attributes whose values are made from ephemeral inputs: nothing of them is recorded.
        self.ephemeral: Sequence[str] = ()
        self.meta = NO_META

    @property
    def inputs(self) -> Values:
        """Attribute → value as written, not canonical, with references to inputs, values and facts resolved."""
        # An attribute that is declared as null is missing in ``should``.
        spelt = self.written
        return spelt if type(spelt) is dict else {name: self.should.get(name) for name in spelt}

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.definition.name

    @property
    def instance(self) -> str:
        """The provider that manages it: ``vm_host@lab``, or the type's name for the default provider."""
        return self.definition.instance

    @property
    def provider(self) -> str | None:
        """The name of its configured provider; None for the default provider of its type."""
        return split_instance(self.definition.instance)[1]

    @property
    def key(self) -> tuple[str, Name]:
        """Its identity: type and configured provider, canonical name."""
        return self.definition.instance, self.name

    @property
    def can_be_adopted(self) -> bool:
        """Whether a run adopts it if it exists already: records it as managed, but not as created by us.

        A resource is not adopted if its ``lifecycle`` (``owned``, ``import`` or ``external``) determines the ownership,
        or if its type does not accept ``ensure: absent``, so that it is never created.
        """
        lifecycle = self.meta.lifecycle
        stated = lifecycle.owned is not None or lifecycle.import_ is not None or lifecycle.external
        return self.definition.ensurable and not stated

    @property
    def parent(self) -> str:
        """The reference of the component that declares it; empty if none does."""
        return self.declaration.parent

    @property
    def has_timeout(self) -> bool:
        """Whether some operation on it has a time limit."""
        return bool(self.definition.timeout if self.meta.timeout is None else self.meta.timeout)

    def timeout(self, operation: str) -> float | None:
        """Return the time limit of an operation in seconds, declared or else of its type; None: no limit.

        A declared 0 means no limit, too, so that a manifest can lift the limit of a type.
        """
        for declared in (self.meta.timeout, self.definition.timeout):
            seconds = declared.get(operation) if isinstance(declared, dict) else declared
            if seconds is not None:
                return float(min(seconds, LONGEST)) or None  # type: ignore[arg-type, type-var] # a mapping is a dict
        return None

    def is_protected(self, record: Record | None) -> bool:
        """Return whether it must not be deleted: as declared; without a declaration, as recorded."""
        declared = self.meta.lifecycle.protect
        return bool(record is not None and record.lifecycle.protect) if declared is None else declared

    @property
    def reference(self) -> Reference:
        """The user's name of it."""
        return child_reference(self.declaration.parent, self.definition.name, self.title)

    @property
    def reference_text(self) -> str:
        """The text of its reference."""
        parent, name = self.declaration.parent, self.definition.name
        return str(child_reference(parent, name, self.title)) if parent else f"{capitalize_type(name)}[{self.title}]"

    @property
    def own_names(self) -> set[str]:
        """The texts that certainly name this resource, to compare them with the name of an import.

        They are its title, its only namevar as written in the manifest, and the title made of its canonical name: these
        three may differ in their spelling.
        """
        namevars = self.definition.namevars
        written = (self.inputs.get(namevars[0]),) if len(namevars) == 1 else ()
        return {self.title, *map(str, written), self.definition.title_of(self.definition.absent_row(self.name))}

    @property
    def absent(self) -> bool:
        """Whether it is declared with ``ensure: absent``."""
        return not exists(self.should)

    def __repr__(self) -> str:
        """Show the reference."""
        return f"Entry({self.reference})"


class ComponentInstance:
    """A declared component; ``members`` are its resources, including the resources of components within it."""

    __slots__ = ("declaration", "document", "inputs", "members", "meta", "outputs", "title")

    def __init__(self, declaration: Declaration) -> None:
        """Make an instance without members; the compiler adds these when it has built the component."""
        self.declaration = declaration
        self.title = declaration.title
        self.meta: Meta = make_meta(declaration.meta)
        self.members: Sequence[Entry] = ()
        self.inputs: Values = {}
        self.outputs: Values = {}
        #: What it declares, with the positions in its own file; None before it is built.
        self.document: Document | None = None

    @property
    def type(self) -> str:
        """The component's name."""
        return self.declaration.type

    @property
    def parent(self) -> str:
        """The reference of the component that declares it; empty if none does."""
        return self.declaration.parent

    @property
    def reference(self) -> Reference:
        """The user's name of it."""
        return child_reference(self.declaration.parent, self.declaration.type, self.title)

    def __repr__(self) -> str:
        """Show the reference."""
        return f"ComponentInstance({self.reference})"
