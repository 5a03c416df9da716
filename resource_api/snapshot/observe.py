"""Read what a plan needs, in one batch per type, and answer the planner's questions from what was read.

The selected resources are read, those that their values refer to, and those that they may replace. Nothing is decided
here.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import exists
from resource_api.model.planner_queries import Observation
from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import with_path
from resource_api.model.values.values import same_value
from resource_api.snapshot.configure_providers import DeferredInstances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.planner_queries import Due, PlannerQueries, Readiness
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import RecordKey
    from resource_api.model.type_definition import FunctionCall, Name, TypeDefinition
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.prior.match import Prior
    from resource_api.snapshot.snapshot import Snapshot


#: The observation of a resource that cannot be read yet: it neither exists nor is absent.
_UNREAD: Final = Observation(None, "its provider is not configured yet")


def observe(catalog: Catalog, prior: Prior, selected: set[int] | None, snapshot: Snapshot) -> PlannerQueries:
    """Read what a plan of the ``selected`` entries (indexes; None: all) needs; return what answers the planner."""
    queries = _SnapshotQueries(snapshot, DeferredInstances(catalog.instances, prior.instances, snapshot.providers))
    queries.late = _late_changes(prior)
    queries.read(_names_to_read(catalog, prior, selected))
    return queries


class _SnapshotQueries:
    """Implements ``PlannerQueries`` with a snapshot and its providers."""

    def __init__(self, snapshot: Snapshot, deferred: DeferredInstances) -> None:
        self._snapshot = snapshot
        self._deferred = deferred
        #: By instance, the type and the names that cannot be read yet.
        self._unread: dict[str, tuple[TypeDefinition, Collection[Name]]] = {}
        #: The resources that earlier runs have changed, and that may be seen late.
        self.late: Mapping[RecordKey, _LateChange] = {}
        self.functions: Callable[[str], ProviderFunctions] = snapshot.providers.functions

    def read(self, names: Mapping[TypeDefinition, Collection[Name]]) -> None:
        """Read the resources of every instance that is configured; keep the others for ``readiness``."""
        for definition, of_type in names.items():
            if self._deferred.contains(definition.instance):
                self._unread[definition.instance] = definition, of_type
            else:
                self._read(definition, of_type)

    def _read(self, definition: TypeDefinition, names: Collection[Name]) -> None:
        """Read names of a type; those that an earlier run has changed until that is visible, or must be."""
        self._snapshot.read_all([(definition, names)])
        late = [name for name in names if (definition.instance, name) in self.late] if self.late else ()
        if late and (settle := self._snapshot.providers.settle(definition)):
            from resource_api.snapshot import settling

            seconds = settling.remaining_seconds(max(self.late[definition.instance, name].at for name in late), settle)
            settling.read_until_settled(self._snapshot, definition, partial(self._unsettled, definition, late), seconds)

    def _unsettled(self, definition: TypeDefinition, names: Collection[Name]) -> list[Name]:
        """Return the names that are absent, or not as they were seen after their last change."""
        rows = {name: self._snapshot.observation(definition.instance, name).row for name in names}
        return [name for name, row in rows.items() if not _is_as_recorded(definition, self.late, name, row)]

    def observation(self, entry: Entry, /) -> Observation:
        instance = entry.definition.instance
        if instance in self._unread:
            return _UNREAD
        found = self._snapshot.observation(instance, entry.name)
        if not found.failure or self._snapshot.failure(instance):
            return found
        return Observation(None, with_path(found.failure, entry.title, entry.name))

    def due(self, entry: Entry, should: Mapping[str, Any], /) -> Due:
        return self._snapshot.due(entry, should)

    def readiness(self, instance: str, resolve: Callable[[ExpressionPath], Any], /) -> Readiness:
        readiness = self._deferred.configure(instance, resolve)
        if not readiness.failure and instance in self._unread:
            self._read(*self._unread.pop(instance))
        return readiness

    def call(self, call: FunctionCall, inputs: Mapping[str, Any], /) -> Any:
        from resource_api.catalog.provider_config import invoke
        from resource_api.plugins.functions import call_function

        return invoke(call, inputs, partial(call_function, self._snapshot.providers))


class _LateChange(NamedTuple):
    """The time (ISO 8601) of the last change of a resource, and what was seen after it; None: nothing."""

    at: str
    row: Mapping[str, Any] | None = None


def _is_as_recorded(
    definition: TypeDefinition, late: Mapping[RecordKey, _LateChange], name: Name, row: Mapping[str, Any] | None
) -> bool:
    recorded = late[definition.instance, name].row
    if row is None or recorded is None:
        return exists(row)
    values = ((row.get(attribute), recorded.get(attribute)) for attribute in definition.managed)
    return all(has_sealed(before) or before is None or same_value(value, before) for value, before in values)


def _late_changes(prior: Prior) -> Mapping[RecordKey, _LateChange]:
    """Return the last changes by earlier runs of resources that are seen late."""
    records, intents = prior.state.records.items(), prior.state.intents.items()
    recorded = {key: _LateChange(record.changed_at, record.is_) for key, record in records if record.changed_at}
    intended = {key: _LateChange(intent.changed_at) for key, intent in intents if intent.makes and intent.changed_at}
    return recorded | intended


def _names_to_read(catalog: Catalog, prior: Prior, selected: set[int] | None) -> dict[TypeDefinition, list[Name]]:
    indexes = range(len(catalog.entries)) if selected is None else _with_referred(catalog, selected)
    names: defaultdict[TypeDefinition, dict[Name, None]] = defaultdict(dict)
    for index in indexes:
        entry = catalog.entries[index]
        if entry.instance not in catalog.missing:
            names[entry.definition][entry.name] = None
    for index, record in prior.predecessors.items():
        definition = catalog.entries[index].definition
        if record.instance == definition.instance:
            names[definition][record.name] = None
    by_instance = {definition.instance: of_type for definition, of_type in names.items()}
    for instance, name in prior.moved_keys:
        if instance in by_instance:
            by_instance[instance][name] = None
    return {definition: list(of_type) for definition, of_type in names.items()}


def _with_referred(catalog: Catalog, selected: set[int]) -> list[int]:
    """Return the selected entries and those that their values, or their providers' configuration, may refer to."""
    referred = {
        before
        for index in selected
        if catalog.entries[index].pending or catalog.entries[index].instance in catalog.instances
        for before in catalog.requires.get(index, ())
    }
    return sorted(selected | referred)
