"""Cut a run short by killing it as a whole, and whether the next run comes to what the uncut one has come to."""

from __future__ import annotations

import mmap
import random
import struct
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from resource_api.rehearse import contents, side_effects
from resource_api.rehearse.result import Finding, RehearsalError, Verdict, finding
from resource_api.state.sqlite.store import SqliteStore
from resource_api.system.overlay import changing_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.model.report import Report
    from resource_api.provider.context import Activity
    from resource_api.runtime.runtime import Runtime

#: The same cuts in every rehearsal.
_SEED: Final = 18
#: State must outlive the cut. Nothing of ``/run`` is that of the machine.
_STATE: Final = "/run/rehearsal/state.db"
#: The number of the writing of state that goes on, which is 0 where none does, before the subject of the call.
_NUMBER: Final = struct.Struct("I")
_LONGEST: Final = 4096
_NOT_REPEATED: Final = "the run has succeeded, and fails when it is made once more on a new overlay"


def run(runtime: Runtime, apply: Callable[[Runtime], Report], layers: int, point: int) -> dict[str, Any]:
    """Apply on an overlay; with ``point`` be cut before that change of a file, and apply again. Return a document."""
    runtime.with_copied_state(SqliteStore(_STATE))
    noted = _Noted()

    def work() -> int:
        mine = runtime.with_store(_NotedStore(SqliteStore(_STATE), noted))
        mine.run.progress = lambda: noted
        return apply(mine).exit_code

    held = changing_calls.run(work, point, noted.writing, lambda: runtime.run.cancelled)
    found = {"changes": held.changes, "at": held.killed_at, "failed": [], "subject": noted.subject}
    if held.killed_at:
        report = apply(runtime.with_store(SqliteStore(_STATE)))
        found["failed"] = [finding(each.step, each.error) for each in report.steps if each.status == "failed"]
    elif held.exit_code and not runtime.run.cancelled:
        raise RehearsalError(_NOT_REPEATED)
    return {**found, "contents": contents.read(layers)}


class _Noted:
    """Notes in memory that processes share which call of a provider is made, and when state is written."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _LONGEST)
        self._count = 0

    @property
    def subject(self) -> str:
        """What the call is about; empty: none is made."""
        return self._memory[_NUMBER.size :].partition(b"\0")[0].decode(errors="replace")

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Note a call in the ``with`` block."""
        text = activity.subject.encode()[: _LONGEST - _NUMBER.size - 1] + b"\0"
        self._memory[_NUMBER.size : _NUMBER.size + len(text)] = text
        yield
        self._memory[_NUMBER.size : _NUMBER.size + 1] = b"\0"

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:  # noqa: ARG002 - the protocol's
        """Return a context around a wait, which is not noted."""
        return nullcontext(lambda: None)

    def writing(self) -> int:
        """Return the number of the writing of state that goes on; 0: none does."""
        return int(_NUMBER.unpack_from(self._memory)[0])

    def write(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method that writes state."""
        self._count += 1
        _NUMBER.pack_into(self._memory, 0, self._count)
        try:
            return method(*arguments, **options)
        finally:
            _NUMBER.pack_into(self._memory, 0, 0)


class _NotedStore:
    """A store that notes when it writes."""

    def __init__(self, store: SqliteStore, noted: _Noted) -> None:
        self._store = store
        self._noted = noted

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        held = self._store.lock(command, timeout)
        self._noted.write(held.__enter__)
        try:
            yield
        finally:
            self._noted.write(held.__exit__, None, None, None)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._noted.write, found) if callable(found) else found


def points(changes: int, count: int) -> list[int]:
    """Return up to ``count`` of the ``changes`` of a run, by number from 1 on: one of each part of the run."""
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    parts = min(count, changes)
    borders = [changes * part // parts for part in range(parts + 1)] if parts else [0]
    return [chance.randint(low + 1, high) for low, high in pairwise(borders)]


def survives_cuts(
    count: int,
    first: Mapping[str, Any],
    attempt: Callable[[int], Mapping[str, Any]],
    writers: Mapping[str, Sequence[str]],
    place_of: Callable[[str], str],
) -> Verdict:
    """Return whether runs that are cut ``count`` times, once each, come to the same by the next run.

    ``first`` are the contents after the first run: what differs in a second uncut one too is not compared.
    ``attempt`` makes a run and cuts it at a point, 0: at none. ``writers``: who has written a path.
    """
    whole = attempt(0)
    compared = whole["contents"].keys() | first.keys()
    compared -= contents.differing(first, whole["contents"])
    chosen = points(whole["changes"], count)
    found: dict[tuple[str, str], Finding] = {}
    cut = 0
    for point in chosen:
        tried = attempt(point)
        cut += bool(tried["at"])
        for each in _findings(tried, whole, compared, writers) if tried["at"] else ():
            where = f"cut before change {point} of {whole['changes']} ({tried['at']}): {each.text}"
            full = each._replace(text=where, place=each.place or place_of(each.reference))
            found.setdefault((each.reference, each.text), full)
    bad = list(found.values())
    return Verdict("survives cuts", not bad, f"{cut} cuts in a run of {whole['changes']} changes of files", bad)


def _findings(
    tried: Mapping[str, Any], whole: Mapping[str, Any], compared: set[str], writers: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Yield what the next run has not mended after a cut: the steps that fail, or else the paths that differ."""
    if tried["failed"]:
        for each in tried["failed"]:
            named = Finding(*each)
            yield named._replace(text=f"the next run fails: {named.text}")
        return
    different = contents.differing(whole["contents"], tried["contents"])
    # What only the cut run has left is not among what was compared.
    paths = sorted(path for path in different if path in compared or path not in whole["contents"])
    by_reference: dict[str, list[str]] = {}
    for path in paths:
        if not side_effects.is_common(path):
            by_reference.setdefault((writers.get(path) or [tried["subject"]])[-1], []).append(path)
    for reference, those in by_reference.items():
        yield Finding(reference, f"{contents.differ(those)} after the next run")
