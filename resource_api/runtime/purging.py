"""Find the resources that ``purge`` deletes: listed by their type, undeclared, within its limit (contract §10.7).

They become orphans of the catalog, undeclared resources to delete, and are planned, carried out and recorded like
other orphans. Resources that other stacks record or that their own record protects are never among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.manifest.conditions import ConditionError
from resource_api.model.change import exists
from resource_api.model.record import OrphanKind, Record, StackState
from resource_api.model.values.errors import CannotList, ManifestError, Problem, StateError, UsageError
from resource_api.model.values.reference import Reference, capitalize_type, split_instance
from resource_api.model.values.text import counted, show_first, show_name
from resource_api.plan.planner import ExecutionPlan, would_change
from resource_api.prior.match import add_orphans, is_removed, removed_names
from resource_api.runtime.plan_notices import is_same_place
from resource_api.snapshot.observe import DeferredInstances
from resource_api.state.store import StackName, StateStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog, PurgeRule
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.values import Values
    from resource_api.prior.match import Prior
    from resource_api.snapshot.batched_get import Snapshot
    from resource_api.system.log import Log

    Rows = Mapping[Name, Values]

#: The number of resources that a refusal names.
_NAMED: Final = 10


class PurgeError(ManifestError):
    """A purge that is refused before anything is changed, such as one beyond its limit."""

    exit_code = 1


class Purging:
    """Applies the rules of ``purge`` of one catalog to the resources that their types list."""

    def __init__(self, catalog: Catalog, prior: Prior, snapshot: Snapshot, store: StateStore) -> None:
        """Prepare the purge of ``catalog`` without listing anything yet.

        ``snapshot`` lists the resources; ``store`` has the states of other stacks, whose resources no purge deletes.
        """
        self._catalog = catalog
        self._prior = prior
        self._snapshot = snapshot
        self._store = store
        self._log: Log = snapshot.providers.run.log
        #: The references under ``removed``: these resources are to be forgotten, not deleted.
        self._removed = removed_names(catalog)
        self._undeclared = {record.key: record for record in prior.undeclared}
        #: The states of the other stacks, or None before they are needed.
        self._states: Sequence[tuple[StackName, StackState]] | None = None
        self._deferred = DeferredInstances(catalog.instances, prior.instances, snapshot.providers)
        #: The rules whose types cannot be listed yet, with the reason: they delete nothing in this run.
        self._unlisted: list[tuple[PurgeRule, str]] = []

    def matched(self) -> tuple[Catalog, Prior]:
        """Return the catalog and the match with an orphan, and so a step, for each resource that ``purge`` deletes.

        Raise ``PurgeError`` for more resources than a rule may delete (``at_most``), since it is then probably wrong,
        and if another stack, whose resources must stay, is unreadable. Raise ``ManifestError`` for a type that cannot
        list, and for a test that does not fit a value.
        """
        problems: list[Problem] = []
        strays: list[tuple[Record, PurgeRule]] = []
        for rule in self._catalog.purges:
            records = self._strays(rule)
            if len(records) > rule.at_most:
                names = show_first([record.reference for record in records], _NAMED)
                excess = f"would delete {counted(len(records), 'resource')}, and at_most is {rule.at_most}: {names}"
                problems.append(_problem(rule, excess, "raise at_most, or declare or except what is to stay"))
            strays += [(record, rule) for record in records]
        if problems:
            raise PurgeError(problems)
        return self._with_orphans(strays)

    def _strays(self, rule: PurgeRule) -> Sequence[Record]:
        """Return the resources that a rule of ``purge`` deletes: listed by their type, and declared nowhere.

        They are returned as records, in the order of the list: the existing record, or a new one made from the listed
        row. Resources that other stacks record are excluded. To read these stacks takes time, so they are read only if
        any resource is not excluded by this stack.
        """
        rows = self._listed(rule)
        kept_names = self._kept_names(rule.definition) if rows else ()
        definition = rule.definition
        strays = {
            name: row
            for name, row in rows.items()
            if name not in kept_names and str(Reference(definition.name, definition.title_of(row))) not in self._removed
        }
        elsewhere = self._recorded_elsewhere(rule, strays) if strays else ()
        return [self._record(rule.definition, name, row) for name, row in strays.items() if name not in elsewhere]

    def _listed(self, rule: PurgeRule) -> Rows:
        """Return name → row of the existing resources that a rule of ``purge`` includes.

        A type that cannot be listed yet, as an earlier step may install or configure its provider, is noted in
        ``_unlisted`` for ``report_unlisted``. Raise ``ManifestError`` for a type that never can be listed.
        """
        definition = rule.definition
        if self._deferred.contains(definition.instance):
            self._unlisted.append((rule, "its provider is not configured yet"))
            return {}
        if reason := self._catalog.missing.get(definition.instance):
            self._unlisted.append((rule, reason))
            return {}
        try:
            checked, failure = self._snapshot.list_whole(definition)
        except CannotList as error:
            raise ManifestError([_problem(rule, f"cannot be listed: {error}", "take this entry away")]) from error
        if failure:
            self._unlisted.append((rule, failure))
        rows: dict[Name, Values] = {}
        for name, row in checked.items():
            if isinstance(row, str):
                subject = f"{capitalize_type(definition.name)}[{show_name(name)}]"
                self._log.write("warning", subject, f"is not purged: {row}", definition.name)
            elif row is not None and exists(row) and is_included(rule, row):
                rows[name] = row
        return rows

    def _kept_names(self, definition: TypeDefinition) -> Collection[Name]:
        """Return the names of a type that no purge deletes, because this stack declares or manages them otherwise.

        These are the names of declared and moved resources, and of records that ``_is_kept`` selects.
        """
        prior, instance = self._prior, definition.instance
        # ``--prune`` deletes these as well, so their presence in the catalog keeps none from a purge.
        pruned = {index for index, kind in prior.orphans.items() if kind is OrphanKind.UNDECLARED}
        kept_names = {
            entry.name for entry in self._catalog.entries if entry.instance == instance and entry.index not in pruned
        }
        # Former names too: a resource that was moved may still have one.
        kept_names |= {name for instance_name, name in prior.moved_keys if instance_name == instance}
        records = [*prior.predecessors.values(), *filter(self._is_kept, prior.state.records.values())]
        kept_names |= {record.name for record in records if record.instance == instance}
        return kept_names

    def _is_kept(self, record: Record) -> bool:
        """Return whether no purge deletes a recorded resource.

        It stays if its declaration protects or retains it or it is external; if ``removed`` names it, as it is only to
        be removed from the state; or if it belongs to an unfinished replacement, which has steps of its own.
        """
        lifecycle = record.lifecycle
        leftover = record.is_replaced or record.status == "pending"
        is_exempt = lifecycle.protect or lifecycle.retain or lifecycle.external
        return leftover or is_exempt or is_removed(record, self._removed)

    def _recorded_elsewhere(self, rule: PurgeRule, names: Collection[Name]) -> Collection[Name]:
        """Return and log those ``names`` that another stack records: they are managed there and must not be purged.

        Raise ``PurgeError`` for an unreadable stack.
        """
        recorded: set[Name] = set()
        definition = rule.definition
        for stack, state in self._other_stacks(rule):
            for record in state.records.values():
                same = record.type == definition.name and record.name in names
                if same and is_same_place(definition, self._prior.instances, state, record):
                    recorded.add(record.name)
                    reference = f"{Reference(record.type, record.title)}"
                    self._log.write("info", reference, f"is not purged: it is recorded by {stack}", record.type)
        return recorded

    def _other_stacks(self, rule: PurgeRule) -> Sequence[tuple[StackName, StackState]]:
        """Return the states of all other stacks, read once for all rules.

        Raise ``PurgeError`` at the position of ``rule`` if one is unreadable, since its resources could be deleted.
        """
        if self._states is None:
            states = []
            for name in self._store.stacks():
                if name == StackName.of(self._prior.state):
                    continue
                try:
                    states.append((name, self._store.load(name)))
                except (UsageError, StateError) as error:
                    message = f"it is not known what {name} records, which must stay: {error}"
                    raise PurgeError([_problem(rule, message, "give its key, or take this entry away")]) from error
            self._states = states
        return self._states

    def _record(self, definition: TypeDefinition, name: Name, row: Values) -> Record:
        """Return the record of a resource to purge, from which ``_with_orphans`` makes the entry of its step.

        For a resource that was never recorded, return a new record made from its listed row.
        """
        key = definition.instance, name
        recorded = self._undeclared.get(key) or self._prior.state.records.get(key)
        provider = split_instance(definition.instance)[1]
        return recorded or Record(
            definition.name, name, definition.title_of(row), inputs={}, should={}, is_=row, provider=provider
        )

    def _with_orphans(self, strays: Sequence[tuple[Record, PurgeRule]]) -> tuple[Catalog, Prior]:
        """Return catalog and match with an orphan for each of ``strays``: an entry by which the planner deletes it.

        A resource that ``--prune`` deletes as well has an orphan already, and gets no second one.
        """
        prior, rules = self._prior, {record.key: rule for record, rule in strays}
        present = {self._catalog.entries[index].key: index for index in prior.orphans}
        orphans = dict(prior.orphans)
        for record, _ in strays:
            # A resource that is not ours is only forgotten by ``--prune``, but deleted by ``purge``.
            if record.key in present and not record.owned:
                orphans[present[record.key]] = OrphanKind.PURGED
        # ``add_orphans`` reverses the order, as records are deleted from the last to the first: here the order stays.
        added = [(record, OrphanKind.PURGED) for record, _ in reversed(strays) if record.key not in present]
        catalog, kinds = add_orphans(self._catalog, added, self._snapshot.providers.functions)
        orphans |= kinds
        purges = {
            index: rules[catalog.entries[index].key] for index, kind in orphans.items() if kind is OrphanKind.PURGED
        }
        undeclared = [record for record in prior.undeclared if record.key not in rules]
        return catalog, prior._replace(orphans=orphans, purges=purges, undeclared=undeclared)

    def report_unlisted(self, plan: ExecutionPlan) -> None:
        """Warn of types that cannot be listed yet, so that nothing of them is purged in this run.

        A step of the plan may make the listing possible, as by installing a program. Raise ``PurgeError`` for a plan
        without such a step, one that changes anything: then each later run would fail in the same way.
        """
        if not self._unlisted:
            return
        if not any(would_change(step) for step in plan.steps):
            raise PurgeError([_problem(rule, f"cannot be listed: {reason}") for rule, reason in self._unlisted])
        for rule, reason in self._unlisted:
            text = f"{rule.position}: cannot be listed yet, so that nothing of it is purged in this run: {reason}"
            self._log.write("warning", rule.definition.name, text, rule.definition.name)


def is_included(rule: PurgeRule, row: Values) -> bool:
    """Return whether a rule of ``purge`` includes an existing resource, by the tests of its ``where`` on the row.

    Raise ``ManifestError`` for a test that does not fit a value.
    """
    try:
        return rule.includes(row)
    except ConditionError as error:
        raise ManifestError([_problem(rule, f"where: {error}", error.hint)]) from error


def _problem(rule: PurgeRule, message: str, hint: str = "") -> Problem:
    """Return a problem at the position of a rule in the manifest."""
    return Problem(None, f"{rule.subject}: {message}", "error", "", *rule.position, code="purge", hint=hint)
