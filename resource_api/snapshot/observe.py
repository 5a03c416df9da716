"""Observe: read the rows that a plan needs, once they had time to become visible, and configure provider instances.

Instances whose configuration is known are configured at once, the others when it becomes known: their resources are
planned later, like those of a type that cannot be read yet.
"""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime
from functools import cached_property, partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.provider_config import invoke
from resource_api.model.change import exists
from resource_api.model.provider_functions import Observation, Readiness
from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values.reference import with_path
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import same_value
from resource_api.prior.provider_instances import (
    ConfigurationError,
    deferred_configuration,
    match_instances,
    provider_record,
    provider_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import ProviderInstance
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Due, PlannerQueries, ProviderFunctions
    from resource_api.model.record import RecordKey, StackState
    from resource_api.model.type_definition import FunctionCall, Name, TypeDefinition
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.model.values.values import Values
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.prior.match import Prior
    from resource_api.prior.provider_instances import ProviderInstances
    from resource_api.snapshot.batched_get import Snapshot

#: The observation of a resource that cannot be read yet: it neither exists nor is absent.
_UNREAD: Final = Observation(None, "its provider is not configured yet")


def observe(catalog: Catalog, prior: Prior, selected: set[int] | None, snapshot: Snapshot) -> PlannerQueries:
    """Read the rows for a plan of the ``selected`` entries (indexes; None: all), in one call of ``get`` per type.

    Return the object that answers the planner's questions from them, so that the planner itself reads nothing.
    """
    deferred = DeferredInstances(catalog.instances, prior.instances, snapshot.providers)
    queries = _SnapshotQueries(snapshot, deferred, prior.state)
    queries.read(_names_to_read(catalog, prior, selected))
    return queries


class _SnapshotQueries:
    """Implements ``PlannerQueries`` with a snapshot and its providers."""

    def __init__(self, snapshot: Snapshot, deferred: DeferredInstances, state: StackState) -> None:
        """Read nothing yet; ``deferred``: the provider instances that can be configured only later in the run."""
        self._snapshot = snapshot
        self._deferred = deferred
        self._state = state
        #: By instance, the type and the names that cannot be read yet.
        self._unread: dict[str, tuple[TypeDefinition, Collection[Name]]] = {}
        self.functions: Callable[[str], ProviderFunctions] = snapshot.providers.functions

    def read(self, names: Mapping[TypeDefinition, Collection[Name]]) -> None:
        """Read the resources (type → names) of every configured instance; ``readiness`` reads the others later."""
        for definition, of_type in names.items():
            if self._deferred.contains(definition.instance):
                self._unread[definition.instance] = definition, of_type
            else:
                self._read(definition, of_type)

    @cached_property
    def _late(self) -> Mapping[RecordKey, _LateChange]:
        """Key → the last change by an earlier run, which rows of a type with ``settle`` may not show yet.

        Most changes are in records; a creation that was cut short has only an intent. A ``pending`` record, of a
        resource that was deleted for its replacement, is left out, because its run has seen the deletion.
        """
        late = {}
        for key, record in self._state.records.items():
            if record.changed_at and record.status != "pending":
                late[key] = _LateChange(record.changed_at, record.is_)
        for key, intent in self._state.intents.items():
            if intent.changed_at and intent.makes:
                late[key] = _LateChange(intent.changed_at)
        return late

    def _read(self, definition: TypeDefinition, names: Collection[Name]) -> None:
        """Read names of a type; repeat it until all rows show the changes of earlier runs, for ``settle`` seconds.

        A service may show a change late, and a plan from the old row would repeat the change. The seconds count from
        the change, so that usually no time remains to wait.
        """
        if "imperative" not in definition.features:  # such a type cannot be read
            self._snapshot.read(definition, names)
        if not (settle := self._snapshot.providers.settle(definition)):
            return
        if late := [name for name in names if (definition.instance, name) in self._late]:
            changed_at = max(self._late[definition.instance, name].at for name in late)
            unsettled = partial(self._unsettled, definition, late)
            read_until_settled(self._snapshot, definition, unsettled, remaining_seconds(changed_at, settle))

    def _unsettled(self, definition: TypeDefinition, names: Collection[Name]) -> list[Name]:
        """Return the names whose last change their rows do not show yet: they are to be read again."""
        unsettled = []
        for name in names:
            row = self._snapshot.observation(definition.instance, name).row
            if not _is_as_recorded(definition, row, self._late[definition.instance, name].row):
                unsettled.append(name)
        return unsettled

    def observation(self, entry: Entry, /) -> Observation:
        """Return the observation of an entry, for the planner.

        A failure of this resource alone begins with its path if the title lacks it, so that the user knows which one it
        is. A failure of the whole instance does not, as it concerns no single path.
        """
        instance = entry.definition.instance
        if instance in self._unread:
            return _UNREAD
        observation = self._snapshot.observation(instance, entry.name)
        if not observation.failure or self._snapshot.failure(instance):
            return observation
        return Observation(None, with_path(observation.failure, entry.title, entry.name))

    def due(self, entry: Entry, should: Mapping[str, object], /) -> Due:
        """Ask the provider of an imperative resource, whose failure is part of the answer."""
        return self._snapshot.due(entry, should)

    def readiness(self, instance: str, resolve: Callable[[ExpressionPath], Any], /) -> Readiness:
        """Configure an instance if its values are known by now, then read its resources; return whether it is ready.

        An instance with values that are not known yet is a failure too, and nothing is read.
        """
        readiness = self._deferred.configure(instance, resolve)
        if not readiness.failure and instance in self._unread:
            self._read(*self._unread.pop(instance))
        return readiness

    def call(self, call: FunctionCall, inputs: Mapping[str, object], /) -> Any:
        """Return the result of a provider's function, which reads and changes nothing."""
        return invoke(call, inputs, self._snapshot.providers.call_function)


class _LateChange(NamedTuple):
    """The time (ISO 8601) of the last change of a resource, and its row after it, or None."""

    at: str
    row: Values | None = None


def _is_as_recorded(definition: TypeDefinition, row: Mapping[str, object] | None, recorded: Values | None) -> bool:
    """Return whether a row shows the last change of its resource, by the values that were recorded after it.

    If not, the change takes time to become visible, and the row is read again. Without recorded values, as of a
    creation cut short, the resource only has to exist. A recorded digest of a secret is not compared.
    """
    if row is None or recorded is None:
        return exists(row)
    for attribute in definition.managed:
        value = recorded.get(attribute)
        is_comparable = value is not None and not has_sealed(value)
        if is_comparable and not same_value(row.get(attribute), value):
            return False
    return True


def _names_to_read(catalog: Catalog, prior: Prior, selected: set[int] | None) -> dict[TypeDefinition, list[Name]]:
    """Return the names to read for a plan, by type.

    These are the names of the selected entries, of the entries to which they refer, of the recorded resources that they
    replace (``predecessors``), and of those recorded under a former name (``moved_keys``). Resources with
    ``on_failure`` are left out, because they are decided only after a failure in the run.
    """
    indexes = range(len(catalog.entries)) if selected is None else _with_referred(catalog, selected)
    # Dictionaries without values: each name once, in order.
    names: defaultdict[TypeDefinition, dict[Name, None]] = defaultdict(dict)
    for index in indexes:
        entry = catalog.entries[index]
        if index not in catalog.on_failure and entry.instance not in catalog.missing:
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
    """Return the indexes of the selected entries and of the requirements to which their values may refer.

    A plan computes values that are still expressions, of the entry or of the configuration of its provider instance,
    from the rows of these requirements. An entry without such values needs no further rows.
    """
    indexes = set(selected)
    for index in selected:
        entry = catalog.entries[index]
        if entry.pending or entry.instance in catalog.instances:
            indexes.update(catalog.requires.get(index, ()))
    return sorted(indexes)


#: The first pause and the longest one, in seconds.
_FIRST: Final = 0.1
_LONGEST: Final = 5.0


def read_until_settled(
    snapshot: Snapshot, definition: TypeDefinition, unsettled: Callable[[], Sequence[Name]], seconds: float
) -> None:
    """Read names again, with growing pauses, until their rows show the last change, or for ``seconds`` at most.

    Some systems show a change late, and an old row would look like a failed change. ``unsettled`` returns the names
    whose rows do not show their change yet. An interrupt of the run ends the wait.
    """
    run = snapshot.providers.run
    deadline, pause = time.monotonic() + seconds, _FIRST
    while names := unsettled():
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not run.pause(min(pause, remaining)):
            return
        pause = min(2 * pause, _LONGEST)
        with run.log.bind(phase="verify"):
            snapshot.read_again(definition, names)


def remaining_seconds(changed_at: str, settle: float) -> float:
    """Return the seconds, from 0 to ``settle``, until a change of that time (ISO 8601) must be visible."""
    passed = (datetime.now(UTC) - datetime.fromisoformat(changed_at)).total_seconds()
    return min(settle, max(0.0, settle - passed))


def configure_instances(catalog: Catalog, state: StackState, providers: ProviderPool) -> ProviderInstances:
    """Match declared with recorded provider instances, and configure those whose configuration is known.

    Return the matches. Recorded instances matter too: one that is no longer declared still deletes its resources.
    """
    recorded, declared = provider_records(state), catalog.instances.values()
    providers.select_versions({record.name: record.inputs.get("version", "") for record in recorded})
    # After the recorded ones, over which the declared versions take precedence.
    providers.select_versions({instance.name: instance.version for instance in declared})
    # An instance that is no longer declared still deletes its resources, as the provider that has made them.
    missing = [record for record in recorded if record.name not in catalog.instances]
    providers.select_implementations({record.name: record.inputs.get("implementation", "") for record in missing})
    instances = match_instances(catalog, state, providers.functions)
    for name, config in instances.configs.items():
        providers.configure(name, config)
    for name, reason in instances.refused.items():
        providers.mark_unavailable(name, reason)
    return instances


class DeferredInstances:
    """The provider instances of a run whose configuration refers to resources."""

    def __init__(
        self, declared: Mapping[str, ProviderInstance], prior: ProviderInstances, providers: ProviderPool
    ) -> None:
        """Select those of the ``declared`` instances whose configuration has unevaluated values.

        ``prior`` has their recorded configurations.
        """
        self._instances = {name: instance for name, instance in declared.items() if instance.pending}
        self._prior = prior
        self._providers = providers
        #: The number of a thread and the instance that it is configuring, to refuse one that needs its own function.
        self._begun: set[tuple[int, str]] = set()

    def contains(self, name: str) -> bool:
        """Return whether the configuration of an instance refers to resources."""
        return name in self._instances

    def configure(self, name: str, resolve: Callable[[ExpressionPath], Any]) -> Readiness:
        """Configure an instance with the values that are known by now; return its record if it is new or changed.

        If the instance was configured otherwise before, that provider is closed. A configuration that needs a function
        of its own instance is refused: calling it would lead the same thread here again without end.
        """
        instance = self._instances.get(name)
        if instance is None:
            return Readiness()
        begun = get_ident(), name
        if begun in self._begun:
            return Readiness(f"the provider '{name}' needs the result of its own function to be configured")
        self._begun.add(begun)
        try:
            config = deferred_configuration(instance, resolve, self._providers.functions(name), self._prior)
        except ConfigurationError as error:
            return Readiness(str(error), error.later)
        finally:
            self._begun.discard(begun)
        self._providers.configure(name, config)
        record = provider_record(instance, config, self._prior.state.salt)
        return Readiness(record=None if record == self._prior.recorded.get(name) else record)
