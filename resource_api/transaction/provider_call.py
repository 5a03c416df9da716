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
from resource_api.system import process_guard as guard
from resource_api.transaction.operation_run import deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.change import Change
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.instances import Providers
    from resource_api.transaction.operation_run import Work


class Stopped(Exception):  # noqa: N818 - a signal between the halves of a run
    """A provider let something through that is no ``Exception``: the run ends, with everything written."""

    def __init__(self, cause: BaseException) -> None:
        """Keep what came through."""
        super().__init__(reason(cause))
        self.cause = cause


class Caller:
    """Calls the provider of one type."""

    def __init__(self, definition: TypeDefinition, providers: Providers) -> None:
        """Prepare to call; the provider is made at the first call."""
        self._definition = definition
        self._providers = providers

    def set(
        self, works: list[Work], changes: Mapping[Name, Change], blocked: Callable[[Name, Context], bool], *, noop: bool
    ) -> Exception | None:
        """Call ``set``; ``blocked`` tells which names must be left out. Gives what it raised; raises ``Stopped``."""
        context = self._context(works, noop=noop)
        extra = {"noop": noop} if "noop_handler" in self._definition.features else {}
        offered = Changes(changes, lambda name: blocked(name, context))
        return self._call(works, context, lambda provider: provider.set(context, offered, **extra))

    def refresh(self, works: list[Work]) -> Exception | None:
        """Call ``refresh`` for all of ``works``; what they have reported before is forgotten."""
        for work in works:
            work.outcome = Outcome()
        context = self._context(works, noop=False)
        return self._call(works, context, lambda provider: provider.refresh(context, [work.name for work in works]))

    def _context(self, works: list[Work], *, noop: bool) -> Context:
        return Context(
            self._definition, self._providers.run, subjects=_Subjects(works), noop=noop, deadline=deadline(works)
        )

    def _call(self, works: list[Work], context: Context, call: Callable[[Any], None]) -> Exception | None:
        error: Exception | None = None
        try:
            provider = self._providers.instance(self._definition.instance)
            with self._providers.run.calling(), guard.protected(), context.lend(provider):
                call(provider)
        except Exception as caught:  # noqa: BLE001 - contained in the resources of this call
            error = caught
        except BaseException as caught:
            _take(works, context)
            raise Stopped(caught) from caught
        _take(works, context)
        return error


class _Subjects(Mapping[Any, Subject]):
    """How the names of a call are shown: looked up when a provider speaks of one, and most speak of none."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    @cached_property
    def _entries(self) -> Mapping[Name, Entry]:
        return {work.name: work.step.entry for work in self._works}

    def __getitem__(self, name: Name) -> Subject:
        entry = self._entries[name]
        return Subject(entry.title, entry.meta.loglevel, entry.parent)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Name]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _take(works: list[Work], context: Context) -> None:
    for work in works if context.outcomes else ():
        if outcome := context.outcomes.get(work.name):
            work.outcome = outcome
