"""What a store of state promises, and the one that keeps nothing beyond the process.

A store knows nothing of providers and plans: it keeps records, intents and owed refreshes, durably, one commit at a
time, for one run at a time.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from resource_api.model import codec
from resource_api.model.record import Intent, StackState
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import STACK_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.model.record import Commit, Key, Record
    from resource_api.state.encryption import keys


#: The end of every message about damage: what to do.
RECOVER: Final = "'resource-api state recover' restores the newest intact generation"


class StackName(NamedTuple):
    """The project and stack that a state belongs to."""

    project: str
    stack: str

    def checked(self) -> Self:
        """Give it back, or raise ``UsageError`` for a project or stack that cannot be called so."""
        for kind, text in zip(self._fields, self, strict=True):
            if not STACK_NAME.match(text):
                msg = f"'{text}' cannot be the name of a {kind}; use letters, digits, dot, dash and underscore"
                raise UsageError(msg)
        return self


class CachedConclusion(NamedTuple):
    """What was remembered of a stack that has not changed since."""

    content: Any
    #: Return the state with only the records of these numbers (positions in the ``keys`` that were saved); None when
    #: the stack has changed since.
    state: Callable[[Iterable[int]], StackState | None]


class StateStore(Protocol):
    """Keeps what is known between runs.

    1. ``load`` gives a consistent view, also while somebody else writes; a stack never seen is empty, serial 0.
    2. ``lock`` admits one run at a time; a killed holder frees it at once; ``StateLocked`` names the holder.
    3. ``record_intents`` is durable when it returns: what is about to be changed is known after a crash.
    4. ``commit`` is durable when it returns, writes all or nothing, and raises the serial by one unless it is empty;
       the lineage is made with the first commit and never changes.
    5. What is damaged, missing or older than it must be raises ``StateError`` naming the command that mends it; it is
       never taken for a fresh start.
       Sequences come back as lists, a composite name as a tuple.
    6. No secret is ever written in clear: one that was not sealed, and an unknown, raise ``TypeError`` and nothing is
       written. A store that was given a key writes what is sealed as ciphertext, and uses nothing that is not encrypted
       with that key; one without writes its digest, and uses nothing that is encrypted (``UsageError``).
    7. ``load_conclusion`` returns what was given to ``save_conclusion`` only while nothing else has been written to
       that stack and nothing is in doubt. It may return None at any time and never raises for a bad entry.

    Everything that writes is called while ``lock`` is held. A write that raises has written nothing; after
    ``StateError`` nothing more can be written under the same lock.
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

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        ...

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        ...

    def finish_run(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over: its id, command, times, summary."""
        ...

    def history(self, name: StackName) -> Sequence[Mapping[str, Any]]:
        """Give the last finished runs of a stack, the oldest first."""
        ...

    def save_conclusion(self, label: str, name: StackName, content: Any, keys: Sequence[Key]) -> None:
        """Keep plain data without secrets under ``label``; ``keys``: those of all records, which it numbers."""
        ...

    def load_conclusion(self, label: str) -> CachedConclusion | None:
        """Give what was remembered, if the stack that it is about is as it was then."""
        ...

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Write a whole state in place of what is known, its lineage and serial too; whether it may is not asked."""
        ...

    def rekey(self, name: StackName, key: keys.Key | None, *, drop_generations: bool = False) -> StackState:
        """Encrypt a stack under ``key`` with a new data key, or (None) keep no secrets of it any more, only digests.

        All or nothing, whatever it was encrypted with before; the serial goes up. ``drop``: remove what is kept of
        older states, which the older key opens. Raises ``UsageError`` where nothing is recorded.
        """
        ...

    def check(self) -> Sequence[str]:
        """Verify everything that is kept; gives what was found good, as sentences. Raises ``StateError``."""
        ...

    def recover(self, timeout: float) -> Sequence[str]:
        """Put the newest whole generation in place of what is damaged, under the lock; gives what was done and lost.

        Raises ``StateError`` when nothing whole is left, ``StateLocked``.
        """
        ...


class MemoryStore:
    """Keeps everything in this process: the store of tests and of programs that want none."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._states: dict[StackName, StackState] = {}
        self._runs: list[Mapping[str, Any]] = []

    def load(self, name: StackName) -> StackState:
        """Give what is known of a stack."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = StackState(name.project, name.stack, salt=os.urandom(32))
        return state

    def stacks(self) -> Sequence[StackName]:
        """Give every stack that has been committed to, sorted."""
        return sorted(name for name, state in self._states.items() if state.serial)

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:  # noqa: ARG002 - nobody else can be there
        """Admit the run: nobody else can see this store."""
        yield

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        state = self.load(name)
        codec.check_encodable(intents)
        noted = {**state.intents, **{intent.key: intent for intent in intents}}
        self._states[name] = state._replace(intents=noted)

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        state = self.load(name)
        codec.check_encodable(commit.put)
        codec.check_encodable(commit.outputs)
        done = set(commit.done)
        changed = state._replace(intents={k: v for k, v in state.intents.items() if k not in done})
        if not commit.empty:
            changed = merged(changed, commit)._replace(
                lineage=state.lineage or os.urandom(16).hex(), serial=state.serial + 1
            )
        self._states[name] = changed
        return changed

    def finish_run(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over."""
        self._runs.append({"project": name.project, "stack": name.stack, **run})

    def history(self, name: StackName) -> Sequence[Mapping[str, Any]]:
        """Give the finished runs of a stack, the oldest first."""
        return [run for run in self._runs if (run["project"], run["stack"]) == name]

    def save_conclusion(self, label: str, name: StackName, content: Any, keys: Sequence[Key]) -> None:
        """Keep nothing: reading this store costs nothing that remembering would save."""

    def load_conclusion(self, label: str) -> None:
        """Give nothing."""

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Write a whole state in place of what is known."""
        codec.encode(list(state.records.values()))
        self._states[name] = state._replace(project=name.project, stack=name.stack)

    def rekey(self, name: StackName, key: keys.Key | None, *, drop_generations: bool = False) -> StackState:  # noqa: ARG002 - the protocol's
        """Refuse: nothing is written that could be encrypted."""
        msg = "state is kept in memory: there is nothing to encrypt"
        raise UsageError(msg)

    def check(self) -> Sequence[str]:
        """Say how much is kept; nothing outside of this process can damage it."""
        return [f"kept in memory: {len(self.stacks())} stacks"]

    def recover(self, timeout: float) -> Sequence[str]:  # noqa: ARG002 - nobody else can hold the lock
        """Nothing can be damaged."""
        return ["nothing to recover: state is kept in memory"]


class NoStore(MemoryStore):
    """Keeps nothing, because nobody will ask: the store of a single run without state, of which nothing is recorded."""


def merged(state: StackState, commit: Commit) -> StackState:
    """Give a state with a commit's records, owed refreshes and outputs in it."""
    records: dict[Key, Record] = dict(state.records)
    for key in commit.drop:
        records.pop(key, None)
    for record in commit.put:
        records[record.key] = record
    owed: dict[Key, Sequence[str]] = dict(state.owed)
    for key in commit.paid:
        owed.pop(key, None)
    for key, sources in commit.owed.items():
        # In whatever order they have changed, the same is owed.
        owed[key] = sorted({*owed.get(key, ()), *sources})
    for key in commit.drop:
        owed.pop(key, None)
    return state._replace(
        records=records,
        owed=owed,
        outputs=state.outputs if commit.outputs is None else commit.outputs,
        manifest=state.manifest if commit.manifest is None else commit.manifest,
    )
