"""A context that records the exceptions of its sections, which otherwise end there.

Which exceptions are allowed must not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.provider.context import Context, LoggingContext

if TYPE_CHECKING:
    from types import TracebackType


class RecordingContext(Context):
    """A context that records the exceptions of its sections in ``raised``."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take the arguments of ``Context``."""
        super().__init__(*arguments, **keywords)
        self.raised: list[BaseException] = []

    def _open(self, titles: Any, message: str, status: str, change: tuple[Any, Any] | None = None) -> LoggingContext:
        return _RecordingSection(self, self.outcomes.names(titles), message, status, change).opened()


class _RecordingSection(LoggingContext):
    def __init__(self, context: RecordingContext, *arguments: Any) -> None:
        super().__init__(context, *arguments)
        self._raised = context.raised

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and error not in self._raised:
            self._raised.append(error)
        return super().__exit__(kind, error, trace)
