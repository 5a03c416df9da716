"""The interfaces of a state store with their obligations, and the store that keeps state in memory only.

A store keeps records, intents and owed refreshes durably, one commit at a time, for one run at a time.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from resource_api.model import codec
from resource_api.model.record import Commit, Intent, Record, RecordKey, StackState
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from resource_api.state.encryption import keys

    #: A row of a table: id, content, checksum.
    Row = tuple[int, bytes, int]


#: The URLs for no state, the second as SQLite itself writes it.
MEMORY: Final = ("memory:", "sqlite::memory:")


class StackName(NamedTuple):
    """The project and stack that a state belongs to."""

    project: str
    stack: str

    @classmethod
    def of(cls, state: StackState) -> Self:
        """Return the name of a state."""
        return cls(state.project, state.stack)

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"project {self.project}, stack {self.stack}"

    def checked(self) -> Self:
        """Return itself, for a stack that is to be written. Raises ``UsageError`` for an invalid project or stack."""
        for kind, text in zip(self._fields, self, strict=True):
            if not STACK_NAME.match(text):
                msg = f"'{text}' cannot be the name of a {kind}; use letters, digits, dot, dash and underscore"
                raise UsageError(msg)
        return self


class CachedConclusion(NamedTuple):
    """A saved conclusion: resources that a run need not plan, as their stack is unchanged. See ``load_conclusion``."""

    content: Any
    #: Return the state with only the records at these positions among the saved ``keys``, or None if it changed.
    state: Callable[[Iterable[int]], StackState | None]


class StateStore(Protocol):
    """Keeps state between runs.

    1. ``load`` returns a consistent view, also while another process writes; an unknown stack is empty, serial 0.
    2. ``lock`` admits one run at a time, or ``claim`` one for each stack; ``StateLocked`` names the holder. The end of
       a killed holder releases it: at once, or, where only other machines would notice, within a time that the holder
       renews. A holder that was overtaken then writes nothing more (``StateLost``).
    3. ``record_intents`` is durable when it returns: after a crash the changes that were about to be made are known.
    4. ``commit`` is durable when it returns, writes all or nothing, and raises the serial by one unless it is empty;
       the lineage is created by the first commit and never changes.
    5. State that is damaged, missing or too old raises ``StateError`` naming the command that repairs it; it is never
       taken for a fresh start. Sequences are returned as lists, a composite name as a tuple.
    6. No secret is ever written in clear: a secret that is not sealed, or an unknown value, raises ``TypeError`` and
       nothing is written. A store with a key writes sealed secrets as ciphertext, and uses only state encrypted with
       that key; a store without one writes their digests, and refuses encrypted state (``UsageError``).
    7. ``load_conclusion`` returns the content given to ``save_conclusion`` only as long as nothing else was written to
       that stack and nothing is in doubt; it may return None at any time, and never raises for a saved content.

    Every method that writes, here and in the other interfaces of a store, is called while ``lock`` is held. A write
    that raises has written nothing; after ``StateError`` nothing more can be written under the same lock.
    """

    def load(self, name: StackName) -> StackState:
        """Return the state of a stack."""

    def stacks(self) -> Sequence[StackName]:
        """Return every stack with a commit, sorted."""

    def lock(self, command: str, timeout: float) -> AbstractContextManager[None]:
        """Hold the lock for one run of ``command``, waiting up to ``timeout`` seconds.

        A store may have a lock for each stack instead: then a run holds those that it has claimed or written.
        """

    def claim(self, name: StackName, timeout: float) -> None:
        """Hold the lock of a stack until that of ``lock`` ends, waiting up to ``timeout`` seconds.

        A run claims a stack before it loads the state that it is going to change. Raise ``StateLocked``.
        """

    def holder(self, name: StackName | None = None) -> str:
        """Return another process that holds the lock of a stack, its command and since when, or an empty text.

        Without a ``name``: of any stack. For messages only.
        """

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Record the changes about to be made."""

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write a commit; return the state afterwards."""

    def save_conclusion(self, label: str, name: StackName, content: object, keys: Sequence[RecordKey]) -> None:
        """Save a conclusion under ``label``, which names the manifest's file and its stack.

        ``content``, plain data without secrets, lists the resources that the next run need not plan. ``keys`` are the
        keys of all records, in any order: the next run names the records to load (``CachedConclusion.state``) by their
        positions in this order.
        """

    def load_conclusion(self, label: str) -> CachedConclusion | None:
        """Return the conclusion saved under ``label`` if its stack is unchanged, else None.

        A conclusion lists the resources that the next run of the same manifest need not plan (``cache``).
        """


class RunArchive(Protocol):
    """Keeps a history of finished runs, and the documents of some.

    A document is JSON. ``load_run`` returns an equal one to that given to ``save_run`` after ``finish_run``, or None:
    documents of runs may vanish at any time. A failure to write or read one raises nothing but ``OSError``.
    """

    def finish_run(self, name: StackName, run: Mapping[str, object]) -> None:
        """Record a finished run: its id, command, times, summary."""

    def history(self, name: StackName | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the last finished runs of a stack, or of all, the oldest first, with ``project`` and ``stack``."""

    def save_run(self, run: str, content: bytes) -> None:
        """Save the document of a run, without secrets, after its last commit. Raises ``OSError``."""

    def load_run(self, run: str) -> bytes | None:
        """Return the document of a run, or None. Raises ``OSError``."""

    def saved_runs(self) -> Sequence[str]:
        """Return the ids of the runs with a document, the oldest first. Raises ``OSError``."""


class StateAdmin(Protocol):
    """Replaces, moves, removes, verifies and repairs whole stacks."""

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Replace the whole state of a stack, its lineage and serial too, without checking whether that is allowed."""

    def rekey(self, name: StackName, key: keys.Key | None, *, drop_generations: bool = False) -> StackState:
        """Encrypt a stack under ``key`` with a new data key; with None keep only digests of its secrets.

        Atomic, whatever the stack was encrypted with before; raises the serial. ``drop_generations``: remove the copies
        of older states, which the older key opens. Raises ``UsageError`` when nothing is recorded.
        """

    def rename(self, name: StackName, new: StackName) -> None:
        """Move a stack with its history to a name that is free; atomic, raises the serial.

        Raises ``UsageError`` when nothing is recorded of ``name``, or something of ``new``.
        """

    def remove(self, name: StackName) -> None:
        """Forget a stack with its history; atomic. Raises ``UsageError`` when nothing is recorded of it."""

    def check(self) -> Sequence[str]:
        """Verify everything that is stored; return sentences about intact parts. Raises ``StateError``."""

    def recover(self, timeout: float) -> Sequence[str]:
        """Take the lock and replace damaged state by the newest intact generation; return each action and loss.

        Raises ``StateError`` when nothing is intact, ``StateLocked``.
        """


class Store(StateStore, RunArchive, StateAdmin, Protocol):
    """A store with all three interfaces, as ``open_store`` returns it."""


def check_recorded(name: StackName, recorded: Container[StackName]) -> None:
    """Raise ``UsageError`` when nothing is recorded of a stack."""
    if name not in recorded:
        raise not_recorded(name)


def not_recorded(name: StackName) -> UsageError:
    """Return the error that nothing is recorded of a stack."""
    return UsageError(f"nothing is recorded of {name}")


def check_rename(name: StackName, new: StackName, recorded: Container[StackName]) -> None:
    """Raise ``UsageError`` when nothing is recorded of a stack, or something of its new name."""
    check_recorded(name, recorded)
    if new.checked() in recorded:
        raise UsageError(f"{new} is recorded already")


class MemoryStore:
    """Keeps state in this process: for tests and for programs that need no state between runs."""

    def __init__(self) -> None:
        """Start without stacks and runs."""
        self._states: dict[StackName, StackState] = {}
        self._runs: list[Mapping[str, object]] = []

    def load(self, name: StackName) -> StackState:
        """Return the state of a stack; a new one is kept, so that its salt stays the same until the first commit."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = StackState(name.project, name.stack, salt=os.urandom(32))
        return state

    def stacks(self) -> Sequence[StackName]:
        """Return every stack with a commit, sorted."""
        return sorted(name for name, state in self._states.items() if state.serial)

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:  # noqa: ARG002 - no other process has this store
        """Admit the run."""
        yield

    def claim(self, name: StackName, timeout: float) -> None:
        """Do nothing: no other process has this store."""

    def holder(self, name: StackName | None = None) -> str:  # noqa: ARG002 - no other process has this store
        """Return an empty text: no other process has this store."""
        return ""

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Record the changes about to be made until a commit resolves them, as a durable store does."""
        state = self.load(name)
        codec.check_encodable(intents)  # raises for the values that a durable store refuses
        self._states[name] = state._replace(intents={**state.intents, **{intent.key: intent for intent in intents}})

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write a commit; return the state afterwards, with the same rules for lineage and serial as a durable store.

        The first commit with changes creates the lineage, and each raises the serial.
        """
        state = self.load(name)
        codec.check_encodable(commit.put)
        codec.check_encodable(commit.outputs)
        resolved = set(commit.resolved)
        changed = state._replace(intents={key: intent for key, intent in state.intents.items() if key not in resolved})
        if commit.changes_state:
            changed = apply_commit(changed, commit)._replace(
                lineage=state.lineage or os.urandom(16).hex(), serial=state.serial + 1
            )
        self._states[name] = changed
        return changed

    def finish_run(self, name: StackName, run: Mapping[str, object]) -> None:
        """Record a finished run."""
        self._runs.append({"project": name.project, "stack": name.stack, **run})

    def history(self, name: StackName | None = None) -> Sequence[Mapping[str, object]]:
        """Return the finished runs of a stack, or of all, in the order in which they ended."""
        return [run for run in self._runs if name is None or (run["project"], run["stack"]) == name]

    def save_run(self, run: str, content: bytes) -> None:
        """Save nothing: the program has the run's report."""

    def load_run(self, run: str) -> bytes | None:  # noqa: ARG002 - the protocol's
        """Return None."""
        return None

    def saved_runs(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def save_conclusion(self, label: str, name: StackName, content: object, keys: Sequence[RecordKey]) -> None:
        """Save nothing: reading this store is fast enough."""

    def load_conclusion(self, label: str) -> None:
        """Return None."""

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Replace the whole state of a stack."""
        codec.check_encodable([*state.records.values(), state.outputs])
        self._states[name] = state._replace(project=name.project, stack=name.stack)

    def rekey(
        self,
        name: StackName,  # noqa: ARG002 - the protocol's
        key: keys.Key | None,  # noqa: ARG002 - the protocol's
        *,
        drop_generations: bool = False,  # noqa: ARG002 - the protocol's
    ) -> StackState:
        """Raise ``UsageError``: nothing is written, so nothing can be encrypted."""
        raise UsageError("state is kept in memory: there is nothing to encrypt")

    def rename(self, name: StackName, new: StackName) -> None:
        """Move a stack with its history to a name that is free."""
        check_rename(name, new, self._recorded())
        state = self._states.pop(name)
        self._states[new] = state._replace(**new._asdict(), serial=state.serial + 1)
        self._runs = [{**run, **new._asdict()} if (run["project"], run["stack"]) == name else run for run in self._runs]

    def remove(self, name: StackName) -> None:
        """Forget a stack with its history."""
        check_recorded(name, self._recorded())
        del self._states[name]
        self._runs = [run for run in self._runs if (run["project"], run["stack"]) != name]

    def _recorded(self) -> set[StackName]:
        """Return the stacks with a commit or an open intent; any other one was only read."""
        return {name for name, state in self._states.items() if state.serial or state.intents}

    def check(self) -> Sequence[str]:
        """Return the number of stacks; memory needs no verification."""
        return [f"kept in memory: {counted(len(self.stacks()), 'stack')}"]

    def recover(self, timeout: float) -> Sequence[str]:  # noqa: ARG002 - no other process has this store
        """Do nothing."""
        return ["nothing to recover: state is kept in memory"]


class NoStore(MemoryStore):
    """A store that is never read again, for a single run: the runtime records nothing where it meets this class."""


def apply_commit(state: StackState, commit: Commit) -> StackState:
    """Return a state with the records, owed refreshes, outputs, manifest and machine of a commit applied.

    All stores use this function, so that the same commits lead to the same state in each of them.
    """
    records: dict[RecordKey, Record] = dict(state.records)
    for key in commit.drop:
        records.pop(key, None)
    for record in commit.put:
        records[record.key] = record
    owed: dict[RecordKey, Sequence[str]] = dict(state.owed)
    for key in commit.paid:
        owed.pop(key, None)
    for key, sources in commit.owed.items():
        # Sorted: the result must not depend on the order of the changes.
        owed[key] = sorted({*owed.get(key, ()), *sources})
    for key in commit.drop:  # also those just added: a resource without a record cannot be refreshed
        owed.pop(key, None)
    return state._replace(
        records=records,
        owed=owed,
        outputs=state.outputs if commit.outputs is None else commit.outputs,
        manifest=state.manifest if commit.manifest is None else commit.manifest,
        machine=state.machine if commit.machine is None else commit.machine,
    )
