"""What an earlier run has concluded of a manifest, taken as it is as far as nothing that it rests on has changed.

A run that finds everything in order says so (``remember``). The next one reads the system, compares what it reads with
what was read then, and plans only what is left (``plan``). Whatever is not as it was, and whatever the shorter plan
would do beyond showing a drift, a whole plan decides, which uses what has been read. The command takes this way where
it shows only what acts: nobody is told more or less, or in other words, than without.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.cache import conclusion as convergence
from resource_api.cache import fingerprints as grounds
from resource_api.cache.conclusion import Conclusion
from resource_api.cache.validity import Fingerprints, rest
from resource_api.manifest import read as reading
from resource_api.manifest.sections import assemble, assemble_without
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError, ResourceAPIError
from resource_api.snapshot.snapshot import ReadError
from resource_api.state.store import StackName
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.options import CacheRequest
    from resource_api.model.record import StackState
    from resource_api.model.type_definition import Name, Resource
    from resource_api.model.values.document import Document
    from resource_api.plan.planner import Plan
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.state.store import CachedConclusion, StateStore

    #: Give the state with the records of these numbers alone, as they were kept; None: it has just changed.
    Recorded = Callable[[Iterable[int]], StackState | None]


class Planner(NamedTuple):
    """How a run makes a catalog of a manifest, and a plan of that and of what is known of it."""

    compile: Callable[[Manifest], Catalog]
    plan: Callable[[Catalog, StackState], Plan]


def save(request: CacheRequest, plan: Plan, providers: ProviderPool, store: StateStore) -> None:
    """Keep what a run that had nothing to do has concluded, if it has written nothing either.

    Nothing is kept of a run in which declaring alone made somebody speak: they would be silent from then on.
    """
    catalog, prior = plan.catalog, plan.prior
    name = StackName(prior.state.project, prior.state.stack)
    said = plan.cached_unchanged or catalog.warnings or catalog.notes or providers.wrote_output
    if said or store.load(name).serial != prior.state.serial:
        return
    found = convergence.conclude(plan)
    rested = rest(catalog, providers, request.began) if found is not None else None
    if found is not None and rested is not None:
        keys = [prior.records[number].key for number in found.recorded]
        store.save_conclusion(request.label, name, [rested, found], keys)


def plan(
    request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, store: StateStore, planner: Planner
) -> Plan | None:
    """Give the plan of what is left to be planned by what was ``cached``; None where a whole one must be made.

    What ``snapshot`` has read by then is not asked again.
    """
    try:
        rested = Fingerprints(*cached.content[0])
        # What other code has kept may be of another form.
        converged = Conclusion.read(cached.content[1]) if rested.holds(snapshot.providers.registry) else None
    except (ValueError, TypeError, DefinitionError):
        return None
    if converged is None:
        return None
    try:
        return _Shortcut(request, store, converged, rested).plan(planner, snapshot, cached.state)
    except (ResourceAPIError, ReadError):
        # Whatever it is, a whole run says it properly.
        return None


class _Shortcut:
    """One attempt to plan no more than what is left."""

    def __init__(self, request: CacheRequest, store: StateStore, converged: Conclusion, rested: Fingerprints) -> None:
        self._cache_request = request
        self._store = store
        self._converged = converged
        self._rested = rested
        self._shown = request.options.shown or request.options.noop
        self._stirred: set[int] = set()
        self._left = convergence.remaining(converged, ())

    def plan(self, planner: Planner, snapshot: Snapshot, recorded: Recorded) -> Plan | None:
        """Give the plan of what is left, unless so much is left that it is not worth it.

        What must be planned in any case is compiled before anything is read, as in a whole run: with it comes what is
        secret, and what a provider learns of what is declared.
        """
        known = self._converged
        if (catalog := self._compiled(planner)) is None:
            return None
        declared = {entry.key for entry in catalog.entries}
        self._stirred = convergence.stirred(known, convergence.moved(known, dict(self._rows(snapshot, declared))))
        # By now all providers have been loaded, and what they import.
        if not grounds.complete(self._rested.code):
            return None
        if self._stirred:
            self._left = convergence.remaining(known, self._stirred)
            catalog = self._compiled(planner)
        places = {number: place for place, number in enumerate(known.recorded) if number in self._left}
        state = recorded(places.values())
        if catalog is None or state is None:
            return None
        made = planner.plan(catalog, convergence.known(catalog, state))._replace(
            cached_unchanged=len(known.keys) - len(self._left)
        )
        return made if self._says_nothing_new(made) else None

    def _rows(
        self, snapshot: Snapshot, declared: Collection[tuple[str, Name]]
    ) -> Iterator[tuple[str, Mapping[Name, Resource]]]:
        for instance, names in convergence.asked(self._converged, declared):
            yield instance, snapshot.read_unchecked(snapshot.providers.functions(instance).definition, names)

    def _compiled(self, planner: Planner) -> Catalog | None:
        """Give the catalog of what is left; None if that is not what it was then, or too much."""
        known = self._converged
        if 2 * len(self._left) > len(known.keys) or (manifest := self._manifest()) is None:
            return None
        catalog = planner.compile(manifest)
        as_then = len(catalog.entries) == len(self._left) and not (catalog.warnings or catalog.notes)
        return catalog if as_then else None

    def _manifest(self) -> Manifest | None:
        """Give what is left of the manifest; None if it has just been changed."""
        known = self._converged
        if not self._left and known.bare and not self._cache_request.inputs:
            return assemble([])._replace(file=known.file, project=known.project, project_given=known.project_given)
        if self._documents is None:
            return None
        gone = {key for number, key in enumerate(known.keys) if key is not None and number not in self._left}
        return assemble_without(self._documents, gone)

    @cached_property
    def _documents(self) -> Sequence[Document] | None:
        """The files of the manifest, read once."""
        try:
            documents, problems = reading.load_documents(self._cache_request.source, readers=reading.TRUSTED_READERS)
        except (ValueError, RecursionError):
            return None
        return None if problems or not self._rested.says(documents) else documents

    def _says_nothing_new(self, made: Plan) -> bool:
        """Whether a plan speaks of nobody else, and does nothing; it may show what only comes of what has moved."""
        numbers = {
            (group.instance, name): number
            for group in self._converged.standing
            for number, name in zip(group.numbers, group.names, strict=True)
            if number in self._left
        }
        for step in made.steps:
            number = numbers.get(step.entry.key)
            if number is None:
                return False
            still = step.decision is SAME and not step.refreshed_by and not step.deferred and not step.previous
            if not still and not (self._shown and number in self._stirred):
                return False
        nobody_else = not (made.prior.undeclared or made.prior.orphans or made.prior.moved_keys)
        return nobody_else and (self._shown or not self._news(made))

    def _news(self, made: Plan) -> bool:
        """Whether something would be recorded, which a plan must know all the relationships of."""
        recorder = Recorder(self._store, StackName(made.prior.state.project, made.prior.state.stack), made, "")
        return bool(
            recorder.news(OperationRun(each) for each in made.operations if each.step.entry.index not in made.in_sync)
        )
