"""A context for a unit test that calls one method of a provider directly.

What the runtime does around a call (reading before and after, comparing, retrying) must not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.text import show
from resource_api.provider.context import RunContext
from resource_api.provider.outcomes import Subject
from resource_api.system.log import Log
from resource_api.system.log_renderers import line
from resource_api.testing.recording_context import RecordingContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.model.event import LogEvent
    from resource_api.model.type_definition import Name, TypeDefinition


class MethodContext(RecordingContext):
    """A context that keeps what is logged and reported. ``lines``: the log as the user would see it, secrets masked.

    ``statuses``: what was reported of each name: ``created``, ``updated``, ``deleted``, ``unchanged`` or ``failed``.
    ``raised``: the exceptions that its logging contexts have swallowed.
    """

    def __init__(self, *arguments: Any, lines: list[str], **keywords: Any) -> None:
        """Take the arguments of ``Context``, and the list that gets the lines of its log."""
        super().__init__(*arguments, **keywords)
        self.lines = lines

    @property
    def statuses(self) -> Mapping[Name, str]:
        """What was reported so far, by name."""
        return {name: outcome.status for name, outcome in self.outcomes.items() if outcome.status}


def context(
    definition: TypeDefinition,
    names: Iterable[Name] = (),
    *,
    noop: bool = False,
    reading: bool = False,
    provider: object = None,
) -> MethodContext:
    """Return a context for one call about ``names``, the keys of ``changes``.

    ``reading``: as for ``get`` and ``due``, which report nothing but failures. ``provider``: the instance that is
    called, if it runs programs: their lines then go to this context too.
    """
    lines: list[str] = []

    def keep(event: LogEvent) -> None:
        lines.append(line(event))

    subjects = {name: Subject(show(name)) for name in names}
    run = RunContext(Log("debug", keep))
    found = MethodContext(definition, run, lines=lines, subjects=subjects, noop=noop, reading=reading)
    if provider is not None:
        found.make_default(provider)
    return found
