"""Plan one run: match the catalog with the state, observe the machine, decide each step."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from resource_api.cache import incremental_plan
from resource_api.manifest import read as reading
from resource_api.model.entry import NO_META
from resource_api.model.record import RecordKey, StackState
from resource_api.model.report import Diagnosed
from resource_api.model.step import SAME, Step
from resource_api.model.values.assets import spell_contents
from resource_api.model.values.errors import Problem, UsageError
from resource_api.plan import planner, targets
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior import match as matching
from resource_api.provider.stored_values import NEEDS_KEY, DerivedValues
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from resource_api.render import text
from resource_api.runtime import plan_checks, purging
from resource_api.runtime.manifest_compiler import select_declared
from resource_api.snapshot.batched_get import Snapshot
from resource_api.snapshot.observe import configure_instances, observe
from resource_api.state.store import NoStore
from resource_api.system import process_guard
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction import side_effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.json_documents import PlanJson
    from resource_api.model.options import CacheRequest, Options
    from resource_api.model.provider_functions import PlannerQueries
    from resource_api.prior.match import Prior
    from resource_api.runtime.environment import RunEnvironment
    from resource_api.runtime.manifest_compiler import Source


class Plan(planner.ExecutionPlan):
    """The actions that ``apply`` would take: ``steps``, ``drift``, ``outputs``, ``summary``.

    ``str(plan)`` is the text that ``resource-api plan`` prints, without colours. Secrets are never in it.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text of the plan, without a last line break."""
        return "\n".join(plan_text.lines(self))

    def __repr__(self) -> str:
        """Return the counts on one short line, whatever the number of steps."""
        return f"<Plan: {text.planned_counts(self.summary)}>"

    def to_dict(self) -> PlanJson:
        """Return the document of ``resource-api plan --json``; secrets in it are ``<sensitive>``."""
        return documents.plan(self)


class Planning:
    """One planning: its options, its observations, and the policies that it checks."""

    def __init__(
        self, environment: RunEnvironment, options: Options, providers: ProviderPool, *, claims: bool = False
    ) -> None:
        """Plan with the providers of one run. Raise ``DefinitionError`` for a broken policy.

        ``claims``: lock the stack before its state is loaded, because the plan will be executed.
        """
        self.options = options
        self._claims = claims
        self.snapshot = Snapshot(providers, options.strict)
        self._environment = environment
        self._providers = providers
        self._log = environment.log
        self._policies = None
        if policies := environment.registry.policies():
            self._policies = plan_checks.PolicyEvaluator(policies, environment.notify)
            providers.check_policies = self._policies.check_resource

    def plan_manifest(
        self, source: Source, inputs: Mapping[str, object], request: CacheRequest | None = None
    ) -> planner.ExecutionPlan:
        """Return the plan of a manifest; for ``destroy`` the one of the empty manifest of its project.

        With a ``request``, the cached conclusion of an earlier run may be used: resources that it recorded as unchanged
        are then omitted. With policies none is omitted, as they check every resource in each run.
        """
        environment = self._environment
        if self.options.destroy:
            return self._plan_catalog(environment.catalog_of_providers(source, inputs, self._providers))
        if request is not None:
            environment.run.derived = DerivedValues()  # kept with the conclusion, for later runs
            if self._policies is None and (plan := self._plan_incrementally(request)) is not None:
                return plan
        return self._plan_catalog(environment.catalog(source, inputs, self._providers))

    def plan_again(self, plan: planner.ExecutionPlan) -> planner.ExecutionPlan:
        """Return a new plan of an earlier plan's catalog, for a program that applies this plan: state may have changed.

        The orphans, undeclared resources that were appended to the catalog, are removed, as they are matched again. If
        the cache omitted resources of the earlier plan, the whole manifest is compiled from its text of that time.
        """
        if plan.cached_unchanged:
            documents = [reading.parse(source.raw, source.file) for source in plan.catalog.manifest.documents]
            manifest = reading.from_documents(documents, plan.catalog.manifest.path)
            return self.plan_manifest(manifest, spell_contents(dict(plan.catalog.scope.inputs)))
        select_declared(self._providers, plan.catalog.manifest)
        orphans = plan.prior.orphans
        declared = [entry for entry in plan.catalog.entries if entry.index not in orphans]
        requires = {index: before for index, before in plan.catalog.requires.items() if index not in orphans}
        return self._plan_catalog(plan.catalog._replace(entries=declared, requires=requires))

    def plan_unrecorded(self, source: Source) -> planner.ExecutionPlan:
        """Return the plan of a manifest as if no resource were recorded."""
        catalog = self._environment.catalog(source, {}, self._providers)
        return self._decide(catalog, StackState(*self._environment.name(catalog)))

    def _plan_catalog(self, catalog: Catalog) -> planner.ExecutionPlan:
        """Return the plan of a catalog by the recorded state of its stack.

        If the plan will be executed, the stack is locked first, so that no other run changes the state meanwhile.
        """
        name = self._environment.name(catalog)
        if self._claims:
            self._environment.claim(name)
        state = self._environment.store.load(name)
        if self.options.prune:
            # Two manifests of one file name would otherwise delete each other's resources.
            targets.check_prune(catalog, state, project_named=self._environment.project is not None)
        return self._decide(catalog, state)

    def _plan_incrementally(self, request: CacheRequest) -> planner.ExecutionPlan | None:
        """Return a plan without the resources that the cache has as unchanged, or None if all must be planned.

        The conclusion of an earlier run has these resources; it is valid as long as manifest, code and state are the
        same. The rest of the manifest is compiled and decided like a whole manifest.
        """
        environment = self._environment
        if (conclusion := environment.store.load_conclusion(request.label)) is None:
            return None
        compiler = environment.compiler
        incremental = incremental_plan.Planner(
            lambda manifest: environment.mask_secrets(compiler.compile(manifest, request.inputs, self._providers)),
            self._decide,
        )
        return incremental_plan.plan(request, conclusion, self.snapshot, incremental)

    def _decide(self, catalog: Catalog, state: StackState) -> planner.ExecutionPlan:
        """Return the plan of a catalog and the recorded ``state``; each log line gets the stack and the phase."""
        with self._log.bind(project=state.project, stack=state.stack, phase="plan"):
            return self._decide_steps(catalog, state)

    def _decide_steps(self, catalog: Catalog, state: StackState) -> planner.ExecutionPlan:
        """Match the catalog with the state, observe the machine, plan every step, and fail those that policies forbid.

        Orphans of ``purge`` are added before resources are observed, so that they are planned like other ones.
        """
        catalog, prior, purge = self._match(catalog, state)
        # Orphans were not in the catalog when its secrets were masked.
        self._log.mask.add([catalog.entries[index].should for index in prior.orphans])
        self.snapshot.imports = _import_ids(catalog, prior)
        queries, selected = self._observe(catalog, prior, self._select(catalog, prior))
        prior = self._policies.check_catalog(catalog, prior, selected) if self._policies else prior
        recorded = not isinstance(self._environment.store, NoStore)
        options = self.options._replace(recorded=recorded, state_options=self._environment.state_options)
        plan = planner.plan(catalog, prior, selected, queries, options)
        if purge is not None:
            purge.report_unlisted(plan)
        if not recorded:
            plan = plan._replace(output_changes=())  # no output is recorded
        if self._providers.several:
            plan = plan._replace(in_sync=_recorded_in_sync(plan, self._providers))
        return self._policies.check_plan(plan) if self._policies else plan

    def _match(self, catalog: Catalog, state: StackState) -> tuple[Catalog, Prior, purging.Purging | None]:
        """Configure the providers, and match the catalog with the records of the state.

        Return the catalog and the match, both with the resources that ``purge`` deletes, and the ``Purging``, which
        later reports types that could not be listed; None if nothing is purged.
        """
        options, providers = self.options, self._providers
        if options.partial or options.replace:
            targets.check_stacks(options, state)
        instances = configure_instances(catalog, state, providers)
        catalog, prior = matching.match(catalog, instances, prune=options.prune, functions=providers.functions)
        providers.assigned = cache(partial(matching.stated_implementations, catalog, prior))
        matched = {catalog.entries[index].key: record for index, record in prior.records.items()}
        self._environment.begin_private_data(prior.state, matched)
        if not catalog.purges or options.partial or options.destroy:
            return catalog, prior, None
        purge = purging.Purging(catalog, prior, self.snapshot, self._environment.store)
        catalog, prior = purge.matched()
        providers.assigned = cache(partial(matching.stated_implementations, catalog, prior))
        return catalog, prior, purge

    def _select(self, catalog: Catalog, prior: Prior) -> set[int] | None:
        """Return the indices of the entries that ``--target``, ``--exclude`` and tags select, or None for all.

        Warn of tags that select nothing, as they may be mistyped.
        """
        options = self.options
        if not options.partial:
            return None
        selected = targets.select(
            catalog,
            options,
            partial(matching.recorded_dependents, catalog, prior),
            prior.orphans,
            prior.undeclared,
            leftovers=matching.leftovers(catalog, prior),
        )
        for warning in targets.tag_warnings(catalog, options, prior.orphans):
            self._warn(warning, "tags")
        return selected

    def _observe(
        self, catalog: Catalog, prior: Prior, selected: set[int] | None
    ) -> tuple[PlannerQueries, set[int] | None]:
        """Read the selected resources; return the planner's access to them, and the remaining selection (None: all).

        A resource could not be applied if it needs another one that is excluded (``--exclude``) and does not exist: it
        is removed from the selection, with a warning.
        """
        with self._log.bind(phase="observe"):
            if selected is None or not self.options.excludes:
                return observe(catalog, prior, selected, self.snapshot), selected
            # Excluded resources that selected ones need are read too, to know whether they exist.
            needed = targets.needed(catalog, targets.excluded(catalog, self.options, prior.undeclared), selected)
            assumed = self._environment.assumed
            needed = {index for index in needed if str(catalog.entries[index].reference) not in assumed}
            queries = observe(catalog, prior, selected | needed, self.snapshot)
            if (left_out := targets.leave_out(catalog, prior, needed, selected, queries)) is None:
                return queries, selected
            self._warn(str(left_out), "exclude")
            return queries, selected.difference(entry.index for entry in left_out.entries)

    def _warn(self, message: str, code: str) -> None:
        """Send a warning about the selection of resources."""
        self._environment.notify(Diagnosed(Problem(None, message, "warning", code=code)))

    def complete(self, plan: planner.ExecutionPlan) -> Plan:
        """Return a plan with the side effects of its steps, and warn of changes that would fail.

        Both take time, as providers compute them. Side effects are added only to a plan that is shown, or to which the
        user has agreed (``bound``): the run then refuses others. Warnings are sent only about a plan that is shown.
        """
        is_shown = self.options.shown or self.options.noop
        refusals: Sequence[side_effects.Refusal] = ()
        if (is_shown or self.options.bound) and any(_acts(step) and step.asks_side_effects for step in plan.steps):
            plan, refusals = side_effects.with_side_effects(plan, self._providers)
        plan = Plan(*plan)
        self._check_key(plan)
        if is_shown:
            self._warn_of_changes(plan, refusals)
        return plan

    def _warn_of_changes(self, plan: Plan, refusals: Sequence[side_effects.Refusal]) -> None:
        """Warn of missing prerequisites of the steps (``preflight``), and of changes that would fail (``refusals``)."""
        warnings: list[Problem] = []
        if any(_acts(step) and "preflight" in step.definition.features for step in plan.steps):
            warnings = plan_checks.preflight_warnings(plan, self._providers)
        for warning in (*warnings, *(plan_checks.refusal_warnings(plan, refusals, warnings) if refusals else ())):
            self._environment.notify(Diagnosed(warning))

    def _check_key(self, plan: Plan) -> None:
        """Raise ``UsageError``, before any change, if a provider would store secrets in a state that has no key.

        Otherwise the provider's call would fail in the middle of the run.
        """
        if not self._environment.run.private.may_hold_secrets:
            for step in plan.steps:
                if "private_secrets" in step.entry.definition.features and _acts(step):
                    raise UsageError(f"{step.reference}: {NEEDS_KEY}")


def _import_ids(catalog: Catalog, prior: Prior) -> dict[RecordKey, str]:
    """Return key → the id in ``lifecycle.import``, by which the snapshot reads a resource before it is recorded.

    Only types with the feature ``import`` can be read by an id.
    """
    return {
        entry.key: identifier
        for entry in catalog.entries
        if entry.meta is not NO_META
        and (identifier := entry.meta.lifecycle.import_) is not None
        and "import" in entry.definition.features
        and entry.index not in prior.records
    }


def _acts(step: Step) -> bool:
    """Return whether a step was decided to be anything else than unchanged, also a refused one."""
    return step.decision is not SAME


@contextmanager
def planned(
    environment: RunEnvironment, options: Options, make: Callable[[Planning], planner.ExecutionPlan], run: str = ""
) -> Iterator[tuple[Plan, Snapshot]]:
    """Yield the plan that ``make`` returns and the rows that were read for it; close the providers at the end.

    ``run``: the id of the run that will execute the plan, for which the stack is locked; "" for a plan that is only
    shown. Providers stay open meanwhile, as the run calls them.
    """
    environment.run.derived = None  # of the former run
    bound = environment.log.bind(stack=environment.stack, **({"run": run} if run else {}))
    with bound, ProviderPool(environment.registry, environment.run) as providers:
        with gc_paused(), process_guard.protected():
            planning = Planning(environment, options, providers, claims=bool(run) and not options.noop)
            plan = planning.complete(make(planning))
        yield plan, planning.snapshot


def _recorded_in_sync(plan: planner.ExecutionPlan, providers: ProviderPool) -> frozenset[int]:
    """Return the indices of a plan's entries in sync, whose records the run need not write.

    If the present provider of an entry differs from the recorded provider, as for a type with several ones, the entry
    is removed from them: the new provider must be recorded.
    """
    indices = set()
    for index in plan.in_sync:
        entry, record = plan.catalog.entries[index], plan.prior.records.get(index)
        before = record.implementation if record else None
        if providers.implementation(entry.instance, entry.name, before) == before:
            indices.add(index)
    return frozenset(indices)
