"""Saves the conclusion of a run, and plans no more than what a valid cached conclusion leaves.

The plan that is made so may show drift, where it is only shown; what an apply would have to do or to record is decided
by a whole plan, which uses what has been read already. Used where only what acts is printed: the output is the same as
without the cache. What is left out is decided by ``conclusion``, whether it may be by ``fingerprints``.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from resource_api.cache.always_planned import always_planned, documents
from resource_api.cache.conclusion import Conclusion, conclude
from resource_api.cache.fingerprints import Fingerprints, take_fingerprints
from resource_api.manifest import read as reading
from resource_api.manifest.sections import assemble, without
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.plan.bulk_decisions import required_references
from resource_api.prior.stated_implementations import stated_implementations
from resource_api.state.store import StackName
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.options import CacheRequest
    from resource_api.model.record import StackState
    from resource_api.model.type_definition import Name, Resource
    from resource_api.model.values.document import Document
    from resource_api.plan.planner import Plan
    from resource_api.plugins.implementations import Implementations
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.state.store import CachedConclusion, StateStore


class Planner(NamedTuple):
    """How a run makes a catalog from a manifest, and a plan from that and its state."""

    compile: Callable[[Manifest], Catalog]
    plan: Callable[[Catalog, StackState], Plan]


def save(request: CacheRequest, plan: Plan, providers: ProviderPool, store: StateStore) -> None:
    """Save the conclusion of a run that had nothing to do, if it has written nothing either.

    Nothing is saved of a run that printed warnings or other output while compiling: later runs would not print it; and
    nothing of a manifest with ephemeral inputs.
    """
    catalog, prior = plan.catalog, plan.prior
    name = StackName.of(prior.state)
    printed = catalog.warnings or catalog.notes or providers.wrote_output
    if any(each.ephemeral for each in catalog.manifest.inputs.values()):
        return
    if plan.cached_unchanged or printed or store.load(name).serial != prior.state.serial:
        return
    if (conclusion := conclude(plan)) is None:
        return
    derived = providers.run.derived
    if (fingerprints := take_fingerprints(catalog, providers, request.began, derived)) is not None:
        keys = [prior.records[number].key for number in conclusion.recorded]
        keys += [record.key for record in prior.instances.recorded.values()]
        planned = always_planned(plan, conclusion, providers.run.log.mask)
        content = [fingerprints, conclusion, derived.used if derived else {}, planned]
        store.save_conclusion(request.label, name, content, keys)


def plan(request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, planner: Planner) -> Plan | None:
    """Return the plan of what the cached conclusion leaves; None: a whole plan must be made.

    A whole plan is made from what ``snapshot`` has read by then; nothing is read twice.
    """
    try:
        fingerprints = Fingerprints(*cached.content[0])
        if not fingerprints.are_valid(snapshot.providers.registry):
            return None
        if (derived := snapshot.providers.run.derived) is not None:
            derived.continue_from(cached.content[2], [path for path, *_ in fingerprints.code])
        conclusion = Conclusion.from_json(cached.content[1])
        return _IncrementalPlan(request, cached, conclusion, fingerprints).make(planner, snapshot)
    except Exception:  # noqa: BLE001 - a whole plan meets the same error and reports it, unless the entry is damaged
        return None


class _IncrementalPlan:
    """One attempt to plan only what a conclusion leaves."""

    def __init__(
        self, request: CacheRequest, cached: CachedConclusion, conclusion: Conclusion, fingerprints: Fingerprints
    ) -> None:
        self._request = request
        self._cached = cached
        self._conclusion = conclusion
        self._fingerprints = fingerprints
        self._only_shown = request.options.shown or request.options.noop
        self._affected: set[int] = set()
        self._to_plan = conclusion.to_plan(())

    def make(self, planner: Planner, snapshot: Snapshot) -> Plan | None:
        """Return the plan of what is left, None where a whole one must be made.

        What is planned in every run is compiled before anything is read, as in a whole run: then its secrets are
        masked, and a provider that looks up what is declared has done so before it reads.
        """
        conclusion = self._conclusion
        if (catalog := self._compile(planner)) is None:
            return None
        self._affected = conclusion.affected(self._read(snapshot, catalog))
        # By now all providers are loaded, and what they import.
        if not self._fingerprints.cover_loaded_code() or not self._fingerprints.are_chosen(snapshot.providers.chosen()):
            return None
        if self._affected:
            self._to_plan = conclusion.to_plan(self._affected)
            catalog = self._compile(planner)
        state = self._cached.state(conclusion.positions(self._to_plan))
        if catalog is None or state is None:
            return None
        self._several = snapshot.providers.several
        made = planner.plan(catalog, _without_left_out(state, catalog))
        made = made._replace(cached_unchanged=len(conclusion.keys) - len(self._to_plan))
        return made if self._may_be_used(made) else None

    def _read(self, snapshot: Snapshot, catalog: Catalog) -> Mapping[str, Mapping[Name, Resource]]:
        """Read, by instance and name, what must be compared, and what of ``catalog`` is of the same instances."""
        declared = {entry.key for entry in catalog.entries}
        snapshot.providers.assigned = partial(stated_implementations, catalog, None)
        return {
            instance: snapshot.read_unchecked(snapshot.providers.functions(instance).definition, names)
            for instance, names in self._conclusion.names_to_read(declared)
        }

    def _compile(self, planner: Planner) -> Catalog | None:
        """Compile what is left; None: that is more than half, or it has compiled to something else than then."""
        if 2 * len(self._to_plan) > len(self._conclusion.keys) or (manifest := self._manifest()) is None:
            return None
        catalog = planner.compile(manifest._replace(path=reading.absolute(self._request.source)))
        as_then = len(catalog.entries) == len(self._to_plan) and not (catalog.warnings or catalog.notes)
        return catalog if as_then else None

    def _manifest(self) -> Manifest | None:
        """Return the manifest of what is left; None: its files have just been changed."""
        known = self._conclusion
        if not self._to_plan and known.neutral and not self._request.inputs:
            return assemble([])._replace(file=known.file, project=known.project, project_given=known.project_given)
        if not self._affected and (kept := self._cached.content[3]) is not None:
            read = documents(kept)
            return assemble(read) if self._fingerprints.match(read) else None
        if self._documents is None:
            return None
        return assemble(without(self._documents, known.left_out(self._to_plan)))

    @cached_property
    def _documents(self) -> Sequence[Document] | None:
        """The files of the manifest; None: they cannot be read, or have just been changed."""
        found, problems = reading.load_documents(self._request.source)
        return None if problems or not self._fingerprints.match(found) else found

    def _may_be_used(self, made: Plan) -> bool:
        """Return whether a plan is about nothing else than what was left, and does nothing.

        A plan that is only shown may do what follows from the affected resources.
        """
        numbers = {
            (group.instance, name): number
            for group in self._conclusion.rows
            for number, name in zip(group.numbers, group.names, strict=True)
            if number in self._to_plan
        }
        for step in made.steps:
            number = numbers.get(step.entry.key)
            if number is None:
                return False
            acts = step.decision is not SAME or step.refreshed_by or step.deferred or step.previous
            if acts and not (self._only_shown and number in self._affected):
                return False
            if acts and step.asks_side_effects:
                return False  # what else it does concerns what is left out too
        prior = made.prior
        if made.output_changes or prior.undeclared or prior.orphans or prior.moved_keys:
            return False
        if not prior.instances.commit.empty:
            return False
        return self._only_shown or not _would_record(made, self._several)


def _without_left_out(state: StackState, catalog: Catalog) -> StackState:
    """Return the state as if it had been recorded without the resources that are left out, which others require."""
    required = {entry.key: required_references(catalog, entry) for entry in catalog.entries}
    records = {
        key: record._replace(requires=required[key]) if key in required else record
        for key, record in state.records.items()
    }
    return state._replace(records=records)


def _would_record(made: Plan, several: Mapping[str, Implementations]) -> bool:
    """Return whether an apply would write records: those must name all that a resource requires."""
    left = (operation for operation in made.operations if operation.step.entry.index not in made.in_sync)
    return bool(Records(made, several).differing(map(OperationRun, left)))
