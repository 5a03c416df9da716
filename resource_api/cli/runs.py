"""The recorded runs of stacks: found by the beginning of their id, with what is kept of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import UsageError
from resource_api.render.runs import document as run_document
from resource_api.runtime.queries import recorded_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.cli.session import Session

_LAST: Final = regex(r"last(?:-(\d{1,3}))?")


class Runs:
    """The finished runs of the stacks that the command's options select, the oldest first."""

    def __init__(self, session: Session) -> None:
        """Read the history. Raise ``UsageError`` where no stack is recorded."""
        self._store = session.runtime.store
        names = recorded_stack.all_selected(self._store, session.settings)
        self._whose = f" of {names[0]}" if len(names) == 1 else ""
        self.all = recorded_stack.runs(self._store, names)

    def document(self, wanted: str | None) -> dict[str, Any]:
        """Return the document of the run whose id begins with ``wanted``.

        ``last``, or None, is the last one that did something, ``last-1`` the one before. Raise ``UsageError`` where
        there is none, or several.
        """
        position = _LAST.fullmatch(wanted or "last")
        run = self._last(int(position[1] or 0)) if position else self._find(str(wanted))
        with suppress(OSError, ValueError, LookupError, TypeError):
            if run["kept"] and (content := self._store.load_run(run["run"])) is not None:
                return run_document.document(content)
        return run_document.history_document({**run, "kept": False})

    def _last(self, before: int) -> Mapping[str, Any]:
        """Return the last run of which something is kept, or so many of them ``before`` it."""
        found = [run for run in self.all if run["kept"]] or self.all
        if len(found) <= before:
            msg = f"{len(found) or 'no'} runs are recorded{self._whose}"
            raise UsageError(msg)
        return found[-1 - before]

    def _find(self, wanted: str) -> Mapping[str, Any]:
        found = [run for run in self.all if str(run.get("run", "")).startswith(wanted)]
        if len(found) != 1:
            which = f"{len(found)} runs begin with" if found else "there is no run"
            msg = f"{which} '{wanted}' in the history{self._whose}; 'resource-api history' lists the runs"
            raise UsageError(msg)
        return found[0]
