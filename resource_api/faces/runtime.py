"""Composes the stages: the way in for programs that embed us, and all that the command does.

Nothing is decided here that a stage could decide, and nothing is printed.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.contract.providers import Providers
from resource_api.hands.context import Run
from resource_api.hands.facts import Facts
from resource_api.hands.log import Log, structured
from resource_api.nouns.errors import ProviderError
from resource_api.nouns.event import Diagnosed, Finished, PlannedChange
from resource_api.nouns.options import Options
from resource_api.stages import catalog as compiling
from resource_api.stages import manifest as reading
from resource_api.stages import plan as planning
from resource_api.stages import selection
from resource_api.stages.snapshot import Snapshot, observe

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.contract.registry import Registry
    from resource_api.nouns.declaration import Manifest
    from resource_api.nouns.entry import Entry
    from resource_api.nouns.event import Event
    from resource_api.nouns.step import Report
    from resource_api.nouns.tools import Tools
    from resource_api.stages.catalog import Catalog
    from resource_api.stages.plan import Plan

    Source = str | os.PathLike[str] | Mapping[str, Any]


class Runtime:
    """Plans and applies manifests with the types of a registry.

    ``state``: where what is known between runs is kept; ``memory:`` keeps nothing. ``log`` takes the lines, ``tell``
    every event of a run.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        state: str = "memory:",
        stack: str = "default",
        log: Log | None = None,
        tell: Callable[[Event], None] | None = None,
    ) -> None:
        """Use ``registry`` for every run; nothing is read or opened yet."""
        self.registry = registry
        self.state = state
        self.stack = stack
        self.log = log or Log("notice", structured())
        self.tell = tell or (lambda _event: None)
        self.facts = Facts()
        self.run = Run(self.log)
        registry.warn = lambda message: self.log.write("warning", "", message)

    def validate(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Check everything that can be checked without touching the system. Raises ``ManifestError``."""
        with _uncollected():
            return self._compile(source, inputs, Providers(self.registry, self.run))

    def plan(self, source: Source, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Plan:
        """Give what ``apply`` would do; changes nothing. ``wishes`` are the fields of ``Options``."""
        return self._plan(source, inputs, Options(**wishes))[0]

    def apply(self, source: Source | Plan, inputs: Mapping[str, Any] | None = None, **wishes: Any) -> Report:
        """Bring the system to what the manifest says; a failed resource is in the report, no exception."""
        from resource_api.stages.transaction import Transaction  # noqa: PLC0415 - only a run needs it

        options = Options(**wishes)
        plan, snapshot = self._plan(source, inputs, options)
        for step in plan.steps:
            if step.action.value != "same" or step.decision.error:
                self.tell(PlannedChange(step))
        transaction = Transaction(plan, snapshot, snapshot.providers, self.tell)
        self.run.applying = True
        try:
            report = transaction.run()
        finally:
            self.run.applying = False
        snapshot.providers.close()
        self.tell(Finished(report))
        return report

    def resources(self, type_name: str, names: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        """Give the resources of a type that exist (of ``names``, each with ``ensure: absent`` when it does not).

        Raises ``ProviderError`` when they cannot be read.
        """
        providers = Providers(self.registry, self.run)
        tools = providers.tools(type_name)
        definition = tools.definition
        snapshot = Snapshot(providers)
        snapshot.read(definition, names)
        if failure := snapshot.failure(type_name):
            raise ProviderError(failure)
        if names is None:
            wanted: Sequence[Any] = list(snapshot.rows(type_name))
        else:
            wanted = names
        rows = []
        for name in wanted:
            row, failure = snapshot.seen(type_name, name)
            if failure:
                raise ProviderError(f"{type_name}: {failure}")
            if row is not None:
                rows.append(dict(row))
            elif names is not None:
                identity = name if isinstance(name, tuple) else (name,)
                absent = dict(zip(definition.namevars, identity, strict=True))
                rows.append({**absent, "ensure": "absent"} if definition.ensurable else absent)
        return rows

    def tools(self, type_name: str) -> Tools:
        """Give what a type's provider answers from its arguments alone. Raises ``DefinitionError``."""
        return Providers(self.registry, self.run).tools(type_name)

    def compile(self, source: Source, inputs: Mapping[str, Any] | None = None) -> Catalog:
        """Give the catalog of a manifest. Raises ``ManifestError``."""
        return self._compile(source, inputs, Providers(self.registry, self.run))

    def _compile(self, source: Source, inputs: Mapping[str, Any] | None, providers: Providers) -> Catalog:
        manifest: Manifest = reading.read(source)
        catalog = compiling.compile(manifest, inputs or {}, self.facts, providers.tools)
        for value in catalog.scope.inputs.values():
            self.log.mask.add(value)
        for entry in catalog.entries:
            if entry.definition.sensitive:
                self.log.mask.add(entry.should)
        for warning in catalog.warnings:
            self.tell(Diagnosed(warning))
        for note in catalog.notes:
            self.log.write("debug", "", note)
        return catalog

    def _plan(self, source: Source | Plan, inputs: Mapping[str, Any] | None, options: Options) -> tuple[Plan, Snapshot]:
        providers = Providers(self.registry, self.run)
        with _uncollected():
            if isinstance(source, planning.Plan):
                catalog, options = source.catalog, source.options._replace(noop=options.noop)
            else:
                catalog = self._compile(source, inputs, providers)
            selected = selection.select(catalog, options)
            snapshot = Snapshot(providers, options.strict)
            observe(snapshot, _wanted(catalog, selected))
            plan = planning.plan(catalog, selected, _world(snapshot), options)
            return plan._replace(stack=self.stack), snapshot


def _wanted(catalog: Catalog, selected: set[int] | None) -> list[tuple[Any, list[Any]]]:
    """Give, by type, the names that a plan must know: of what is selected and of what that refers to."""
    names: dict[str, list[Any]] = {}
    definitions = {}
    for entry in catalog.entries:
        if selected is None or entry.index in selected:
            definitions[entry.type] = entry.definition
            names.setdefault(entry.type, []).append(entry.name)
    if selected is not None:
        for index in selected:
            for before in catalog.requires.get(index, ()):
                if before not in selected and catalog.entries[index].pending:
                    other = catalog.entries[before]
                    definitions[other.type] = other.definition
                    names.setdefault(other.type, []).append(other.name)
    return [(definitions[type_name], list(dict.fromkeys(wanted))) for type_name, wanted in names.items()]


def _world(snapshot: Snapshot) -> planning.World:
    def due(entry: Entry, _should: Mapping[str, Any]) -> tuple[bool, str, str]:
        return snapshot.due(entry)

    return planning.World(lambda entry: snapshot.seen(entry.type, entry.name), due, snapshot.providers.tools)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the cyclic collector off while many small values are made: it alone bends the growth curve."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
