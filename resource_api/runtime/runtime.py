"""The embedding API: ``Runtime`` composes the stages into plan, apply, destroy and change, and records each run."""

from __future__ import annotations

import json
import os
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, overload

from resource_api.cache import incremental_plan
from resource_api.model.options import CacheRequest, execution_options, to_options
from resource_api.model.report import Diagnosed, Finished, RunReport
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.plan import planner
from resource_api.render import json as documents
from resource_api.render import run_document, text
from resource_api.runtime import saved_plan
from resource_api.runtime.environment import RunEnvironment, read_saved_plan, stack_name
from resource_api.runtime.plan_notices import log_lost_order, log_recorded_elsewhere, report_findings
from resource_api.runtime.planning import Plan, Planning, planned
from resource_api.runtime.single_resource import manifest_of, values_of_change
from resource_api.state.store import MEMORY, NoStore
from resource_api.transaction.recorder import Recorder, Records
from resource_api.transaction.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from resource_api.catalog.compile import Catalog
    from resource_api.model.options import ExecutionOptions, Options, PlanOptions, SelectionOptions
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.reference import Reference
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.saved_plan import SavedPlan
    from resource_api.snapshot.batched_get import Snapshot
    from resource_api.state.store import StackName


class Report(RunReport):
    """The result of a run: ``steps`` (acted, failed, skipped or noop), ``summary``, ``exit_code``.

    ``str(report)`` is the summary that ``resource-api apply`` prints last.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the summary of the run on one line."""
        return text.report(self)

    def to_dict(self) -> dict[str, Any]:
        """Return ``steps``, ``outputs`` and ``summary`` as JSON documents, as in ``resource-api apply --json``."""
        return documents.report(self)


class Runtime(RunEnvironment):
    """Plans and applies manifests with the types of a registry.

    A ``source`` is a manifest: the path of a file, or a mapping like the YAML's. ``inputs`` are its inputs by name.
    Every method raises ``ManifestError`` for a wrong manifest and ``StateError`` for a damaged or locked state.
    """

    def validate(self, source: Source, inputs: Mapping[str, object] | None = None) -> Catalog:
        """Check a manifest as far as possible without access to the managed system; return its catalog.

        Raise ``ManifestError`` for its mistakes.
        """
        catalog = self.compile(source, inputs)
        self.name(catalog)  # raises for an invalid name of project or stack
        if catalog.missing:
            self._report_missing(catalog)
        return catalog

    def _report_missing(self, catalog: Catalog) -> None:
        """Warn of resources whose provider lacks a requirement, such as a Python package.

        A resource before them in the manifest may install it. Raise ``ManifestError`` if there is none before them.
        """
        problems, before = [], False
        for entry in catalog.entries:
            if (reason := catalog.missing.get(entry.instance)) is None:
                before = True
            else:
                severity = "warning" if before else "error"
                position = catalog.manifest.place(entry.declaration)
                problems.append(Problem(None, reason, severity, str(entry.reference), *position, code="type"))
        if any(problem.severity == "error" for problem in problems):
            raise ManifestError(problems)
        for problem in problems:
            self.notify(Diagnosed(problem))

    def plan(
        self,
        source: Source,
        inputs: Mapping[str, object] | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """Return the plan of ``apply``; change nothing, not even state.

        ``out``: a file in which the whole plan is saved, for ``apply``. ``use_cache``: leave out resources that an
        earlier run found unchanged, if nothing relevant changed since; ignored with ``out``. Raise ``ResourceAPIError``
        where the plan cannot be saved: it holds a secret and the runtime has no key, or the file cannot be written.
        """
        run_options = to_options(options, shown=True)
        request = self._cache_request(source, inputs or {}, run_options) if use_cache and out is None else None
        return self._plan_only(source, inputs or {}, run_options, out, request)

    @overload
    def apply(
        self,
        source: Source,
        inputs: Mapping[str, object] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Report: ...  # a manifest: inputs and options of the plan may be given

    @overload
    def apply(
        self,
        source: planner.ExecutionPlan,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        **options: Unpack[ExecutionOptions],
    ) -> Report: ...  # a plan: it has its inputs and options already

    def apply(
        self,
        source: Source | planner.ExecutionPlan,
        inputs: Mapping[str, object] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        use_cache: bool = False,
        **options: Unpack[PlanOptions],
    ) -> Report:
        """Bring the system to the declared state; a failed resource is in the report and raises no exception.

        ``source`` is a manifest, a plan, or the path of a saved plan. A plan is made again from its catalog and the
        present state. Of a saved plan exactly the saved steps are done: raise ``ManifestError`` if it is stale. A plan
        of either kind has its own inputs and options: raise ``UsageError`` for others than ``ExecutionOptions``, for a
        saved plan also for ``strict`` and for another project or stack. ``on_plan`` receives the plan before anything
        is changed; an exception that it raises ends the run. ``use_cache``, for a manifest: save the conclusion of a
        run that had nothing to do, and plan only the resources that have changed since such a run.
        """
        if isinstance(source, planner.ExecutionPlan):
            plan, run_options = source, execution_options(source.options, inputs, options)
            return self._apply(run_options, lambda planning: planning.plan_again(plan), on_plan)
        if isinstance(source, (str, os.PathLike)) and (document := read_saved_plan(os.fspath(source))) is not None:
            path, stack = os.fspath(source), {"project": self.project, "stack": self.stack}
            saved_plan.check_arguments(document, path, inputs, options, stack)
            # a plan that was made under noop is carried out all the same
            return self.apply_saved(saved_plan.SavedPlan(document, path, self.key), {"noop": False, **options}, on_plan)
        manifest, values, run_options = source, inputs or {}, to_options(options)
        request = self._cache_request(manifest, values, run_options) if use_cache else None
        return self._apply(
            run_options, lambda planning: planning.plan_manifest(manifest, values, request), on_plan, request
        )

    def apply_saved(
        self, saved: SavedPlan, options: Mapping[str, Any], on_plan: Callable[[Plan], None] | None = None
    ) -> Report:
        """Apply a saved plan with execution options: plan again, compare both, and execute the new plan if they agree.

        ``on_plan`` receives the new plan after the comparison. The project and stack are those of the saved one, set in
        a copy of this runtime. Raise ``ManifestError`` where it is stale.
        """

        def check(plan: Plan) -> None:
            saved.check(plan)
            if on_plan is not None:
                on_plan(plan)

        runtime, run_options = self.with_store(self.store), saved.options._replace(**options)
        runtime.project, runtime.stack = saved.project, saved.stack
        return runtime._apply(  # noqa: SLF001 - of the same class
            run_options, lambda planning: planning.plan_manifest(saved.manifest, saved.inputs), check
        )

    def destroy(
        self,
        source: Source,
        inputs: Mapping[str, object] | None = None,
        *,
        on_plan: Callable[[Plan], None] | None = None,
        **options: Unpack[SelectionOptions],
    ) -> Report:
        """Delete every resource of the manifest's stack that state records as ours; forget the others.

        ``on_plan`` receives the plan before anything is changed, while the lock is held: only its steps are done. An
        exception that it raises ends the run.
        """
        run_options = to_options(options, prune=True, destroy=True)
        return self._apply(run_options, lambda planning: planning.plan_manifest(source, inputs or {}), on_plan)

    def plan_destroy(
        self,
        source: Source,
        inputs: Mapping[str, object] | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        **options: Unpack[SelectionOptions],
    ) -> Plan:
        """Return the plan of ``destroy``; ``out``: a file in which it is saved, for ``apply``."""
        return self._plan_only(source, inputs or {}, to_options(options, prune=True, destroy=True, shown=True), out)

    def change(self, source: Source, **options: Unpack[ExecutionOptions]) -> Report:
        """Apply the resources of a manifest without recording them, for the command ``resource``.

        Log a warning for resources that a stack records, since the next apply of the stack may undo the change.
        """
        run_options, run = to_options(options), _run_id()
        with (
            self._lock_unless_noop("resource", run_options),
            planned(self, run_options, lambda planning: planning.plan_unrecorded(source), run) as (plan, snapshot),
        ):
            log_recorded_elsewhere(plan, self.store, self.log)
            return self._execute(plan, snapshot, "resource", run, of_stack=False)

    def change_resource(
        self,
        definition: TypeDefinition,
        reference: Reference,
        row: Mapping[str, object],
        attributes: Mapping[str, object],
        *,
        selected: SelectedProvider | None = None,
        **options: Unpack[ExecutionOptions],
    ) -> Report:
        """Change ``attributes`` of one resource, whose present values are ``row``, without recording it.

        Other attributes are declared with their present values, so that the change does not reset them to their
        defaults. A present value that is not valid together with the change is not declared. ``selected``: the
        configured provider of the resource, None for the default one. Raise ``ManifestError`` without positions.
        """
        declared, defaults = values_of_change(definition, row, attributes)
        # First try all present values together; if they are not valid with the change, then those that are valid alone.
        with suppress(ManifestError):
            return self.change(manifest_of(reference, {**defaults, **declared}, selected), **options)
        for name, value in defaults.items():
            if self._is_valid(manifest_of(reference, {name: value, **declared}, selected)):
                declared[name] = value
        try:
            return self.change(manifest_of(reference, declared, selected), **options)
        except ManifestError as error:
            raise ManifestError([problem._replace(file="") for problem in error.problems]) from error

    def _is_valid(self, manifest: Mapping[str, object]) -> bool:
        """Return whether a manifest can be compiled, by which ``change_resource`` tests values together."""
        try:
            self.compile(manifest)
        except ManifestError:
            return False
        return True

    def _plan_only(
        self,
        source: Source,
        inputs: Mapping[str, object],
        options: Options,
        out: str | os.PathLike[str] | None,
        request: CacheRequest | None = None,
    ) -> Plan:
        """Return a plan that is only shown, or saved in the file ``out`` for a later ``apply``; nothing is locked.

        ``request``: use the no-change cache, or None.
        """
        with planned(self, options, lambda planning: planning.plan_manifest(source, inputs, request)) as (plan, _):
            if out is not None:
                saved_plan.check_target(os.fspath(out), (read.file for read in plan.catalog.manifest.documents))
                saved_plan.write(plan, os.fspath(out), self.key)
            return plan

    def _apply(
        self,
        options: Options,
        make: Callable[[Planning], planner.ExecutionPlan],
        on_plan: Callable[[Plan], None] | None,
        request: CacheRequest | None = None,
    ) -> Report:
        """Plan and execute under the lock, so that no other run changes the state between both.

        ``make`` returns the plan, from a manifest, a saved plan or an earlier plan; ``on_plan`` receives it. With a
        ``request`` of the no-change cache, the conclusion of a run that had nothing to do is saved, so that the next
        run plans only resources that have changed.
        """
        run, command = _run_id(), "destroy" if options.destroy else "apply"
        with self._lock_unless_noop(command, options), planned(self, options, make, run) as (plan, snapshot):
            if on_plan is not None:
                on_plan(plan)
            report = self._execute(plan, snapshot, command, run)
            had_nothing_to_do = plan.in_sync and not (options.noop or report.steps or report.exit_code)
            if request is not None and had_nothing_to_do and _is_cacheable(plan, snapshot):
                incremental_plan.save(request, plan, snapshot.providers, self.store)
            return report

    def _lock_unless_noop(self, command: str, options: Options) -> AbstractContextManager[Any]:
        """Return the lock of the state for a run; a noop run writes nothing and needs none."""
        return nullcontext() if options.noop else self.lock(command)

    def _cache_request(self, source: Source, inputs: Mapping[str, object], options: Options) -> CacheRequest | None:
        """Return the key of a run in the no-change cache, or None if the run cannot use the cache.

        It can only if the manifest is a file, a state records the run, and no option changes the planned steps.
        """
        if not isinstance(source, str) or isinstance(self.store, NoStore) or not options.plain:
            return None
        label = json.dumps([source, os.path.abspath(source), self.stack, self.project])
        return CacheRequest(source, label, inputs, options, self.created)

    def _execute(self, plan: Plan, snapshot: Snapshot, command: str, run: str, *, of_stack: bool = True) -> Report:
        """Execute a plan and record its outcomes, also when it is interrupted; ``run`` is the id of the run.

        ``of_stack``: False for a change by the command ``resource``, which is not recorded in a stack.
        """
        name, started, log, context = self.name(plan.catalog), time.time(), self.log, self.run
        # State is not written by a noop run, nor where there is no state.
        recorded = of_stack and not plan.options.noop and not isinstance(self.store, NoStore)
        with log.bind(**name._asdict(), phase="plan"):
            report_findings(plan, log, self.store, self.notify_steps, recorded=of_stack)
            if plan.options.parallel > 1 and log.enabled("info"):
                log_lost_order(plan, self.store.history(name), log)
        records = Records(plan, snapshot.providers.several, context.private)
        recorder = Recorder(self.store if recorded else None, name, plan, run, records)
        transaction = Transaction(plan, snapshot, recorder, self.notify_steps)
        context.applying = True
        try:
            with log.bind(**name._asdict(), phase="apply"):
                report = Report(*transaction.run()._replace(run=run))
        finally:
            # A later run of the same program starts uncancelled.
            context.applying = context.cancelled = context.stopping = False
        self._finish(plan, report, command, started, recorded=recorded)
        snapshot.providers.close(interrupted=transaction.stopped is not None)
        for problem in report.problems:
            self.notify(Diagnosed(problem))
        self.notify(Finished(report))
        return report

    def _finish(self, plan: Plan, report: Report, command: str, started: float, *, recorded: bool) -> None:
        """Add the run to the history, save its document if it did anything, and pass the document to ``on_document``.

        The history is written only if the run is ``recorded``; a run without a change or failure leaves a line in it
        and no document. ``started``: its begin, in seconds since 1970. A run that a signal has ended has the exit code
        of shells.
        """
        name = self.name(plan.catalog)
        code = 128 + self.run.signal if self.run.signal else report.exit_code
        fields: dict[str, object] = {
            "run": report.run,
            "command": command,
            "started": started,
            "ended": time.time(),
            "parallel": plan.options.parallel,
            "summary": {**report.summary._asdict(), "exit_code": code},
            "drifted": len(plan.drift),
        }
        if recorded:
            self.store.finish_run(name, {**fields, **_outputs_read(plan, name)})
        is_saved = recorded and bool(report.changed or report.exit_code)
        if not is_saved and self.on_document is None:
            return
        content = run_document.encode(plan, report, {**name._asdict(), **fields}, self.log.mask)
        if is_saved:
            try:
                self.store.save_run(report.run, content.encode())
            except OSError as error:
                self.log.write("warning", "", f"no report of this run is kept: {error.strerror}")
        if self.on_document is not None:
            self.on_document({**run_document.document(content)})


def _outputs_read(plan: Plan, name: StackName) -> dict[str, object]:
    """Return the fields for a run's line in the history about the outputs of other stacks that it has read, if any.

    By these, a run that removes an output warns of the stacks that read it.
    """
    outputs = [
        ["/".join(stack_name(name.project, stack)), output] for stack, output in plan.catalog.scope.stack_outputs
    ]
    return {"stacks": sorted({stack for stack, _ in outputs}), "outputs_read": outputs} if outputs else {}


def _is_cacheable(plan: Plan, snapshot: Snapshot) -> bool:
    """Return whether a later run may rely on the cache: it must not skip policies, nor a reading with private data."""
    has_private_data = any(record.private is not None for record in plan.prior.records.values())
    return snapshot.providers.check_policies is None and not has_private_data


def state_settings(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of ``Runtime`` about its state, from options of a command or job, such as ``--state``.

    A state in memory would be lost at the end of the command, so the command has none (``NoStore``).
    """
    return {
        "state": NoStore() if options.get("state") in MEMORY else options.get("state"),
        "stack": options.get("stack") or "default",
        "project": options.get("project"),
        "key": options.get("key"),
        "lock_timeout": options.get("lock_timeout") or 0.0,
    }


def _run_id() -> str:
    """Return a random id, under which the history and the log name a run."""
    return os.urandom(8).hex()
