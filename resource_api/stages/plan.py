"""Catalog × snapshot → the ordered steps that a run would take.

Pure: what was read comes in as a function, what providers compare or foresee as plain functions. Destroying is the
plan of the empty manifest and ``--noop`` a plan that is not applied: there are no modes in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.nouns import expression
from resource_api.nouns.change import Action, Difference, exists
from resource_api.nouns.reference import URN, Reference
from resource_api.nouns.step import SAME, Decision, Step, Summary
from resource_api.nouns.values import UNKNOWN, is_unknown
from resource_api.stages import settle
from resource_api.stages.decision import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.nouns.entry import Entry
    from resource_api.nouns.expression import Path
    from resource_api.nouns.options import Options
    from resource_api.nouns.tools import Tools
    from resource_api.stages.catalog import Catalog


class World(NamedTuple):
    """What the planner is told of everything outside: by entry, what was read and whether it is due."""

    #: Give (row or None, failure) of an entry.
    seen: Callable[[Entry], tuple[Mapping[str, Any] | None, str]]
    #: Give (run, why, failure) of an imperative entry whose values are known.
    due: Callable[[Entry, Mapping[str, Any]], tuple[bool, str, str]]
    #: Give a type's pure functions.
    tools: Callable[[str], Tools]


class Plan(NamedTuple):
    """The intention: one step per selected resource, in the order of execution."""

    catalog: Catalog
    steps: Sequence[Step]
    options: Options
    complete: bool = True
    stack: str = "default"
    outputs: Mapping[str, Any] = {}

    @property
    def applicable(self) -> bool:
        """Whether every step could be planned."""
        return not any(step.decision.error for step in self.steps)

    @property
    def summary(self) -> Summary:
        """How many steps of each kind."""
        return count(self.steps)

    def urn(self, entry: Entry) -> str:
        """Give a resource's name across stacks."""
        return str(URN(self.stack, self.catalog.manifest.project, (entry.type,), entry.title))


def plan(catalog: Catalog, selected: set[int] | None, world: World, options: Options) -> Plan:
    """Decide every selected entry, in order, so that references find what was decided before them."""
    planner = _Planner(catalog, world, options)
    for entry in catalog.entries:
        if selected is None or entry.index in selected:
            planner.add(entry)
    return Plan(catalog, list(planner.steps.values()), options, selected is None, outputs=planner.outputs())


class _Planner:
    """Knows the steps planned so far, by the index of their entry."""

    def __init__(self, catalog: Catalog, world: World, options: Options) -> None:
        self.catalog = catalog
        self.world = world
        self.options = options
        self.steps: dict[int, Step] = {}
        self.acting = False
        self._by_reference: dict[Reference, Entry] | None = None
        self._resolve = catalog.scope.resolver(self._of_resource)

    def add(self, entry: Entry) -> None:
        step = self._refresh(self._step(entry))
        self.steps[entry.index] = step
        self.acting = self.acting or step.acts

    def _step(self, entry: Entry) -> Step:
        noop = self.options.noop or bool(entry.meta.noop)
        should, unknown, error = self._known(entry)
        if error:
            return Step(entry, None, should, Decision(Action.UPDATE, error=error), noop)
        if "imperative" in entry.definition.features:
            return self._imperative(entry, should, unknown, noop=noop)
        row, failure = self.world.seen(entry)
        if failure:
            if self.acting:
                return Step(entry, None, should, Decision(Action.UPDATE), noop, deferred=failure, unknown=unknown)
            return Step(entry, None, should, Decision(Action.UPDATE, error=failure), noop)
        tools = self.world.tools(entry.type)
        decision = decide(entry, row, should, tools)
        return Step(entry, row, should, decision, noop or self._waits_for_noop(entry, unknown), unknown=unknown)

    def _imperative(self, entry: Entry, should: Mapping[str, Any], unknown: Sequence[str], *, noop: bool) -> Step:
        if unknown:
            why = "it needs values that are not yet known"
            return Step(entry, None, should, Decision(Action.RUN), noop, deferred=why, unknown=unknown)
        run, why, failure = self.world.due(entry, should)
        if failure and self.acting:
            return Step(entry, None, should, Decision(Action.RUN), noop, deferred=failure)
        if failure:
            return Step(entry, None, should, Decision(Action.RUN, error=failure), noop)
        reasons = (why,) if why else ()
        return Step(entry, None, should, Decision(Action.RUN, reasons=reasons) if run else SAME, noop)

    def _refresh(self, step: Step) -> Step:
        """Note whose change refreshes this resource; of a type that cannot be refreshed the relationship only orders."""
        sources = self.catalog.subscribes.get(step.entry.index)
        if not sources or "refreshable" not in step.definition.features or not _present(step):
            return step
        noisy = [self.steps[source] for source in sources if source in self.steps]
        noisy = [source for source in noisy if source.acts or (self.options.noop and _would(source))]
        return step._replace(refreshed_by=tuple(str(source.reference) for source in noisy)) if noisy else step

    # Values that only another resource's state tells

    def _known(self, entry: Entry) -> tuple[Mapping[str, Any], Sequence[str], str]:
        """Give what should be as far as it is known, the attributes that are not, and what is wrong."""
        if not entry.pending:
            return entry.should, (), ""
        values: dict[str, Any] = {}
        for name, value in entry.pending.items():
            try:
                found = expression.evaluate(value, self._resolve)
            except ValueError as error:
                return entry.should, (), str(error)
            values[name] = UNKNOWN if is_unknown(found) else found
        should, problem = complete(entry, values, self.world.tools(entry.type))
        return should, tuple(name for name, value in values.items() if value is UNKNOWN), problem

    def _of_resource(self, path: Path) -> Any:
        assert isinstance(path.root, Reference)
        entry = self._find(path.root)
        step = self.steps.get(entry.index)
        if step is None:
            row, failure = self.world.seen(entry)
            if failure or not exists(row):
                msg = f"{path}: {entry.reference} does not exist and is not among the targets"
                raise ValueError(msg)
            return yielded(path, entry.should, row)
        return foreseen(path, step)

    def _find(self, wanted: Reference) -> Entry:
        if self._by_reference is None:
            self._by_reference = {entry.reference: entry for entry in self.catalog.entries}
        entry = self._by_reference.get(wanted) or self.catalog.find(wanted)
        assert entry is not None
        return entry

    def _waits_for_noop(self, entry: Entry, unknown: Sequence[str]) -> bool:
        """Whether a value would only come from doing a noop resource: then this one is noop too."""
        if not unknown:
            return False
        targets = self.catalog.requires.get(entry.index, ())
        return any(self.steps[index].noop and _would(self.steps[index]) for index in targets if index in self.steps)

    def outputs(self) -> dict[str, Any]:
        """Give the manifest's outputs as far as they are known."""
        found = {}
        for name, value in self.catalog.manifest.outputs.items():
            try:
                found[name] = expression.evaluate(value, self._resolve)
            except ValueError:
                found[name] = UNKNOWN
        return found


def _would(step: Step) -> bool:
    return step.action not in {Action.SAME, Action.READ} and not step.decision.error


def _present(step: Step) -> bool:
    """Whether there will be something to refresh."""
    return step.action not in {Action.DELETE, Action.FORGET} and (
        step.is_ is not None or step.action is not Action.SAME or "imperative" in step.definition.features
    )


def foreseen(path: Path, step: Step) -> Any:
    """Give what a path into a planned resource leads to, ``UNKNOWN`` where only doing the step tells."""
    attribute = path.keys[0]
    if attribute in step.should and step.should[attribute] is not UNKNOWN:
        return expression.walk(step.should[attribute], path, path.keys[1:])
    kind = step.definition.attributes[attribute].kind
    if step.deferred or step.decision.error or attribute in step.should:
        return UNKNOWN
    if step.action in {Action.CREATE, Action.REPLACE, Action.RUN} or (
        step.action is Action.UPDATE and kind == "read_only"
    ):
        return UNKNOWN
    return yielded(path, step.should, step.is_)


def yielded(path: Path, should: Mapping[str, Any], is_: Mapping[str, Any] | None) -> Any:
    """Give what a path leads to in a resource that is as it should be. Raises ``ValueError`` when there is none."""
    attribute = path.keys[0]
    if attribute in should and should[attribute] is not UNKNOWN:
        return expression.walk(should[attribute], path, path.keys[1:])
    if not exists(is_):
        msg = f"{path}: {path.root} does not exist"
        raise ValueError(msg)
    assert is_ is not None
    return expression.walk(is_.get(attribute), path, path.keys[1:])


def complete(entry: Entry, values: Mapping[str, Any], tools: Tools) -> tuple[Mapping[str, Any], str]:
    """Give an entry's ``should`` with values that have become known, checked and canonical again; or what is wrong."""
    should = {**entry.should, **values}
    should = {name: value for name, value in should.items() if value is not None}
    (settled,), (problems,) = settle.settle(tools, [settle.fill(entry.definition, should)])
    errors = [problem.message for problem in problems if problem.severity == "error"]
    return settled, "; ".join(errors)


def count(steps: Sequence[Step]) -> Summary:
    """Count what the steps would do; failures in the plan count as failed."""
    totals = dict.fromkeys(Summary._fields[:-1], 0)
    words = {
        **{Action.CREATE: "created", Action.UPDATE: "updated", Action.REPLACE: "replaced", Action.DELETE: "deleted"},
        **{Action.IMPORT: "imported", Action.FORGET: "forgotten", Action.REFRESH: "refreshed", Action.RUN: "updated"},
    }
    for step in steps:
        totals["failed" if step.decision.error else words.get(step.action, "unchanged")] += 1
    return Summary(**totals)  # type: ignore[arg-type] # counts only


def unknown_differences(step: Step) -> list[Difference]:
    """Give the attributes that only an earlier step will yield as differences."""
    return [Difference(name, (step.is_ or {}).get(name), UNKNOWN) for name in step.unknown]
