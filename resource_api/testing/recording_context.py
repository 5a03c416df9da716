"""A context that remembers what was raised in its sections, where a provider's errors end otherwise.

What may be raised is judged by the laws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.provider.context import Context, LoggingContext

if TYPE_CHECKING:
    from types import TracebackType

    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Activity


class Witness(Context):
    """A context that remembers what was raised in its sections."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Lend as any context does."""
        super().__init__(*arguments, **keywords)
        self.raised: list[BaseException] = []

    def _open(self, titles: Any, activity: Activity) -> LoggingContext:
        return _Watched(self, self.outcomes.names(titles), activity)


class _Watched(LoggingContext):
    def __init__(self, witness: Witness, names: list[Name], activity: Activity) -> None:
        super().__init__(witness.type, witness.outcomes, witness._open_contexts, names, activity)  # noqa: SLF001 - its own class
        self._raised = witness.raised

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and error not in self._raised:
            self._raised.append(error)
        return super().__exit__(kind, error, trace)
