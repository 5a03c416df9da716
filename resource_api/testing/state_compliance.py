"""The laws of every state store, as test classes that an author inherits. Needs pytest and hypothesis.

A store is tested by its content after it was opened again, with ``MemoryStore`` as the model.
"""

# ruff: noqa: S101, PLR2004 - a law is an assertion, and a number in it is the law itself

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resource_api.model import codec
from resource_api.model.record import STATUSES, Commit, Intent, Record, RecordedLifecycle
from resource_api.model.sealed_secrets import Sealed, digest_secret
from resource_api.model.values.errors import StateLocked, UsageError
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.state.store import MemoryStore, StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from resource_api.model.record import StackState
    from resource_api.state.store import Store

    Reopen = Callable[[], Store]
    Write = tuple[StackName, Sequence[Intent], Commit]

WEB: Final = StackName("web", "default")
OTHER: Final = StackName("web", "staging")

texts = st.text(max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.builds(lambda text: digest_secret(text, b"salt"), texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(texts, values, max_size=3)
names = texts | st.tuples(texts, texts)
reference = st.sampled_from(["File[/a]", "User[b]", "Web_site[b]/File[d e]"])
references = st.lists(reference, max_size=2)
records = st.builds(
    Record,
    type=st.sampled_from(["file", "user"]),
    name=names,
    title=texts,
    inputs=attributes,
    should=attributes,
    is_=st.none() | attributes,
    owned=st.booleans(),
    requires=references,
    value_requires=st.dictionaries(texts, references, max_size=2),
    lifecycle=st.builds(
        RecordedLifecycle,
        protect=st.booleans(),
        replace=st.none() | st.just("never"),
        deleted_with=st.none() | reference,
    ),
    status=st.sampled_from(STATUSES),
    last_run=st.sampled_from(["", "2026-01-02T03:04:05+00:00"]),
    successor=st.sampled_from(["", "File[/a]"]),
    changed_at=st.sampled_from(["", "2026-01-02T03:04:05.678+00:00"]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    """Return a sequence of writes to two stacks, which the tested store and the model (``MemoryStore``) both get.

    The writes concern the same few resources, so that later ones affect the results of earlier ones, such as the drop
    of a resource that owes a refresh.
    """
    pool = draw(st.lists(records, min_size=1, max_size=5, unique_by=lambda member: member.key))
    some = st.lists(st.sampled_from([member.key for member in pool]), max_size=3, unique=True)
    history: list[Write] = []
    for _ in range(draw(st.integers(1, 5))):
        put = [member for member in pool if draw(st.booleans())]
        intents = [Intent("run", *key, "title", "create", protect=draw(st.booleans())) for key in draw(some)]
        owed = {key: ["File[/a]"] for key in draw(some)}
        commit = Commit(
            put=put,
            drop=draw(some),
            resolved=draw(some),
            owed=owed,
            paid=draw(some),
            outputs=draw(st.none() | attributes),
        )
        history.append((draw(st.sampled_from([WEB, OTHER])), intents, commit))
    return history


def record(name: object = "/a", **changes: Any) -> Record:
    """Return a small record of a file to write into a store, with ``changes`` of its fields."""
    values = {"ensure": "present", "content": "hi"}
    return Record("file", name, str(name), inputs=values, should=values, is_=values, owned=True, requires=[])._replace(
        **changes
    )


def content(state: StackState) -> str:
    """Return a state as exact text, to compare a store with the model and with itself after it is opened again.

    The lineage and the salt are left out, because they are random. Records are in their order, which must be kept.
    """
    parts = [state.project, state.stack, str(state.serial), state.manifest, codec.encode(state.outputs)]
    parts += map(codec.encode, state.records.values())
    parts += sorted(codec.encode(item) for item in [*state.owed.items(), *state.intents.values()])
    return "\n".join(parts)


#: Enough examples to find faults, few enough for stores that wait for a disk. Each store's class runs the law.
_FEW: Final = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors]
)


class StateCompliance:
    """The laws of a store with all three interfaces; a subclass implements ``opened``."""

    def opened(self) -> AbstractContextManager[Reopen]:
        """Return a context manager with a function that opens the same state each time, which is empty at first."""
        raise NotImplementedError

    @contextmanager
    def held(self) -> Iterator[tuple[Store, Reopen]]:
        """Yield a store under its lock, and the function that opens it again, to read the written state."""
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                yield store, reopen

    def test_this_process_is_no_other_holder(self) -> None:
        """``holder`` returns another process with the lock, for messages, and "" for an own or a free lock."""
        with self.held() as (store, reopen):
            assert (store.holder(), reopen().holder()) == ("", "")
        with self.opened() as reopen:
            assert reopen().holder() == ""

    def test_an_unknown_stack_is_empty(self) -> None:
        """A stack that was never written has the serial 0, no lineage and no content, for a first run to begin with.

        It is not listed among the recorded stacks.
        """
        with self.opened() as reopen:
            state = reopen().load(WEB)
            assert (state.project, state.stack, state.lineage, state.serial) == ("web", "default", "", 0)
            assert [*state.records, *state.owed, *state.intents, *state.outputs] == []
            assert list(reopen().stacks()) == []

    @_FEW
    @given(history=histories())
    def test_any_writes_give_the_state_of_the_model(self, history: list[Write]) -> None:
        """After any writes the store has the state of ``MemoryStore``, the model, also after it is opened again.

        Generated histories contain combinations of writes that no single law lists.
        """
        model = MemoryStore()
        with self.opened() as reopen:
            store = reopen()
            for name, intents, commit in history:
                with store.lock("test", 0):
                    for target in (store, model):
                        target.record_intents(name, intents)
                    assert content(store.load(name)) == content(model.load(name))
                    result = store.commit(name, commit)
                    assert content(result) == content(model.commit(name, commit))
                assert content(store.load(name)) == content(model.load(name))
            again = reopen()
            assert list(again.stacks()) == list(model.stacks())
            for name in (WEB, OTHER):
                assert content(again.load(name)) == content(model.load(name))

    def test_records_keep_the_order_of_creation(self) -> None:
        """A record that is written again keeps its position; after a drop it comes last: destroy uses the order."""
        with self.held() as (store, reopen):
            store.commit(WEB, Commit([record("/a"), record("/b"), record("/c")]))
            store.commit(WEB, Commit([record("/a", title="x")]))
            store.commit(WEB, Commit(drop=[("file", "/b")]))
            store.commit(WEB, Commit([record("/b")]))
            assert [key[1] for key in reopen().load(WEB).records] == ["/a", "/c", "/b"]

    def test_the_serial_counts_commits_that_write(self) -> None:
        """Each commit raises the serial by one, so that of two copies the newer one can be told.

        A commit that is empty or only resolves intents leaves the serial as it is.
        """
        with self.held() as (store, _):
            assert store.commit(WEB, Commit()).serial == 0
            store.record_intents(WEB, [Intent("run", "file", "/a", "/a", "create")])
            assert store.commit(WEB, Commit(resolved=[("file", "/a")])).serial == 0
            assert [store.commit(WEB, Commit([record()])).serial for _ in range(3)] == [1, 2, 3]
            assert store.commit(WEB, Commit(outputs={})).serial == 4

    def test_the_lineage_never_changes(self) -> None:
        """The first commit of a stack creates its lineage, different from every other one; later commits keep it.

        Only copies of one lineage can be compared by their serials.
        """
        with self.held() as (store, reopen):
            first = store.commit(WEB, Commit([record()])).lineage
            assert first
            assert store.commit(WEB, Commit(drop=[record().key])).lineage == first
            assert reopen().load(WEB).lineage == first
            assert store.commit(OTHER, Commit([record()])).lineage != first

    def test_the_salt_is_there_before_the_first_commit(self) -> None:
        """An empty stack has the salt that it keeps: secrets sealed before the first commit stay comparable."""
        with self.held() as (store, reopen):
            salt = store.load(WEB).salt
            assert len(salt) >= 16
            assert store.commit(WEB, Commit([record()])).salt == salt
            assert reopen().load(WEB).salt == salt

    def test_an_intent_is_known_until_its_outcome_is(self) -> None:
        """An intent stays until its outcome is written, also if recorded again, or if others of its call have one."""
        names: list[object] = ["/a", ("/b", "x")]
        both = [Intent("1", "file", name, "title", "create") for name in names]
        with self.held() as (store, reopen):
            store.record_intents(WEB, both)
            assert dict(reopen().load(WEB).intents) == {intent.key: intent for intent in both}
            again = both[0]._replace(run="2", action="update")
            store.record_intents(WEB, [again])
            store.commit(WEB, Commit(resolved=[both[1].key]))
            assert dict(reopen().load(WEB).intents) == {again.key: again}
            store.commit(WEB, Commit([record()], resolved=[again.key]))
            assert not reopen().load(WEB).intents

    def test_a_refresh_is_owed_until_it_is_paid(self) -> None:
        """The refresh of a resource by a changed one (``notify``) is recorded until it was made: a later run makes it.

        The references of the changed resources accumulate; paying it or dropping the resource removes it.
        """
        a, b = ("service", "a"), ("service", "b")
        with self.held() as (store, reopen):
            store.commit(WEB, Commit(owed={a: ["File[/1]"], b: ["File[/1]"]}))
            store.commit(WEB, Commit(owed={a: ["File[/2]", "File[/1]"]}))
            assert dict(reopen().load(WEB).owed) == {a: ["File[/1]", "File[/2]"], b: ["File[/1]"]}
            store.commit(WEB, Commit(paid=[a], drop=[b]))
            assert not reopen().load(WEB).owed

    @pytest.mark.parametrize("value", [Sensitive("sesame"), UNKNOWN], ids=["secret", "unknown"])
    def test_a_secret_in_clear_or_an_unknown_value_is_refused(self, value: object) -> None:
        """Such a value at any depth raises ``TypeError``, and the commit is not written: state must hold neither."""
        with self.held() as (store, reopen):
            store.commit(WEB, Commit([record()]))
            for commit in (
                Commit([record("/b"), record("/c", should={"list": [value]})]),
                Commit([record("/b")], outputs={"x": value}),
            ):
                with pytest.raises(TypeError):
                    store.commit(WEB, commit)
            store.commit(WEB, Commit([record("/d")]))
            assert [key[1] for key in reopen().load(WEB).records] == ["/a", "/d"]

    def test_a_sealed_secret_comes_back_sealed(self) -> None:
        """A sealed secret is equal to the same secret sealed with the same salt, and to no other: a change is seen."""
        with self.held() as (store, reopen):
            salt = store.load(WEB).salt
            store.commit(WEB, Commit([record(should={"password": digest_secret("sesame", salt)})]))
            password = reopen().load(WEB).records[record().key].should["password"]
            assert isinstance(password, Sealed)
            assert password == digest_secret("sesame", salt)
            assert password != digest_secret("other", salt)

    def test_a_conclusion_is_valid_until_something_is_written(self) -> None:
        """A conclusion (a result that an unchanged run need not compute again) is returned only for an unchanged stack.

        A store may also return None at any time.
        """
        keys = [record("/b").key, record("/a").key]
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/a"), record("/b"), record("/c")]))
                store.save_conclusion("outdated", WEB, ["x"], keys)
                store.commit(WEB, Commit(drop=[record("/c").key]))
                store.save_conclusion("current", WEB, {"a": ["ü", None, 1.5]}, keys)
            assert store.load_conclusion("unknown") is None
            assert store.load_conclusion("outdated") is None
            cached = reopen().load_conclusion("current")
            if cached is not None:
                assert cached.content == {"a": ["ü", None, 1.5]}
                state = cached.state([0])  # positions in ``keys``: the first is that of "/b"
                assert state is not None
                assert list(state.records.values()) == [record("/b")]
                assert content(state._replace(records={})) == content(store.load(WEB)._replace(records={}))
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/a", title="x")]))
                assert store.load_conclusion("current") is None
            assert reopen().load_conclusion("current") is None

    def test_no_conclusion_is_loaded_while_a_change_is_in_doubt(self) -> None:
        """No conclusion about a stack is returned or saved while a change has no outcome: resources may differ."""
        intent = Intent("run", "file", "/a", "/a", "update")
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
                store.save_conclusion("before", WEB, 1, [record().key])
                store.record_intents(WEB, [intent])
                store.save_conclusion("during", WEB, 1, [record().key])
            assert reopen().load_conclusion("before") is None
            assert reopen().load_conclusion("during") is None

    def test_finished_runs_are_listed_in_order(self) -> None:
        """The history of each stack has its own runs, the oldest first, with everything that was recorded."""
        with self.held() as (store, reopen):
            store.finish_run(WEB, {"run": "1", "command": "apply", "summary": {"created": 1}})
            store.finish_run(OTHER, {"run": "2"})
            store.finish_run(WEB, {"run": "3"})
            runs = reopen().history(WEB)
            assert [run["run"] for run in runs] == ["1", "3"]
            assert runs[0]["summary"] == {"created": 1}
            whose = [(run["run"], run["project"], run["stack"]) for run in reopen().history()]
            assert whose == [("1", *WEB), ("2", *OTHER), ("3", *WEB)]

    def test_the_document_of_a_run_comes_back_or_is_not_kept(self) -> None:
        """A saved document of a run is returned as it was, or not at all: a store may keep none."""
        documents: dict[str, object] = {"1a": {"seconds": 1.5, "groups": [[None, "ü"]]}, "2b": {}}
        with self.held() as (store, reopen):
            store.commit(WEB, Commit([record()]))
            for run, document in documents.items():
                store.finish_run(WEB, {"run": run})
                store.save_run(run, json.dumps(document).encode())
            reopened = reopen()
            saved = list(reopened.saved_runs())
            assert saved in ([], list(documents))
            assert [json.loads(reopened.load_run(run) or b"") for run in saved] == [documents[run] for run in saved]
            assert reopened.load_run("3c") is None

    def test_a_whole_state_can_be_overwritten(self) -> None:
        """A state that is written as a whole, as by an import, replaces content, lineage, serial and order.

        Later commits continue its serial.
        """
        with self.held() as (store, reopen):
            store.commit(OTHER, Commit([record("/x"), record("/y")], owed={("file", "/x"): ["File[/y]"]}))
            source = store.load(OTHER)._replace(serial=7)
            store.commit(WEB, Commit([record("/old")], owed={("file", "/old"): ["File[/x]"]}))
            store.overwrite(WEB, source)
            assert reopen().load(WEB) == source._replace(project="web", stack="default")
            assert store.commit(WEB, Commit([record("/z")])).serial == 8
            assert [key[1] for key in reopen().load(WEB).records] == ["/x", "/y", "/z"]

    def test_a_whole_state_with_a_secret_in_clear_is_refused(self) -> None:
        """A secret in clear text, in a record or an output, raises ``TypeError``: it must never be in a store.

        Nothing of that state is written.
        """
        with self.held() as (store, reopen):
            before = store.commit(WEB, Commit([record()], outputs={"x": 1}))
            secret = record(should={"password": Sensitive("sesame")})
            for state in (before._replace(records={secret.key: secret}), before._replace(outputs={"x": Sensitive(1)})):
                with pytest.raises(TypeError):
                    store.overwrite(WEB, state)
            assert reopen().load(WEB) == before

    def test_a_stack_that_was_only_read_is_not_recorded(self) -> None:
        """A stack that was only loaded, as by a plan, does not exist: it cannot be removed or renamed.

        Its name is free for another stack.
        """
        with self.held() as (store, reopen):
            before = store.commit(WEB, Commit([record()]))
            store.load(OTHER)
            with pytest.raises(UsageError):
                store.remove(OTHER)
            with pytest.raises(UsageError):
                store.rename(OTHER, StackName("web", "renamed"))
            store.rename(WEB, OTHER)
            assert reopen().load(OTHER).records == before.records

    def test_a_renamed_stack_keeps_everything_and_a_removed_one_nothing(self) -> None:
        """A rename moves records, outputs and history, and refuses a recorded name; a removal leaves nothing."""
        new = StackName("web", "renamed")
        with self.held() as (store, reopen):
            before = store.commit(WEB, Commit([record("/a"), record("/b")], outputs={"x": 1}))
            store.commit(OTHER, Commit([record("/c")]))
            store.finish_run(WEB, {"run": "r", "command": "apply"})
            for name, taken_name in ((new, WEB), (WEB, OTHER)):
                with pytest.raises(UsageError):
                    store.rename(name, taken_name)
            store.rename(WEB, new)
            assert reopen().load(new) == before._replace(stack="renamed", serial=before.serial + 1)
            assert [run["stack"] for run in reopen().history(new)] == ["renamed"]
            assert (reopen().load(WEB).serial, list(reopen().history(WEB))) == (0, [])
            store.remove(new)
            with pytest.raises(UsageError):
                store.remove(new)
            assert store.commit(WEB, Commit([record("/d")])).serial == 1
            assert (sorted(reopen().stacks()), list(reopen().history(new))) == (sorted([OTHER, WEB]), [])
            assert [key[1] for key in reopen().load(OTHER).records] == ["/c"]

    def test_recovery_leaves_an_intact_state_alone(self) -> None:
        """``check`` reports that the parts are intact; ``recover`` changes nothing and reports that.

        ``recover`` replaces damaged state by an older copy: from an intact one it would take the last commits.
        """
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
            before = reopen().load(WEB)
            assert reopen().check()
            assert any("nothing to recover" in line for line in reopen().recover(0))
            assert reopen().load(WEB) == before


class SharedStateCompliance(StateCompliance):
    """The laws of a store that outlives its process and can be opened by several processes."""

    def test_one_run_at_a_time(self) -> None:
        """A second run of a stack gets ``StateLocked``, because two runs at once would undo each other's changes.

        The message has the holder, its command and its start: the user decides whether to wait.
        """
        with self.held() as (store, reopen):
            store.claim(WEB, 0)
            other = reopen()
            with pytest.raises(StateLocked) as caught, other.lock("plan", 0):
                other.claim(WEB, 0)
        assert "running 'test' since" in str(caught.value)
        assert "pid" in str(caught.value)
        assert caught.value.exit_code == 75

    def test_the_lock_is_released(self) -> None:
        """The lock is free after the ``with`` block, also after an exception: a failed run must not block others."""
        with self.opened() as reopen:
            store, other = reopen(), reopen()
            with pytest.raises(UsageError), store.lock("test", 0):
                store.rename(WEB, OTHER)
            with other.lock("test", 0):
                other.claim(WEB, 0)

    def test_nothing_is_written_without_the_lock(self) -> None:
        """A write without the lock raises ``RuntimeError``: two runs could otherwise mix."""
        with self.opened() as reopen:
            writes: list[Callable[[Store], object]] = [
                lambda store: store.commit(WEB, Commit([record()])),
                lambda store: store.record_intents(WEB, [Intent("1", "file", "/a", "/a", "create")]),
                lambda store: store.finish_run(WEB, {}),
                lambda store: store.save_run("1", b""),
                lambda store: store.overwrite(WEB, store.load(WEB)),
            ]
            for write in writes:
                with pytest.raises(RuntimeError):
                    write(reopen())
            assert reopen().load(WEB).serial == 0

    def test_a_reader_sees_every_commit_of_a_running_writer(self) -> None:
        """A reader, such as a plan during a run, sees each commit of the run at once, and nothing of a failed one."""
        with self.held() as (store, reopen):
            for serial in range(1, 4):
                store.commit(WEB, Commit([record(f"/{serial}")]))
                assert content(reopen().load(WEB)) == content(store.load(WEB))
                with pytest.raises(TypeError):
                    store.commit(WEB, Commit([record("/never"), record("/no", should={"x": UNKNOWN})]))
                assert reopen().load(WEB).serial == serial
