"""Records in state, with everything that is needed to delete a resource without its manifest; stacks, and commits."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.values.reference import Reference, child_reference, instance_name
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.model.values.values import Values

#: The identity of a record: type and configured provider, canonical name.
RecordKey = tuple[str, Any]


#: The actions after which a resource is owned.
OWNING_ACTIONS: Final = frozenset({Action.CREATE, Action.REPLACE, Action.IMPORT, Action.RUN})

#: The statuses of a record. ready; tainted: to be replaced; partial: a run failed to change all of it; unconfirmed:
#: its creation was reported, and it could not be seen; pending: deleted, and its replacement is not created yet;
#: replaced: its replacement exists, and it is to be deleted.
STATUSES: Final = ("ready", "tainted", "partial", "unconfirmed", "pending", "replaced")


class OrphanKind(Enum):
    """The reason why a resource is an orphan: no entry of a catalog has its record."""

    #: Nothing declares it any more, and the run prunes.
    UNDECLARED = auto()
    #: It is listed under ``removed:``.
    REMOVED = auto()
    #: Another resource has replaced it.
    SUPERSEDED = auto()
    #: An interrupted replacement has deleted it, and nothing declares the new one any more.
    INTERRUPTED = auto()
    #: It was found under the new configuration of its provider.
    RECONFIGURED = auto()
    #: Its type lists it, nothing declares it, and ``purge`` names the type (contract §10.7). It may be unrecorded.
    PURGED = auto()


class RecordedLifecycle(NamedTuple):
    """The lifecycle options that still hold when the resource is not declared any more."""

    protect: bool = False
    retain: bool = False
    replace: str | None = None
    deleted_with: str | None = None
    external: bool = False


#: The lifecycle of a resource that is declared without options.
NO_LIFECYCLE: Final = RecordedLifecycle()


class Record(NamedTuple):
    """One recorded resource of one stack."""

    type: str
    name: Name
    title: str
    #: Values as written in the manifest, references resolved.
    inputs: Values
    #: Canonical values that were asked for.
    should: Values
    #: Values as last read; None: the resource did not exist.
    is_: Values | None
    #: Whether this stack created or imported it. Only then may it be deleted when it is not declared any more.
    owned: bool = False
    #: References of the resources that it directly depends on.
    requires: Sequence[str] = ()
    #: Attribute → references of the resources from which its value was computed.
    value_requires: Mapping[str, Sequence[str]] = {}
    lifecycle: RecordedLifecycle = NO_LIFECYCLE
    #: Name of the configured provider; None: the default one of its type.
    provider: str | None = None
    schema_version: int = 1
    #: One of ``STATUSES``.
    status: str = "ready"
    #: Reference of the component that declared it; empty: none.
    parent: str = ""
    #: Time (ISO 8601) of the last ``set`` or refresh of an imperative resource; ``status`` says whether it failed.
    last_run: str = ""
    #: The type's provider that manages it; None if the type has only one.
    implementation: str | None = None
    #: Reference of the resource that replaced it, until this one is deleted, or "".
    successor: str = ""
    #: The time (ISO 8601) of its last change if a change may take time to become visible, or "".
    changed_at: str = ""
    #: The provider's private data, its secrets sealed; None: it has stored none.
    private: object = None

    @property
    def instance(self) -> str:
        """The configured provider that manages it, as ``vm_host@lab``."""
        return instance_name(self.type, self.provider)

    @property
    def key(self) -> RecordKey:
        """The identity by which the record is stored."""
        return self.type if self.provider is None else self.instance, self.name

    @property
    def is_replaced(self) -> bool:
        """Whether another resource has replaced it and the run ended before this one was deleted."""
        return self.status == "replaced"

    @property
    def prune_effect(self) -> str:
        """The effect of ``--prune`` if it is not declared: ``deletes`` or ``forgets``."""
        # The effects of an imperative resource cannot be undone.
        return "deletes" if self.owned and not (self.lifecycle.retain or self.last_run) else "forgets"

    @property
    def reference(self) -> Reference:
        """The user's name of the resource."""
        return child_reference(self.parent, self.type, self.title)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, those of ``lifecycle`` among them, as one flat mapping for exported documents."""
        document: dict[str, object] = {}
        for field, value in self._asdict().items():
            document |= value._asdict() if field == "lifecycle" else {field: value}
        return document

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Record:
        """Return the record that ``to_dict`` made ``values`` of; other keys are ignored."""
        lifecycle = RecordedLifecycle(**{field: values[field] for field in RecordedLifecycle._fields})
        return cls(**{field: values[field] for field in cls._fields if field != "lifecycle"}, lifecycle=lifecycle)


class Intent(NamedTuple):
    """A change that was about to be made and whose outcome is not recorded yet."""

    run: str
    type: str
    name: Name
    title: str
    action: str
    provider: str | None = None
    #: Whether the resource to be created is declared with ``protect``.
    protect: bool = False
    #: The reference of the component that declares it.
    parent: str = ""
    #: The time (ISO 8601) of the change if it may take time to become visible, or "".
    changed_at: str = ""

    @property
    def reference(self) -> Reference:
        """The user's name of the resource."""
        return child_reference(self.parent, self.type, self.title)

    @property
    def key(self) -> RecordKey:
        """The identity of the resource."""
        return self.type if self.provider is None else instance_name(self.type, self.provider), self.name

    @property
    def makes(self) -> bool:
        """Whether its success would have made the resource owned."""
        return self.action in OWNING_ACTIONS


class StackState(NamedTuple):
    """The recorded state of one stack as of ``serial``; records are in the order in which they were created."""

    project: str
    stack: str
    lineage: str = ""
    serial: int = 0
    manifest: str = ""
    #: The key of the digests of secrets, which makes digests of different states incomparable.
    salt: bytes = b""
    records: Mapping[RecordKey, Record] = {}
    #: Refreshes that are due because of a change and have not succeeded yet: target → references of the sources.
    owed: Mapping[RecordKey, Sequence[str]] = {}
    intents: Mapping[RecordKey, Intent] = {}
    outputs: Mapping[str, object] = {}
    #: Whether secrets are stored as ciphertext; otherwise only their digests are.
    encrypted: bool = False
    #: The machine whose run wrote it last, or "".
    machine: str = ""

    def __repr__(self) -> str:
        """Show the name, the serial and the number of records."""
        return f"<StackState {self.project}/{self.stack}: serial {self.serial}, {len(self.records)} records>"


class Commit(NamedTuple):
    """The content of one commit, which is atomic."""

    #: The records to write and to delete.
    put: Sequence[Record] = ()
    drop: Sequence[RecordKey] = ()
    #: The keys of intents whose outcome is known.
    resolved: Sequence[RecordKey] = ()
    #: Refreshes to record as due, as in ``StackState``, and the targets of those that have succeeded.
    owed: Mapping[RecordKey, Sequence[str]] = {}
    paid: Sequence[RecordKey] = ()
    outputs: Values | None = None
    manifest: str | None = None
    machine: str | None = None

    @property
    def changes_state(self) -> bool:
        """Whether it writes more than resolved intents, which alone do not raise the serial."""
        values = self.outputs, self.manifest, self.machine
        return bool(self.put or self.drop or self.owed or self.paid) or values != (None, None, None)
