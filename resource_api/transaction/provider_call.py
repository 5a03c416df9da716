"""Calls a provider's ``set`` and ``refresh``, and takes over what it says of each resource.

An ``Exception`` is handed back for the caller to contain; anything else ends the run. What follows from an outcome is
not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from resource_api.model.change import Changes
from resource_api.model.values.errors import reason
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Outcome, Subject
from resource_api.system import process_guard
from resource_api.transaction.operation_run import deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.change import Change
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.transaction.operation_run import OperationRun


class CallStopped(Exception):  # noqa: N818 - a signal between the halves of a run
    """A provider let something through that is no ``Exception``: the run ends, with everything written."""

    def __init__(self, cause: BaseException) -> None:
        """Keep what came through."""
        super().__init__(reason(cause))
        self.cause = cause


class ProviderCaller:
    """Calls the provider of one type."""

    def __init__(self, definition: TypeDefinition, providers: ProviderPool) -> None:
        """Prepare to call; the provider is made at the first call."""
        self._definition = definition
        self._providers = providers

    def set(
        self,
        runs: list[OperationRun],
        changes: Mapping[Name, Change],
        blocked: Callable[[Name, Context], bool],
        *,
        noop: bool,
    ) -> Exception | None:
        """Call ``set`` and return what it raised, or None. Raises ``CallStopped``.

        ``blocked`` returns whether a name must be left out.
        """
        context = self._context(runs, noop=noop)
        extra = {"noop": noop} if "noop_handler" in self._definition.features else {}
        offered = Changes(changes, lambda name: blocked(name, context))
        return self._call(runs, context, lambda provider: provider.set(context, offered, **extra))

    def refresh(self, runs: list[OperationRun]) -> Exception | None:
        """Call ``refresh`` for all of ``runs``; what they have reported before is forgotten."""
        for run in runs:
            run.outcome = Outcome()
        context = self._context(runs, noop=False)
        return self._call(runs, context, lambda provider: provider.refresh(context, [run.name for run in runs]))

    def _context(self, runs: list[OperationRun], *, noop: bool) -> Context:
        return Context(
            self._definition, self._providers.run, subjects=_Subjects(runs), noop=noop, deadline=deadline(runs)
        )

    def _call(self, runs: list[OperationRun], context: Context, call: Callable[[Any], None]) -> Exception | None:
        error: Exception | None = None
        try:
            provider = self._providers.instance(self._definition.instance)
            with self._providers.run.provider_call(), process_guard.protected(), context.activate(provider):
                call(provider)
        except Exception as caught:  # noqa: BLE001 - contained in the resources of this call
            error = caught
        except BaseException as caught:
            _take(runs, context)
            raise CallStopped(caught) from caught
        _take(runs, context)
        return error


class _Subjects(Mapping[Any, Subject]):
    """How the names of a call are shown: looked up when a provider speaks of one, and most speak of none."""

    def __init__(self, runs: Sequence[OperationRun]) -> None:
        self._works = runs

    @cached_property
    def _entries(self) -> Mapping[Name, Entry]:
        return {run.name: run.step.entry for run in self._works}

    def __getitem__(self, name: Name) -> Subject:
        entry = self._entries[name]
        return Subject(entry.title, entry.meta.loglevel, entry.parent)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Name]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _take(runs: list[OperationRun], context: Context) -> None:
    for run in runs if context.outcomes else ():
        if outcome := context.outcomes.get(run.name):
            run.outcome = outcome
