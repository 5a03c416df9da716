"""What a run writes to state, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.state.store import MemoryStore, StackName
from resource_api.transaction.recorder import Recorder
from resource_api.transaction.refreshes import Refreshes
from tests.unit.transaction.test_results import Table

if TYPE_CHECKING:
    from resource_api.transaction.operation_run import OperationRun

_NAME: Final = StackName("p", "default")
_ROW: Final = {"name": "a", "ensure": "present", "size": 1}


def _set(table: Table, recorder: Recorder) -> OperationRun:
    """Carry out the first operation as far as its provider's call."""
    run = table.runs[0]
    recorder.write_intents([run])
    run.started = 1.0
    return run


def test_a_change_and_the_refresh_that_it_causes_are_one_commit() -> None:
    """Its intent is resolved by the same commit."""
    table, store = Table({"Part[a]": {"size": 1, "notify": "Part[b]"}, "Part[b]": {}}, {"b": 1}), MemoryStore()
    recorder = Recorder(store, _NAME, table.plan, "run")
    run = _set(table, recorder)
    assert list(store.load(_NAME).intents) == [("part", "a")]
    run.is_ = _ROW
    table.results.complete(run)
    recorder.commit_results([run], table.results, Refreshes(table.plan, table.results.changed).owed([run]))
    state = store.load(_NAME)
    assert (state.serial, dict(state.intents)) == (1, {})
    assert [(record.is_, record.owned, record.status) for record in state.records.values()] == [(_ROW, True, "ready")]
    assert state.owed == {("part", "b"): ["Part[a]"]}


def test_what_could_not_be_read_after_its_call_stays_in_doubt() -> None:
    """Its intent is left for the next run, and nothing is recorded."""
    table, store = Table({"Part[a]": {"size": 1}}), MemoryStore()
    recorder = Recorder(store, _NAME, table.plan, "run")
    run = _set(table, recorder)
    run.result = run.result._replace(read_error="no answer")
    table.results.fail(run, "no answer")
    recorder.commit_results([run], table.results, {})
    state = store.load(_NAME)
    assert list(state.intents) == [("part", "a")]
    assert not state.records


def test_a_creation_that_failed_halfway_is_recorded_as_partial() -> None:
    """What exists is ours, and the next run updates it."""
    table, store = Table({"Part[a]": {"size": 1}}), MemoryStore()
    recorder = Recorder(store, _NAME, table.plan, "run")
    run = _set(table, recorder)
    run.is_ = {**_ROW, "size": 7}
    table.results.fail(run, "did not converge")
    recorder.commit_results([run], table.results, {})
    (record,) = store.load(_NAME).records.values()
    assert (record.is_, record.should["size"], record.owned, record.status) == (run.is_, 1, True, "partial")


def test_a_skipped_operation_that_was_not_begun_is_not_recorded() -> None:
    """Nothing is committed for it."""
    table, store = Table({"Part[a]": {}}), MemoryStore()
    table.results.skip(table.runs[0], "skipped because the run was interrupted")
    Recorder(store, _NAME, table.plan, "run").commit_results(table.runs, table.results, {})
    assert store.load(_NAME).serial == 0


def test_what_was_only_read_is_recorded_at_the_end() -> None:
    """Unless it is recorded so already."""
    table, store = Table({"Part[a]": {"size": 1}}, {"a": 1}), MemoryStore()
    table.results.unchanged(table.runs[0])
    Recorder(store, _NAME, table.plan, "run").finish(table.results, {"o": 1})
    state = store.load(_NAME)
    assert [(record.title, record.owned) for record in state.records.values()] == [("a", False)]
    assert state.outputs == {"o": 1}


def test_without_a_store_nothing_is_written() -> None:
    """As under noop."""
    table = Table({"Part[a]": {}})
    recorder = Recorder(None, _NAME, table.plan, "run")
    run = _set(table, recorder)
    recorder.begin()
    table.results.complete(run)
    recorder.commit_results([run], table.results, {})
    recorder.write_refreshes([run])
    recorder.finish(table.results, {})
