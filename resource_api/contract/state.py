"""What a store of state promises, and the one that keeps nothing beyond the process.

A store knows nothing of providers and plans: it keeps records, intents and owed refreshes, durably, one commit at a
time, for one run at a time.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from resource_api.nouns.record import Intent, StackState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.nouns.record import Commit, Key, Record


class StackName(NamedTuple):
    """Whose state it is."""

    project: str
    stack: str


class StateStore(Protocol):
    """Keeps what is known between runs.

    1. ``load`` gives a consistent view, also while somebody else writes; a stack never seen is empty, serial 0.
    2. ``lock`` admits one run at a time; a killed holder frees it at once; ``StateLocked`` names the holder.
    3. ``intend`` is durable when it returns: what is about to be changed is known after a crash.
    4. ``commit`` is durable when it returns, writes all or nothing, and raises the serial by one unless it is empty;
       the lineage is made with the first commit and never changes.
    5. What is damaged, missing or older than it must be raises ``StateError`` naming the command that mends it; it is
       never taken for a fresh start.
    6. No secret is ever written in clear.
    """

    def load(self, name: StackName) -> StackState:
        """Give what is known of a stack."""
        ...

    def stacks(self) -> Sequence[StackName]:
        """Give every stack that is known, sorted."""
        ...

    def lock(self, command: str, timeout: float) -> AbstractContextManager[None]:
        """Hold the lock for one run of ``command``, waiting up to ``timeout`` seconds."""
        ...

    def intend(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        ...

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        ...

    def finish(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over: its id, command, times, summary."""
        ...


class MemoryStore:
    """Keeps everything in this process: the store of tests and of runs that want none."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._states: dict[StackName, StackState] = {}
        self._runs: list[Mapping[str, Any]] = []

    def load(self, name: StackName) -> StackState:
        """Give what is known of a stack."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = StackState(name.project, name.stack, salt=secrets.token_bytes(32))
        return state

    def stacks(self) -> Sequence[StackName]:
        """Give every stack that has been committed to, sorted."""
        return sorted(name for name, state in self._states.items() if state.serial)

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:  # noqa: ARG002 - nobody else can be there
        """Admit the run: nobody else can see this store."""
        yield

    def intend(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        state = self.load(name)
        noted = {**state.intents, **{intent.key: intent for intent in intents}}
        self._states[name] = state._replace(intents=noted)

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        state = self.load(name)
        changed = state._replace(intents={k: v for k, v in state.intents.items() if k not in set(commit.done)})
        if not commit.empty:
            changed = merged(changed, commit)._replace(
                lineage=state.lineage or secrets.token_hex(16), serial=state.serial + 1
            )
        self._states[name] = changed
        return changed

    def finish(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over."""
        self._runs.append({"project": name.project, "stack": name.stack, **run})


def merged(state: StackState, commit: Commit) -> StackState:
    """Give a state with a commit's records, owed refreshes and outputs in it."""
    records: dict[Key, Record] = dict(state.records)
    for key in commit.drop:
        records.pop(key, None)
    for record in commit.put:
        records[record.key] = record
    owed = {key: sources for key, sources in state.owed.items() if key not in set(commit.paid)}
    for key, sources in commit.owed.items():
        owed[key] = tuple(dict.fromkeys((*owed.get(key, ()), *sources)))
    owed = {key: sources for key, sources in owed.items() if key not in set(commit.drop)}
    return state._replace(
        records=records,
        owed=owed,
        outputs=state.outputs if commit.outputs is None else commit.outputs,
        manifest=state.manifest if commit.manifest is None else commit.manifest,
    )
