"""The laws of every state store, as test classes that an author inherits. Needs pytest and hypothesis.

A store is tested by what it returns after it was opened again, with ``MemoryStore`` as the model. Damage is specific to
each store and must not enter here.
"""

# ruff: noqa: S101, PLR2004 - a law is an assertion, and a number in it is the law itself

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from resource_api.model.record import Commit, Intent
from resource_api.model.sealed_secrets import Sealed, digest_secret
from resource_api.model.values.errors import StateLocked, UsageError
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.state.store import MemoryStore, StackName
from resource_api.testing.state_examples import OTHER, WEB, content, histories, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from resource_api.state.store import Store
    from resource_api.testing.state_examples import Write

    Reopen = Callable[[], Store]

#: Enough examples to find faults, few enough for stores that wait for a disk. Each store's class runs the law.
_FEW: Final = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)


class _StoreLaws:
    """The stores that laws are about; a subclass implements ``opened``."""

    def opened(self) -> AbstractContextManager[Reopen]:
        """Return a context manager with a function that opens the same state each time, which is empty at first."""
        raise NotImplementedError

    @contextmanager
    def held(self) -> Iterator[tuple[Store, Reopen]]:
        """Yield a store under its lock, and the function that opens it again."""
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                yield store, reopen


class StateStoreCompliance(_StoreLaws):
    """The laws of ``StateStore``."""

    def test_this_process_is_no_other_holder(self) -> None:
        """``holder`` names another process only: of an own lock, and of a free one, there is none."""
        with self.held() as (store, reopen):
            assert (store.holder(), reopen().holder()) == ("", "")
        with self.opened() as reopen:
            assert reopen().holder() == ""

    def test_an_unknown_stack_is_empty(self) -> None:
        """Its serial is 0, it has no lineage and no content, and it is not listed."""
        with self.opened() as reopen:
            state = reopen().load(WEB)
            assert (state.project, state.stack, state.lineage, state.serial) == ("web", "default", "", 0)
            assert [*state.records, *state.owed, *state.intents, *state.outputs] == []
            assert list(reopen().stacks()) == []

    @_FEW
    @given(history=histories())
    def test_any_writes_give_the_state_of_the_model(self, history: list[Write]) -> None:
        """The store returns what was written, also after it is opened again."""
        model = MemoryStore()
        with self.opened() as reopen:
            store = reopen()
            for name, intents, commit in history:
                with store.lock("test", 0):
                    for each in (store, model):
                        each.record_intents(name, intents)
                    assert content(store.load(name)) == content(model.load(name))
                    result = store.commit(name, commit)
                    assert content(result) == content(model.commit(name, commit))
                assert content(store.load(name)) == content(model.load(name))
            again = reopen()
            assert list(again.stacks()) == list(model.stacks())
            for name in (WEB, OTHER):
                assert content(again.load(name)) == content(model.load(name))

    def test_records_keep_the_order_of_creation(self) -> None:
        """A record that is written again keeps its position; after a drop it comes last."""
        with self.held() as (store, reopen):
            store.commit(WEB, Commit([record("/a"), record("/b"), record("/c")]))
            store.commit(WEB, Commit([record("/a", title="x")]))
            store.commit(WEB, Commit(drop=[("file", "/b")]))
            store.commit(WEB, Commit([record("/b")]))
            assert [key[1] for key in reopen().load(WEB).records] == ["/a", "/c", "/b"]

    def test_the_serial_counts_commits_that_write(self) -> None:
        """Each raises it by one, except one that is empty or only resolves intents."""
        with self.held() as (store, _):
            assert store.commit(WEB, Commit()).serial == 0
            store.record_intents(WEB, [Intent("run", "file", "/a", "/a", "create")])
            assert store.commit(WEB, Commit(resolved=[("file", "/a")])).serial == 0
            assert [store.commit(WEB, Commit([record()])).serial for _ in range(3)] == [1, 2, 3]
            assert store.commit(WEB, Commit(outputs={})).serial == 4

    def test_the_lineage_never_changes(self) -> None:
        """The first commit creates it; each stack has its own."""
        with self.held() as (store, reopen):
            first = store.commit(WEB, Commit([record()])).lineage
            assert first
            assert store.commit(WEB, Commit(drop=[record().key])).lineage == first
            assert reopen().load(WEB).lineage == first
            assert store.commit(OTHER, Commit([record()])).lineage != first

    def test_the_salt_is_there_before_the_first_commit(self) -> None:
        """Secrets sealed with the salt of an empty stack stay comparable."""
        with self.held() as (store, reopen):
            salt = store.load(WEB).salt
            assert len(salt) >= 16
            assert store.commit(WEB, Commit([record()])).salt == salt
            assert reopen().load(WEB).salt == salt

    def test_an_intent_is_known_until_its_outcome_is(self) -> None:
        """Also if it was recorded twice, or the intents recorded together with it have their outcome."""
        names: list[Any] = ["/a", ("/b", "x")]
        both = [Intent("1", "file", name, "title", "create") for name in names]
        with self.held() as (store, reopen):
            store.record_intents(WEB, both)
            assert dict(reopen().load(WEB).intents) == {each.key: each for each in both}
            again = both[0]._replace(run="2", action="update")
            store.record_intents(WEB, [again])
            store.commit(WEB, Commit(resolved=[both[1].key]))
            assert dict(reopen().load(WEB).intents) == {again.key: again}
            store.commit(WEB, Commit([record()], resolved=[again.key]))
            assert not reopen().load(WEB).intents

    def test_a_refresh_is_owed_until_it_is_paid(self) -> None:
        """Sources accumulate; paying it or dropping the resource removes it."""
        a, b = ("service", "a"), ("service", "b")
        with self.held() as (store, reopen):
            store.commit(WEB, Commit(owed={a: ["File[/1]"], b: ["File[/1]"]}))
            store.commit(WEB, Commit(owed={a: ["File[/2]", "File[/1]"]}))
            assert dict(reopen().load(WEB).owed) == {a: ["File[/1]", "File[/2]"], b: ["File[/1]"]}
            store.commit(WEB, Commit(paid=[a], drop=[b]))
            assert not reopen().load(WEB).owed

    @pytest.mark.parametrize("value", [Sensitive("sesame"), UNKNOWN], ids=["secret", "unknown"])
    def test_a_secret_in_clear_or_an_unknown_value_is_refused(self, value: Any) -> None:
        """It raises ``TypeError`` at any depth, and the commit is not written."""
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
        """It is equal to the same secret sealed with the same salt, and to nothing else."""
        with self.held() as (store, reopen):
            salt = store.load(WEB).salt
            store.commit(WEB, Commit([record(should={"password": digest_secret("sesame", salt)})]))
            found = reopen().load(WEB).records[record().key].should["password"]
            assert isinstance(found, Sealed)
            assert found == digest_secret("sesame", salt)
            assert found != digest_secret("other", salt)

    def test_a_conclusion_is_valid_until_something_is_written(self) -> None:
        """A store may return None at any time; otherwise it returns what was saved, of an unchanged stack."""
        keys = [record("/b").key, record("/a").key]
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/a"), record("/b"), record("/c")]))
                store.save_conclusion("some", WEB, ["x"], keys)
                store.commit(WEB, Commit(drop=[record("/c").key]))
                store.save_conclusion("all", WEB, {"a": ["ü", None, 1.5]}, keys)
            assert store.load_conclusion("other") is None
            assert store.load_conclusion("some") is None
            cached = reopen().load_conclusion("all")
            if cached is not None:
                assert cached.content == {"a": ["ü", None, 1.5]}
                found = cached.state([0])
                assert found is not None
                assert list(found.records.values()) == [record("/b")]
                assert content(found._replace(records={})) == content(store.load(WEB)._replace(records={}))
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/a", title="x")]))
                assert store.load_conclusion("all") is None
            assert reopen().load_conclusion("all") is None

    def test_no_conclusion_is_loaded_while_a_change_is_in_doubt(self) -> None:
        """An interrupted run may have changed the resources; nothing is saved during one either."""
        intent = Intent("run", "file", "/a", "/a", "update")
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
                store.save_conclusion("all", WEB, 1, [record().key])
                store.record_intents(WEB, [intent])
                store.save_conclusion("again", WEB, 1, [record().key])
            assert reopen().load_conclusion("all") is None
            assert reopen().load_conclusion("again") is None


class RunArchiveCompliance(_StoreLaws):
    """The laws of ``RunArchive``."""

    def test_finished_runs_are_listed_in_order(self) -> None:
        """Each stack has its own, with everything that was recorded."""
        with self.held() as (store, reopen):
            store.finish_run(WEB, {"run": "1", "command": "apply", "summary": {"created": 1}})
            store.finish_run(OTHER, {"run": "2"})
            store.finish_run(WEB, {"run": "3"})
            found = reopen().history(WEB)
            assert [run["run"] for run in found] == ["1", "3"]
            assert found[0]["summary"] == {"created": 1}
            whose = [(run["run"], run["project"], run["stack"]) for run in reopen().history()]
            assert whose == [("1", *WEB), ("2", *OTHER), ("3", *WEB)]

    def test_the_document_of_a_run_comes_back_or_is_not_kept(self) -> None:
        """A store may keep nothing; it never returns anything else."""
        with self.held() as (store, reopen):
            store.commit(WEB, Commit([record()]))
            store.save_run("1a", b"one")
            store.save_run("2b", b"two")
            other = reopen()
            kept = list(other.saved_runs())
            assert kept in ([], ["1a", "2b"])
            assert [other.load_run(run) for run in kept] == [b"one", b"two"][: len(kept)]
            assert other.load_run("3c") is None


class StateAdminCompliance(_StoreLaws):
    """The laws of ``StateAdmin``."""

    def test_a_whole_state_can_be_overwritten(self) -> None:
        """Lineage, serial and order are replaced too; nothing of the former state remains, and commits continue."""
        with self.held() as (store, reopen):
            store.commit(OTHER, Commit([record("/x"), record("/y")], owed={("file", "/x"): ["File[/y]"]}))
            source = store.load(OTHER)._replace(serial=7)
            store.commit(WEB, Commit([record("/old")], owed={("file", "/old"): ["File[/x]"]}))
            store.overwrite(WEB, source)
            found = reopen().load(WEB)
            assert found == source._replace(project="web", stack="default")
            assert store.commit(WEB, Commit([record("/z")])).serial == 8
            assert [key[1] for key in reopen().load(WEB).records] == ["/x", "/y", "/z"]

    def test_a_renamed_stack_keeps_everything_and_a_removed_one_nothing(self) -> None:
        """Records, outputs and history move; the old name is free, a recorded one refused."""
        new = StackName("web", "renamed")
        with self.held() as (store, reopen):
            before = store.commit(WEB, Commit([record("/a"), record("/b")], outputs={"x": 1}))
            store.commit(OTHER, Commit([record("/c")]))
            store.finish_run(WEB, {"run": "r", "command": "apply"})
            for name, other in ((new, WEB), (WEB, OTHER)):
                with pytest.raises(UsageError):
                    store.rename(name, other)
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
        """``check`` reports what is intact; ``recover`` changes nothing and reports that."""
        with self.opened() as reopen:
            store = reopen()
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
            before = reopen().load(WEB)
            assert reopen().check()
            assert any("nothing to recover" in line for line in reopen().recover(0))
            assert reopen().load(WEB) == before


class StateCompliance(StateStoreCompliance, RunArchiveCompliance, StateAdminCompliance):
    """The laws of a store with all three interfaces; a subclass implements ``opened``."""


class SharedStateCompliance(StateCompliance):
    """The laws of a store that outlives its process and can be opened by several processes."""

    def test_one_run_at_a_time(self) -> None:
        """A second run gets ``StateLocked`` naming the holder, its command and since when."""
        with self.held() as (_, reopen), pytest.raises(StateLocked) as caught, reopen().lock("plan", 0):
            pass
        assert "running 'test' since" in str(caught.value)
        assert "pid" in str(caught.value)
        assert caught.value.exit_code == 75

    def test_the_lock_is_released(self) -> None:
        """Also after an exception."""
        with self.opened() as reopen:
            with pytest.raises(KeyError), reopen().lock("test", 0):
                raise KeyError
            with reopen().lock("test", 0):
                pass

    def test_nothing_is_written_without_the_lock(self) -> None:
        """A caller without the lock gets ``RuntimeError``."""
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
        """And nothing of a commit that raised."""
        with self.held() as (store, reopen):
            for serial in range(1, 4):
                store.commit(WEB, Commit([record(f"/{serial}")]))
                assert content(reopen().load(WEB)) == content(store.load(WEB))
                with pytest.raises(TypeError):
                    store.commit(WEB, Commit([record("/never"), record("/no", should={"x": UNKNOWN})]))
                assert reopen().load(WEB).serial == serial
