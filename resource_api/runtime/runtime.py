"""The embedding API: ``Runtime`` composes the stages into plan, apply, destroy and change. The command is built on it.

Nothing is decided here that a stage could decide, and nothing is printed.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any, overload

from resource_api.catalog import targets
from resource_api.manifest.sections import project_name
from resource_api.model.action import Action
from resource_api.model.event import Diagnosed, Finished
from resource_api.model.implied_secrets import declared_secrets
from resource_api.model.options import CacheRequest, execution_options, to_options
from resource_api.model.record import StackState
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.values import is_secret
from resource_api.plan import planner as planning
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior import match as matching
from resource_api.provider.context import RunContext
from resource_api.runtime.manifest_compiler import ManifestCompiler
from resource_api.runtime.plan_notices import log_lost_order, report_findings
from resource_api.runtime.resource_access import ResourceReader
from resource_api.runtime.results import Plan, Report
from resource_api.snapshot.configure_providers import configure_instances
from resource_api.snapshot.observe import observe
from resource_api.snapshot.snapshot import Snapshot
from resource_api.state.store import MEMORY, NoStore, StackName
from resource_api.system import process_guard
from resource_api.system.facts import Facts
from resource_api.system.gc_pause import gc_paused
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Self, Unpack

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.event import Event
    from resource_api.model.options import Options
    from resource_api.model.planner_queries import PlannerQueries
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name
    from resource_api.model.values.document import Document
    from resource_api.plugins.registry import Registry
    from resource_api.prior.match import Prior
    from resource_api.runtime.manifest_compiler import ReadContent, Source
    from resource_api.runtime.option_types import ExecutionOptions, PlanOptions, SelectionOptions
    from resource_api.runtime.plan_checks import PolicyEvaluator
    from resource_api.state.encryption.keys import Key
    from resource_api.state.store import StateStore


class _Planning(NamedTuple):
    """What one planning uses: its options, its observations with their providers, and the policies, if any."""

    options: Options
    snapshot: Snapshot
    policies: PolicyEvaluator | None


class Runtime(ResourceReader):
    """Plans and applies manifests with the types of a registry.

    A ``source`` is a manifest: the path of a file, or a mapping like the YAML's. ``inputs`` are its inputs by name.
    Every method raises ``ManifestError`` for a wrong manifest and ``StateError`` for a damaged or locked state.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        state: str | StateStore | None = "memory:",
        stack: str = "default",
        project: str | None = None,
        key: str | Key | None = None,
        log: Log | None = None,
        on_event: Callable[[Event], None] | None = None,
        step_events: bool = True,
        lock_timeout: float = 0.0,
        isolate: bool = False,
        run: RunContext | None = None,
        facts: Facts | None = None,
        contents: ReadContent | None = None,
    ) -> None:
        """Use ``registry`` for every run; nothing is read or opened yet.

        ``state``: ``memory:`` for as long as this object exists, ``sqlite:PATH``, None for the default place of the
        machine or user, or a store. ``project`` overrides the manifest's. ``key``: what secrets are encrypted with,
        as for ``--key``. ``log``: where log lines go; unless given, to the
        program's structlog if that is configured, otherwise to standard ``logging``. ``on_event`` receives every
        event of a run; without ``step_events`` only diagnostics and the final report, which is faster.
        ``lock_timeout``: seconds to wait for the state's lock. ``isolate``: run every provider in its own process.
        ``run``: a context made elsewhere, to be cancelled from there; it replaces ``log`` and ``isolate``. ``facts``:
        those of this machine unless given. ``contents`` reads the assets and archives of manifests, from this machine's
        files unless given.
        """
        if run is None:
            run = RunContext(log or Log("notice", _embedder_sink()))
            run.isolate = isolate or None
        super().__init__(registry, run)
        self.log = run.log
        self.stack = stack
        self.project = project
        self.notify: Callable[[Event], None] = on_event or (lambda _event: None)
        self._notify_steps = self.notify if step_events else None
        #: Gets the document of each finished run, as ``report --format json`` prints it; None: nobody wants it.
        self.on_document: Callable[[dict[str, Any]], None] | None = None
        #: The files that the inputs of its runs have been read from.
        self.input_files: list[str] = []
        #: References of resources that are excluded and taken for done, as a rehearsal takes what it cannot do.
        self.assumed: Collection[str] = ()
        self.lock_timeout = lock_timeout
        self.facts = facts or Facts()
        self._contents = contents
        if isinstance(key, str):
            from resource_api.state.encryption.keys import key_from_url

            key = key_from_url(key, dict(os.environ))
        self.key = key
        self._state = state
        self._began = time.time_ns()
        self._store: StateStore | None = None if state is None or isinstance(state, str) else state

    @property
    def store(self) -> StateStore:
        """The state store, opened at the first use."""
        if self._store is None:
            from resource_api.state.open_store import open_store

            self._store = open_store(None if self._state is None else str(self._state), self.key)
        return self._store

    def for_stack(self, project: str, stack: str) -> Self:
        """Return a runtime like this one, and with the same store, for another project and stack."""
        other = copy(self)
        other._store = self.store  # noqa: SLF001 - of the same class
        other.project, other.stack = project, stack
        return other

    def with_copied_state(self, store: StateStore, catalog: Catalog | None = None) -> Self:
        """Return a runtime like this one with another store, to which what its store holds is copied.

        With a ``catalog`` only what it needs: its own stack, and those whose outputs it uses. The lock is not taken.
        """
        other, names = self.with_store(store), self.store.stacks()
        if catalog is not None:
            own = self.name(catalog)
            read = (_whole_name(own.project, stack).split("/") for stack, _ in catalog.scope.stack_outputs)
            needed = {own, *(StackName(*each) for each in read)}
            names = [name for name in names if name in needed]
        with store.lock("copy", 0.0):
            for name in names:
                store.overwrite(name, self.store.load(name))
        return other

    def with_store(self, store: StateStore) -> Self:
        """Return a runtime like this one with another store."""
        other = copy(self)
        other._store = store  # noqa: SLF001 - of the same class
        return other

    def validate(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Check everything that can be checked without touching the system; return the catalog."""
        catalog = self.compile(source, inputs)
        self.name(catalog)
        if catalog.missing:
            self._report_missing(catalog)
        return catalog

    def _report_missing(self, catalog: Catalog) -> None:
        """Warn of resources whose provider cannot be made. Raise ``ManifestError`` where nothing comes before them."""
        found, before = [], False
        for entry in catalog.entries:
            if (why := catalog.missing.get(entry.instance)) is None:
                before = True
            else:
                severity = "warning" if before else "error"
                place = catalog.manifest.place(entry.declaration)
                found.append(Problem(None, why, severity, str(entry.reference), *place, code="type"))
        if any(problem.severity == "error" for problem in found):
            raise ManifestError(found)
        for problem in found:
            self.notify(Diagnosed(problem))

    def compile(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Return the catalog of a manifest."""
        with ProviderPool(self.registry, self.run) as providers, gc_paused(), process_guard.protected():
            return self.catalog(source, inputs, providers)

    def plan(
        self,
        source: Source,
        inputs: Mapping[str, Any] | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """Return what ``apply`` would do; change nothing, not even state.

        ``out``: the file in which the whole plan is saved, for ``apply``; None: in none. ``use_cache``: leave out
        resources that an earlier run found unchanged, if nothing relevant has changed since; not of a saved plan. Raise
        ``ResourceAPIError`` where the plan cannot be saved: it holds a secret and the runtime has no key, or the file
        cannot be written.
        """
        chosen = to_options(options, shown=True)
        request = self._cache_request(source, inputs or {}, chosen) if use_cache and out is None else None
        return self._plan_only(source, inputs or {}, chosen, out, request)

    @overload
    def apply(
        self,
        source: Source,
        inputs: Mapping[str, Any] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Report: ...

    @overload
    def apply(
        self,
        source: planning.Plan,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        **options: Unpack[ExecutionOptions],
    ) -> Report: ...

    def apply(
        self,
        source: Source | planning.Plan,
        inputs: Mapping[str, Any] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Report:
        """Make the system what the manifest declares; a failed resource is in the report, it raises no exception.

        A plan is planned again from its catalog and the present state. The path of a saved plan, as ``plan`` writes
        one, means exactly what that plan shows: raise ``ManifestError`` where it is stale. A plan of either kind has
        its inputs and options; how it is carried out (``ExecutionOptions``) can be given, of a saved one without
        ``strict``, ``UsageError`` for anything else and for a saved plan of another project or stack. ``on_plan``
        receives the plan before anything is changed; an exception that it raises ends the run. ``use_cache`` as for
        ``plan``, for a manifest; what a run that had nothing to do has concluded is saved for later ones.
        """
        if isinstance(source, planning.Plan):
            made, chosen = source, execution_options(source.options, inputs, options)
            return self._apply(chosen, lambda run: self._plan_again(made, run), on_plan)
        if isinstance(source, (str, os.PathLike)):
            from resource_api.runtime import saved_plan

            if (report := saved_plan.apply_file(self, os.fspath(source), inputs, options, on_plan)) is not None:
                return report
        chosen = to_options(options)
        manifest, given = source, inputs or {}
        request = self._cache_request(manifest, given, chosen) if use_cache else None
        return self._apply(chosen, lambda run: self._plan_manifest(manifest, given, run, request), on_plan, request)

    def apply_manifest(
        self, manifest: Manifest, inputs: Mapping[str, Any], options: Options, on_plan: Callable[[Plan], None]
    ) -> Report:
        """Apply a manifest that has been read already, as a saved plan embeds one."""
        return self._apply(options, lambda run: self._plan_manifest(manifest, inputs, run), on_plan)

    def destroy(
        self,
        source: Source,
        inputs: Mapping[str, Any] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        **options: Unpack[SelectionOptions],
    ) -> Report:
        """Delete every resource of the manifest's stack that state records as ours; forget the others.

        ``on_plan`` as for ``apply``: nothing is done but what it has received, and the lock is held meanwhile.
        """
        chosen = to_options(options, prune=True, destroy=True)
        return self._apply(chosen, lambda run: self._plan_manifest(source, inputs or {}, run), on_plan)

    def plan_destroy(
        self,
        source: Source,
        inputs: Mapping[str, Any] | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        **options: Unpack[SelectionOptions],
    ) -> Plan:
        """Return what ``destroy`` would do; ``out`` as for ``plan``."""
        chosen = to_options(options, prune=True, destroy=True, shown=True)
        return self._plan_only(source, inputs or {}, chosen, out)

    def _plan_only(
        self,
        source: Source,
        inputs: Mapping[str, Any],
        options: Options,
        out: str | os.PathLike[str] | None,
        request: CacheRequest | None = None,
    ) -> Plan:
        with self._planned(options, lambda run: self._plan_manifest(source, inputs, run, request)) as (plan, _):
            if out is not None:
                from resource_api.runtime import saved_plan

                saved_plan.write_beside(plan, os.fspath(out), self.key)
            return plan

    def change(self, source: Source, **options: Unpack[ExecutionOptions]) -> Report:
        """Apply the resources of a manifest without recording them; log a warning for those that a stack records."""
        chosen, run = to_options(options), _run_id()
        with (
            self._lock("resource", chosen),
            self._planned(chosen, lambda given: self._plan_unrecorded(source, given), run) as (plan, snapshot),
        ):
            for stack in self.store.stacks():
                with suppress(UsageError):  # it is encrypted, and this command was given no key
                    records = self.store.load(stack).records
                    for step in (each for each in plan.steps if each.entry.key in records):
                        where = f"stack '{stack.stack}' of '{stack.project}'"
                        text = f"is recorded in {where}{_effect_on_change(step, records[step.entry.key])}"
                        reference = str(step.reference)
                        self.log.write("warning", reference, text, step.entry.type, reference=reference)
            return self._execute(plan, snapshot, "resource", run, record=False)

    def catalog(self, source: Source, inputs: Mapping[str, Any] | None, providers: ProviderPool) -> Catalog:
        """Return the catalog of a manifest for one run with ``providers``; report its warnings, mask its secrets."""
        with self.log.bind(phase="compile"):
            return self._reported(self._compiler.compile(source, inputs or {}, providers))

    def read_python(self, raw: bytes, file: str, inputs: Mapping[str, Any]) -> Document:
        """Return the document of a Python manifest, which is executed. Raise ``ManifestError``."""
        return self._compiler.read_python(raw, file, inputs)

    def name(self, catalog: Catalog) -> StackName:
        """Return the project and stack of a run. Raise ``UsageError`` or ``ManifestError`` for invalid names."""
        return StackName(self.project or project_name(catalog.manifest), self.stack).checked()

    @property
    def _compiler(self) -> ManifestCompiler:
        compiler = ManifestCompiler(self.registry, self.facts, self.log, self._stack_outputs, self._contents)
        compiler.input_files = self.input_files
        return compiler

    def _stack_outputs(self, project: str, name: str) -> Mapping[str, Any]:
        from resource_api.runtime import recorded_stack

        found = recorded_stack.stack_outputs(self.store, StackName(self.project or project, self.stack), name)
        self.log.mask.add(found)
        return found

    def _reported(self, catalog: Catalog) -> Catalog:
        catalog = self._masked(catalog)
        for warning in catalog.warnings:
            self.notify(Diagnosed(warning))
        for note in catalog.notes:
            self.log.write("debug", "", note)
        return catalog

    def _masked(self, catalog: Catalog) -> Catalog:
        """Mask the secrets of a catalog in everything that is logged from now on; warn of those that are too short."""
        inputs = {name: value for name, value in catalog.scope.inputs.items() if is_secret(value)}
        entries = [entry for entry in catalog.entries if entry.definition.sensitive]
        for entry in catalog.entries:
            if entry.definition.secret:
                self.log.mask.add([entry.should, declared_secrets(entry.definition, entry.should)])
        if not (inputs or entries):
            return catalog
        from resource_api.runtime.unmaskable_secrets import warnings

        found = warnings(catalog.manifest, inputs, entries, self.log.mask)
        return catalog._replace(warnings=[*catalog.warnings, *found])

    def _lock(self, command: str, options: Options) -> AbstractContextManager[Any]:
        return nullcontext() if options.noop else self.lock(command)

    def lock(self, command: str) -> AbstractContextManager[None]:
        """Return a context that holds the lock of the state for one run of ``command``; a wait for it is shown."""
        if self.run.progress is None or not self.lock_timeout:
            return self.store.lock(command, self.lock_timeout)
        from resource_api.runtime import lock_wait

        return lock_wait.held(self.store, command, self.lock_timeout, self.run.progress(), self.log)

    # Planning, by kind of source

    @contextmanager
    def _planned(
        self, options: Options, make: Callable[[_Planning], planning.Plan], run: str = ""
    ) -> Iterator[tuple[Plan, Snapshot]]:
        """Yield the plan that ``make`` returns, and what was read for it; close the providers at the end.

        ``run`` is the id of the run that it is for; empty: there is none.
        """
        self.run.derived = None
        bound = self.log.bind(stack=self.stack, **({"run": run} if run else {}))
        with bound, ProviderPool(self.registry, self.run) as providers:
            with gc_paused(), process_guard.protected():
                policies = self._policies()
                providers.check_policies = policies.check_resource if policies else None
                snapshot = Snapshot(providers, options.strict)
                made = make(_Planning(options, snapshot, policies))
                if options.shown or options.noop or options.bound:
                    made = _with_side_effects(made, providers)
                plan = Plan(*made)
                if options.shown or options.noop:
                    self._check_prerequisites(plan, providers)
            yield plan, snapshot

    def _plan_manifest(
        self,
        source: Source,
        inputs: Mapping[str, Any],
        run: _Planning,
        request: CacheRequest | None = None,
    ) -> planning.Plan:
        """Return the plan of a manifest; for ``destroy`` that of the empty manifest of its project."""
        if run.options.destroy:
            return self._plan_empty(source, inputs, run)
        if request is not None:
            from resource_api.provider.derived import DerivedValues

            self.run.derived = DerivedValues()
        cached = self._plan_incrementally(request, run) if request is not None and run.policies is None else None
        return cached or self._plan_catalog(self.catalog(source, inputs, run.snapshot.providers), run)

    def _plan_empty(self, source: Source, inputs: Mapping[str, Any], run: _Planning) -> planning.Plan:
        with self.log.bind(phase="compile"):
            catalog = self._reported(self._compiler.compile_providers(source, inputs, run.snapshot.providers))
        return self._plan_catalog(catalog, run)

    def _plan_again(self, plan: planning.Plan, run: _Planning) -> planning.Plan:
        declared = [entry for entry in plan.catalog.entries if entry.index not in plan.prior.orphans]
        return self._plan_catalog(plan.catalog._replace(entries=declared), run)

    def _plan_unrecorded(self, source: Source, run: _Planning) -> planning.Plan:
        catalog = self.catalog(source, {}, run.snapshot.providers)
        return self._decide(catalog, StackState(*self.name(catalog)), run)

    def _plan_catalog(self, catalog: Catalog, run: _Planning) -> planning.Plan:
        state = self.store.load(self.name(catalog))
        targets.check_prune(catalog, state, run.options, named=self.project is not None)
        return self._decide(catalog, state, run)

    def _decide(self, catalog: Catalog, state: StackState, run: _Planning) -> planning.Plan:
        """Match a catalog with its state, observe, and plan."""
        with self.log.bind(project=state.project, stack=state.stack, phase="plan"):
            return self._decide_steps(catalog, state, run)

    def _decide_steps(self, catalog: Catalog, state: StackState, run: _Planning) -> planning.Plan:
        options, snapshot, policies = run
        targets.check_stacks(options, state)
        instances = configure_instances(catalog, state, snapshot.providers)
        catalog, prior = matching.match(catalog, instances, prune=options.prune, functions=snapshot.providers.functions)
        snapshot.providers.assigned = cache(partial(_stated_implementations, catalog, prior))
        self.log.mask.add([catalog.entries[index].should for index in prior.orphans])
        recorded_dependents = partial(matching.recorded_dependents, catalog, prior)
        selected = targets.select(
            catalog,
            options,
            recorded_dependents,
            prior.orphans,
            prior.undeclared,
            leftovers=matching.leftovers(catalog, prior) if options.partial else {},
        )
        for warning in targets.tag_warnings(catalog, options, prior.orphans):
            self.notify(Diagnosed(Problem(None, warning, "warning", code="tags")))
        with self.log.bind(phase="observe"):
            queries, selected = self._observe(catalog, prior, selected, run)
        prior = policies.check_catalog(catalog, prior, selected) if policies else prior
        recorded = not isinstance(self.store, NoStore)
        planned = planning.plan(catalog, prior, selected, queries, options._replace(recorded=recorded))
        if not recorded:
            planned = planned._replace(output_changes=())  # no output is recorded
        if snapshot.providers.several:
            planned = planned._replace(in_sync=_recorded_in_sync(planned, snapshot.providers))
        return policies.check_plan(planned) if policies else planned

    def _observe(
        self, catalog: Catalog, prior: Prior, selected: set[int] | None, run: _Planning
    ) -> tuple[PlannerQueries, set[int] | None]:
        """Read what a plan needs; return what answers its questions, and what is selected.

        What needs an excluded resource that does not exist is not selected any more, and a warning names it.
        """
        options, snapshot, _ = run
        if selected is None or not options.excludes:
            return observe(catalog, prior, selected, snapshot), selected
        from resource_api.plan import exclusion

        excluded = targets.excluded(catalog, options, prior.undeclared)
        needed = exclusion.needed(catalog, excluded, selected)
        needed = {index for index in needed if str(catalog.entries[index].reference) not in self.assumed}
        queries = observe(catalog, prior, selected | needed, snapshot)
        if (left_out := exclusion.leave_out(catalog, prior, needed, selected, queries)) is None:
            return queries, selected
        self.notify(Diagnosed(Problem(None, str(left_out), "warning", code="exclude")))
        return queries, selected.difference(entry.index for entry in left_out.entries)

    def _check_prerequisites(self, plan: Plan, providers: ProviderPool) -> None:
        """Report what the changes of a plan need and this machine lacks."""
        if any(step.decision is not SAME and "preflight" in step.definition.features for step in plan.steps):
            from resource_api.runtime import plan_checks

            for warning in plan_checks.preflight_warnings(plan, providers):
                self.notify(Diagnosed(warning))

    def _policies(self) -> PolicyEvaluator | None:
        """Return the evaluator of the policies, None where there are none. Raise ``DefinitionError``."""
        if not (policies := self.registry.policies()):
            return None
        from resource_api.runtime.plan_checks import PolicyEvaluator

        return PolicyEvaluator(policies, self.notify)

    # The no-change cache

    def _cache_request(self, source: Source, inputs: Mapping[str, Any], options: Options) -> CacheRequest | None:
        """Return what identifies a run in the cache; None where it cannot be used or its conclusions not be kept."""
        if not isinstance(source, str) or isinstance(self.store, NoStore) or not options.plain:
            return None
        label = json.dumps([source, os.path.abspath(source), self.stack, self.project])
        return CacheRequest(source, label, inputs, options, self._began)

    def _plan_incrementally(self, request: CacheRequest, run: _Planning) -> planning.Plan | None:
        """Return a plan without what an earlier run found unchanged; None where a whole one must be made."""
        if (cached := self.store.load_conclusion(request.label)) is None:
            return None
        from resource_api.cache.incremental_plan import Planner, plan

        snapshot, compiler = run.snapshot, self._compiler
        planner = Planner(
            lambda manifest: self._masked(compiler.compile(manifest, request.inputs, snapshot.providers)),
            lambda catalog, state: self._decide(catalog, state, run),
        )
        return plan(request, cached, snapshot, planner)

    # Execution

    def _apply(
        self,
        options: Options,
        make: Callable[[_Planning], planning.Plan],
        on_plan: Callable[[Plan], None] | None,
        request: CacheRequest | None = None,
    ) -> Report:
        """Plan and execute under the lock; save what a run with nothing to do has concluded."""
        run, command = _run_id(), "destroy" if options.destroy else "apply"
        with self._lock(command, options), self._planned(options, make, run) as (plan, snapshot):
            if on_plan is not None:
                on_plan(plan)
            report = self._execute(plan, snapshot, command, run)
            unchanged = plan.in_sync and not (options.noop or report.steps or report.exit_code)
            if unchanged and request is not None and snapshot.providers.check_policies is None:
                from resource_api.cache import incremental_plan

                incremental_plan.save(request, plan, snapshot.providers, self.store)
            return report

    def _execute(self, plan: Plan, snapshot: Snapshot, command: str, run: str, *, record: bool = True) -> Report:
        """Execute a plan under the lock and record what happened, also when it is interrupted."""
        from resource_api.transaction.recorder import Recorder
        from resource_api.transaction.records import Records
        from resource_api.transaction.transaction import Transaction

        name, started = self.name(plan.catalog), time.time()
        with self.log.bind(**name._asdict(), phase="plan"):
            report_findings(plan, self.log, self.store, self._notify_steps, recorded=record)
            if plan.options.parallel > 1 and self.log.enabled("info"):
                log_lost_order(plan, self.store.history(name), self.log)
        unrecorded = plan.options.noop or not record or isinstance(self.store, NoStore)
        records = Records(plan, snapshot.providers.several)
        recorder = Recorder(None if unrecorded else self.store, name, plan, run, records)
        transaction = Transaction(plan, snapshot, recorder, self._notify_steps)
        self.run.applying = True
        try:
            with self.log.bind(**name._asdict(), phase="apply"):
                report = Report(*transaction.run()._replace(run=run))
        finally:
            # A later run of the same program starts uncancelled.
            self.run.applying = self.run.cancelled = self.run.stopping = False
        self._report(plan, report, {**name._asdict(), "command": command, "started": started}, recorded=not unrecorded)
        snapshot.providers.close(interrupted=transaction.stopped is not None)
        for problem in report.problems:
            self.notify(Diagnosed(problem))
        self.notify(Finished(report))
        return report

    def _report(self, plan: Plan, report: Report, about: Mapping[str, Any], *, recorded: bool) -> None:
        """Record that a run has ended, keep what it has done, and give that to ``on_document``."""
        code = 128 + self.run.signal if self.run.signal else report.exit_code
        summary = {**report.summary._asdict(), "exit_code": code}
        times = {"started": about["started"], "ended": time.time(), "parallel": plan.options.parallel}
        run = {"run": report.run, "command": about["command"], **times, "summary": summary, "drifted": len(plan.drift)}
        if recorded:
            used = {_whole_name(about["project"], stack) for stack, _ in plan.catalog.scope.stack_outputs}
            read = [[_whole_name(about["project"], stack), name] for stack, name in plan.catalog.scope.stack_outputs]
            finished = {**run, "stacks": sorted(used), "outputs_read": read} if used else run
            self.store.finish_run(StackName(about["project"], about["stack"]), finished)
        kept = recorded and bool(report.changed or report.exit_code)
        if not kept and self.on_document is None:
            return
        from resource_api.render.runs import document as run_document

        text = run_document.encode(plan, report, {**about, **run}, self.log.mask)
        try:
            if kept:
                self.store.save_run(report.run, text.encode())
        except OSError as error:
            self.log.write("warning", "", f"no report of this run is kept: {error.strerror}")
        if self.on_document is not None:
            self.on_document(run_document.document(text))


def _with_side_effects(plan: planning.Plan, providers: ProviderPool) -> planning.Plan:
    """Return a plan whose steps have what they do besides; what is forbidden of that fails them."""
    if any(step.decision is not SAME and step.asks_side_effects for step in plan.steps):
        from resource_api.transaction.side_effects import with_side_effects

        return with_side_effects(plan, providers)
    return plan


def _whole_name(project: str, stack: str) -> str:
    """Return ``PROJECT/STACK`` for the name by which a manifest of ``project`` calls a stack."""
    return stack if "/" in stack else f"{project}/{stack}"


def state_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Runtime`` that say where state is kept, from the options of a command."""
    return {
        "state": NoStore() if options.get("state") in MEMORY else options.get("state"),
        "stack": options.get("stack") or "default",
        "project": options.get("project"),
        "key": options.get("key"),
        "lock_timeout": options.get("lock_timeout") or 0.0,
    }


def _run_id() -> str:
    return os.urandom(8).hex()


def _embedder_sink() -> Callable[..., None]:
    from resource_api.system.structured_log import EmbedderSink

    return EmbedderSink()


def _effect_on_change(step: Step, record: Record) -> str:
    """Return what the next apply of a stack does to a change of a resource that it has recorded; empty: no change."""
    if step.action is Action.SAME:
        return ""
    changed = [each.attribute for each in step.changes]
    if step.action is Action.UPDATE and record.should.keys().isdisjoint(changed):
        return f", which does not declare {', '.join(changed)}; the next apply of that stack leaves this change"
    return "; the next apply of that stack will undo this change"


def _recorded_in_sync(plan: planning.Plan, providers: ProviderPool) -> frozenset[int]:
    """Return what is in sync without those of which another one of several providers is recorded than manages them."""
    found = set()
    for index in plan.in_sync:
        entry, record = plan.catalog.entries[index], plan.prior.records.get(index)
        before = record.implementation if record else None
        if providers.implementation(entry.instance, entry.name, before) == before:
            found.add(index)
    return frozenset(found)


def _stated_implementations(catalog: Catalog, prior: Prior, instance: str) -> Mapping[Name, str]:
    from resource_api.prior.stated_implementations import stated_implementations

    return stated_implementations(catalog, prior, instance)
