"""Composes the stages: the way in for programs that embed us, and all that the command does.

Nothing is decided here that a stage could decide, and nothing is printed.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from resource_api.catalog import targets
from resource_api.manifest import read as reading
from resource_api.model.event import Diagnosed, Finished
from resource_api.model.options import CacheRequest, Options, apply_options
from resource_api.model.record import StackState
from resource_api.model.values.errors import UsageError
from resource_api.plan import planner as planning
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior import match as matching
from resource_api.provider.context import RunContext
from resource_api.runtime.announce import announce, reorder
from resource_api.runtime.compile import Compiler, Emptied
from resource_api.runtime.listing import Reader
from resource_api.snapshot.configure_providers import configure_instances
from resource_api.snapshot.observe import observe
from resource_api.snapshot.snapshot import Snapshot
from resource_api.state.store import NoStore, StackName
from resource_api.system import process_guard
from resource_api.system.facts import Facts
from resource_api.system.gc_pause import gc_paused
from resource_api.system.log import Log, structured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.event import Event
    from resource_api.model.report import Report
    from resource_api.plan.planner import Plan
    from resource_api.plugins.registry import Registry
    from resource_api.runtime.policies import Judge
    from resource_api.state.encryption.keys import Key
    from resource_api.state.store import StateStore

    Source = str | os.PathLike[str] | Mapping[str, Any]


class Runtime(Reader):
    """Plans and applies manifests with the types of a registry.

    ``state``: where what is known between runs is kept (``memory:`` for this object's life, ``sqlite:PATH``, None for
    the machine's or user's own place), or a store. ``key``: what it is encrypted with, as ``--key`` names it. ``log``
    takes the lines, ``tell`` every event of a run. ``isolate`` runs every provider in a process of its own.
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
        tell: Callable[[Event], None] | None = None,
        lock_timeout: float = 0.0,
        isolate: bool = False,
    ) -> None:
        """Use ``registry`` for every run; nothing is read or opened yet."""
        self.log = log or Log("notice", structured())
        super().__init__(registry, RunContext(self.log))
        self.run.isolate = isolate
        self.stack = stack
        self.project = project
        self.tell = tell or (lambda _event: None)
        #: Whether ``tell`` wants to know of each step, as it begins and ends.
        self.followed = True
        self.lock_timeout = lock_timeout
        #: Whether plans may leave out what is in order, where an earlier run knows so already.
        self.use_cache = False
        self.facts = Facts()
        if isinstance(key, str):
            from resource_api.state.encryption.keys import key_from_url  # noqa: PLC0415 - most have none

            key = key_from_url(key, dict(os.environ))
        self.key = key
        self._state = state
        self._began = time.time_ns()
        self._store: StateStore | None = None if state is None or isinstance(state, str) else state

    @property
    def store(self) -> StateStore:
        """Where state is kept, opened when first asked for."""
        if self._store is None:
            from resource_api.state.open_store import open_store  # noqa: PLC0415 - many are given one

            self._store = open_store(None if self._state is None else str(self._state), self.key)
        return self._store

    def validate(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Check everything that can be checked without touching the system. Raises ``ManifestError``."""
        catalog = self.compile(source, inputs)
        self.name(catalog)
        return catalog

    def compile(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Give the catalog of a manifest. Raises ``ManifestError``."""
        with ProviderPool(self.registry, self.run) as providers, gc_paused(), process_guard.protected():
            return self.catalog(source, inputs, providers)

    def plan(self, source: Source, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Plan:
        """Give what ``apply`` would do; changes nothing, not even state. ``wishes`` are the fields of ``Options``."""
        with self._planned(source, inputs, Options(**wishes, shown=True)) as (plan, _):
            return plan

    def apply(self, source: Source | Plan, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Report:
        """Bring the system to what the manifest says; a failed resource is in the report, no exception."""
        return self.apply_planned(source, inputs or {}, Options(**wishes), lambda _plan: None)

    def apply_planned(
        self, source: Any, inputs: Mapping[str, Any], options: Options, check: Callable[[Plan], None]
    ) -> Report:
        """Plan, let ``check`` refuse (it raises), and carry out."""
        lock = nullcontext() if options.noop else self.store.lock("apply", self.lock_timeout)
        with lock, self._planned(source, inputs, options) as (plan, snapshot):
            check(plan)
            report = self._carry_out(plan, snapshot, "apply")
            idle = not (options.noop or report.steps or report.exit_code)
            if (
                idle
                and plan.in_sync
                and (request := self._cache_request(source, inputs, options, snapshot)) is not None
            ):
                from resource_api.cache import incremental_plan  # noqa: PLC0415 - there is something to conclude

                incremental_plan.save(request, plan, snapshot.providers, self.store)
            return report

    def destroy(self, source: Source, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Report:
        """Carry out the plan of the empty manifest: delete what state records as ours, forget the rest."""
        with (
            self.store.lock("destroy", self.lock_timeout),
            self._planned(Emptied(source), inputs, Options(**wishes, prune=True)) as (plan, snapshot),
        ):
            return self._carry_out(plan, snapshot, "destroy")

    def plan_destroy(self, source: Source, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Plan:
        """Give what ``destroy`` would do."""
        with self._planned(Emptied(source), inputs, Options(**wishes, prune=True)) as (plan, _):
            return plan

    def change(self, source: Mapping[str, Any], **wishes: Any) -> Report:
        """Bring single resources to what is said, recording nothing; warns when some stack has them."""
        options = Options(**wishes)
        lock = nullcontext() if options.noop else self.store.lock("resource", self.lock_timeout)
        with lock, self._planned(source, {}, options, remember=False) as (plan, snapshot):
            for stack in self.store.stacks():
                with suppress(UsageError):  # it is encrypted, and this command was given no key
                    records = self.store.load(stack).records
                    for entry in (each for each in plan.catalog.entries if each.key in records):
                        text = f"is recorded in stack '{stack.stack}' of '{stack.project}', which will mend this change"
                        self.log.write("warning", str(entry.reference), text)
            return self._carry_out(plan, snapshot, "resource", record=False)

    def catalog(
        self, source: Source | Manifest | Emptied, inputs: Mapping[str, Any] | None, providers: ProviderPool
    ) -> Catalog:
        """Give the catalog of a manifest, with ``providers`` made for this run; its secrets are masked from now on."""
        return self._met(Compiler(self.registry, self.facts, self.log).compile(source, inputs or {}, providers))

    def _met(self, catalog: Catalog) -> Catalog:
        """Mask what is secret in a catalog from now on, and say what its manifest should not be like."""
        for warning in self._masked(catalog).warnings:
            self.tell(Diagnosed(warning))
        for note in catalog.notes:
            self.log.write("debug", "", note)
        return catalog

    def _masked(self, catalog: Catalog) -> Catalog:
        for value in catalog.scope.inputs.values():
            self.log.mask.add(value)
        for entry in catalog.entries:
            if entry.definition.sensitive:
                self.log.mask.add(entry.should)
        return catalog

    @contextmanager
    def _planned(
        self,
        source: Source | Plan | Manifest | Emptied,
        inputs: Mapping[str, Any] | None,
        options: Options,
        *,
        remember: bool = True,
    ) -> Iterator[tuple[Plan, Snapshot]]:
        """Give a plan and what was read for it; the providers that were made for it are closed in the end."""
        with ProviderPool(self.registry, self.run) as providers:
            with gc_paused(), process_guard.protected():
                made = self._plan(source, inputs, options, providers, remember=remember)
            yield made

    def _plan(
        self,
        source: Any,
        inputs: Mapping[str, Any] | None,
        options: Options,
        providers: ProviderPool,
        *,
        remember: bool,
    ) -> tuple[Plan, Snapshot]:
        judge = self._judge()
        providers.judge = judge.resource if judge else None
        snapshot = Snapshot(providers, options.strict)
        if isinstance(source, planning.Plan):
            catalog, options = source.catalog, apply_options(source.options, options)
            catalog = catalog._replace(entries=[e for e in catalog.entries if e.index not in source.prior.orphans])
        elif remember and (made := self._incremental_plan(source, inputs, options, snapshot)) is not None:
            return made, snapshot
        else:
            catalog = self.catalog(source, inputs, providers)
        name = self.name(catalog)
        state = self.store.load(name) if remember else StackState(*name)
        targets.check_prune(catalog, state, options, named=self.project is not None)
        return self._decide(catalog, state, options, snapshot, judge), snapshot

    def _decide(
        self, catalog: Catalog, state: StackState, options: Options, snapshot: Snapshot, judge: Judge | None = None
    ) -> Plan:
        """Give the plan of a catalog, of what is known of it, and of what is read for it."""
        providers = snapshot.providers
        instances = configure_instances(catalog, state, providers)
        catalog, prior = matching.match(catalog, instances, prune=options.prune, tools=providers.tools)
        self.log.mask.add([catalog.entries[index].should for index in prior.orphans])
        selected = targets.select(catalog, options)
        world = observe(catalog, prior, selected, snapshot)
        prior = judge.judge(catalog, prior, selected) if judge else prior
        planned = planning.plan(catalog, prior, selected, world, options)
        return judge.plan(planned) if judge else planned

    def _incremental_plan(
        self, source: Any, inputs: Mapping[str, Any] | None, options: Options, snapshot: Snapshot
    ) -> Plan | None:
        """Give a plan without what an earlier run knows to be in order; None where a whole one must be made."""
        inputs = inputs or {}
        request = self._cache_request(source, inputs, options, snapshot)
        if request is None or (cached := self.store.load_conclusion(request.label)) is None:
            return None
        from resource_api.cache.incremental_plan import Planner, plan  # noqa: PLC0415 - there is a conclusion

        compiler = Compiler(self.registry, self.facts, self.log)
        planner = Planner(
            lambda manifest: self._masked(compiler.compile(manifest, inputs, snapshot.providers)),
            lambda catalog, state: self._decide(catalog, state, options, snapshot),
        )
        return plan(request, cached, snapshot, self.store, planner)

    def _cache_request(
        self, source: Any, inputs: Mapping[str, Any], options: Options, snapshot: Snapshot
    ) -> CacheRequest | None:
        """Give what a run is that builds on what earlier ones have concluded, or leaves that to later ones.

        None for one that keeps nothing, is judged anew, has wishes of its own, or is a program's that embeds us.
        """
        alone = snapshot.providers.judge is not None or isinstance(self.store, NoStore)
        if not self.use_cache or alone or not options.plain:
            return None
        label = json.dumps([source, os.path.abspath(source), self.stack, self.project])  # noqa: PTH100 - text
        return CacheRequest(source, label, inputs, options, self._began)

    def _judge(self) -> Judge | None:
        """Give who asks the policies; None where there are none. Raises ``DefinitionError`` for a broken one."""
        if not (policies := self.registry.policies()):
            return None
        from resource_api.runtime.policies import Judge  # noqa: PLC0415 - only where there are policies

        return Judge(policies, self.tell)

    def name(self, catalog: Catalog) -> StackName:
        """Give whose state a run is about. Raises ``UsageError`` or ``ManifestError`` for what cannot be called so."""
        return StackName(self.project or reading.project(catalog.manifest), self.stack).checked()

    def _carry_out(self, plan: Plan, snapshot: Snapshot, command: str, *, record: bool = True) -> Report:
        """Carry out a plan under the lock; write what happened, however it ends."""
        from resource_api.transaction.recorder import Recorder  # noqa: PLC0415 - only a run needs it
        from resource_api.transaction.transaction import Transaction  # noqa: PLC0415 - the same

        name, run, started = self.name(plan.catalog), os.urandom(8).hex(), time.time()
        follow = self.tell if self.followed else None
        announce(plan, self.log, follow)
        if plan.options.parallel > 1 and self.log.enabled("info"):
            reorder(plan, self.store.history(name), self.log)
        unrecorded = plan.options.noop or not record or isinstance(self.store, NoStore)
        recorder = None if unrecorded else Recorder(self.store, name, plan, run)
        transaction = Transaction(plan, snapshot, recorder, follow)
        self.run.applying = True
        try:
            report = transaction.run()._replace(run=run)
        finally:
            # The next run of the same program is not cancelled.
            self.run.applying = self.run.cancelled = self.run.stopping = False
        if recorder is not None:
            summary = {**report.summary._asdict(), "exit_code": report.exit_code}
            times = {"started": started, "ended": time.time(), "parallel": plan.options.parallel}
            self.store.finish_run(name, {"run": run, "command": command, **times, "summary": summary})
        snapshot.providers.close(interrupted=transaction.stopped is not None)
        self.tell(Finished(report))
        return report
