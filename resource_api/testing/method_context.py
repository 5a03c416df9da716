"""Contexts that record exceptions, for laws, and for a unit test that calls one method of a provider directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.text import show
from resource_api.provider.context import Context, LoggingContext, RunContext
from resource_api.provider.outcomes import Subject
from resource_api.system.log import ForwardedLog, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from resource_api.model.type_definition import Name, TypeDefinition


class RecordingContext(Context):
    """A context that records the exceptions of its sections in ``raised``."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take the arguments of ``Context``."""
        super().__init__(*arguments, **keywords)
        self.raised: list[BaseException] = []

    def _open(
        self, titles: object, message: str, status: str, change: tuple[object, object] | None = None
    ) -> LoggingContext:
        return _RecordingSection(self, self.outcomes.names(titles), message, status, change).opened()


class _RecordingSection(LoggingContext):
    """A section that adds its exception to ``raised`` of its context, before that handles it."""

    def __init__(self, context: RecordingContext, *arguments: Any) -> None:
        super().__init__(context, *arguments)
        self._raised = context.raised

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and error not in self._raised:
            self._raised.append(error)
        return super().__exit__(kind, error, trace)


class MethodContext(RecordingContext):
    """A context that records log and reports. ``lines``: the log as the user would see it, secrets masked.

    ``statuses``: the reported status by name: ``created``, ``updated``, ``deleted``, ``unchanged`` or ``failed``.
    ``raised``: the exceptions that its logging contexts swallowed.
    """

    def __init__(self, *arguments: object, lines: list[str], **keywords: object) -> None:
        """Take the arguments of ``Context``, and the list that gets the lines of its log."""
        super().__init__(*arguments, **keywords)
        self.lines = lines

    @property
    def statuses(self) -> Mapping[Name, str]:
        """The statuses that were reported so far, by name."""
        return {name: outcome.status for name, outcome in self.outcomes.items() if outcome.status}


def context(
    definition: TypeDefinition,
    names: Iterable[Name] = (),
    *,
    noop: bool = False,
    reading: bool = False,
    provider: object = None,
) -> MethodContext:
    """Return a context for one call with ``names``, the keys of ``changes``.

    ``reading``: as for ``get`` and ``due``, which report nothing but failures. ``provider``: the instance that is
    called, if it runs programs: their lines then go to this context too.
    """
    lines: list[str] = []
    subjects = {name: Subject(show(name)) for name in names}
    run = RunContext(ForwardedLog("debug", lambda event: lines.append(line(event))))
    method_context = MethodContext(definition, run, lines=lines, subjects=subjects, noop=noop, reading=reading)
    if provider is not None:
        method_context.make_default(provider)
    return method_context
