"""Kill a run at a change of a file, and check that the next run reaches the state of an uncut one."""

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

    from resource_api.model.report import RunReport
    from resource_api.provider.context import Activity
    from resource_api.runtime.runtime import Runtime

#: The same cuts in every rehearsal.
_SEED: Final = 18
#: State must outlive the cut. ``/run`` of an overlay is empty at first.
_STATE: Final = "/run/rehearsal/state.db"
#: The number of the current write of state, or 0, before the subject of the call.
_NUMBER: Final = struct.Struct("I")
_LONGEST: Final = 4096
_NOT_REPEATED: Final = "the run has succeeded, and fails when it is made once more on a new overlay"


def run(runtime: Runtime, apply: Callable[[Runtime], RunReport], layers: int, point: int) -> dict[str, Any]:
    """Apply on an overlay, with ``point`` kill it before that change of a file and apply again. Return a document."""
    runtime.with_copied_state(SqliteStore(_STATE))
    monitor = _Monitor()

    def work() -> int:
        mine = runtime.with_store(_MonitoredStore(SqliteStore(_STATE), monitor))
        mine.run.progress = lambda: monitor
        return apply(mine).exit_code

    held = changing_calls.run(work, point, monitor.writing, lambda: runtime.run.cancelled)
    document = {"changes": held.changes, "at": held.killed_at, "failed": [], "subject": monitor.subject}
    if held.killed_at:
        report = apply(runtime.with_store(SqliteStore(_STATE)))
        document["failed"] = [
            finding(outcome.step, outcome.error) for outcome in report.steps if outcome.status == "failed"
        ]
    elif held.exit_code and not runtime.run.cancelled:
        raise RehearsalError(_NOT_REPEATED)
    return {**document, "contents": contents.read(layers)}


class _Monitor:
    """Record, in memory that processes share, the current provider call and the current write of state."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _LONGEST)
        self._count = 0

    @property
    def subject(self) -> str:
        """The subject of the current call, or ""."""
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
        """Return the number of the current write of state, or 0."""
        return int(_NUMBER.unpack_from(self._memory)[0])

    def write(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method that writes state."""
        self._count += 1
        _NUMBER.pack_into(self._memory, 0, self._count)
        try:
            return method(*arguments, **options)
        finally:
            _NUMBER.pack_into(self._memory, 0, 0)


class _MonitoredStore:
    """A store that records its writes."""

    def __init__(self, store: SqliteStore, monitor: _Monitor) -> None:
        self._store = store
        self._monitor = monitor

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        held = self._store.lock(command, timeout)
        self._monitor.write(held.__enter__)
        try:
            yield
        finally:
            self._monitor.write(held.__exit__, None, None, None)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._store, name)
        return partial(self._monitor.write, member) if callable(member) else member


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
    """Return whether the next run reaches the same state after each of ``count`` runs that are cut once.

    ``first`` are the contents after the first run: paths that differ in a second uncut run too are not compared.
    ``attempt`` makes a run and cuts it at a point, or nowhere for 0. ``writers``: path → its writers.
    """
    whole = attempt(0)
    compared = whole["contents"].keys() | first.keys()
    compared -= contents.differing(first, whole["contents"])
    chosen = points(whole["changes"], count)
    findings: dict[tuple[str, str], Finding] = {}
    cut = 0
    for point in chosen:
        outcome = attempt(point)
        cut += bool(outcome["at"])
        for problem in _findings(outcome, whole, compared, writers) if outcome["at"] else ():
            cause = f"cut before change {point} of {whole['changes']} ({outcome['at']}): {problem.text}"
            complete = problem._replace(text=cause, place=problem.place or place_of(problem.reference))
            findings.setdefault((problem.reference, problem.text), complete)
    problems = list(findings.values())
    text = f"{cut} cuts in a run of {whole['changes']} changes of files"
    return Verdict("survives cuts", not problems, text, problems)


def _findings(
    outcome: Mapping[str, Any], whole: Mapping[str, Any], compared: set[str], writers: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Yield the damage that the next run did not mend after a cut: failed steps, or else paths that differ."""
    if outcome["failed"]:
        for fields in outcome["failed"]:
            failure = Finding(*fields)
            yield failure._replace(text=f"the next run fails: {failure.text}")
        return
    different = contents.differing(whole["contents"], outcome["contents"])
    # Paths that only the cut run left are compared too.
    paths = sorted(path for path in different if path in compared or path not in whole["contents"])
    by_reference: dict[str, list[str]] = {}
    for path in paths:
        if not side_effects.is_common(path):
            by_reference.setdefault((writers.get(path) or [outcome["subject"]])[-1], []).append(path)
    for reference, group in by_reference.items():
        yield Finding(reference, f"{contents.differ(group)} after the next run")
