"""A host's journal numbers jobs as they come and does each once, and says what keeps it from that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api.fleet.host.journal import MAX_REPORT, JobReport, Journal, Superseded
from resource_api.fleet.job import HostJob, with_id
from resource_api.model.values.errors import StateError
from resource_api.state.store import StackName
from tests.sampling import times

if TYPE_CHECKING:
    from pathlib import Path

NAME = StackName("web", "default")


def job(run: int, inputs: int = 0) -> HostJob:
    """Return a job."""
    return with_id(HostJob("apply", str(run), payload="p", inputs={"size": inputs}, operator="ops@laptop"))


def deliver(directory: Path, delivered: HostJob) -> str:
    """Return what becomes of a job that succeeds: done, repeated or superseded."""
    journal = Journal(f"{directory}/state.db", NAME)
    with journal.held("apply", 0.0):
        try:
            declared = journal.begin(delivered)
        except Superseded:
            return "superseded"
        if declared is not None:
            assert declared == JobReport(0, [{"type": "summary", "run": delivered.run}])
            return "repeated"
        journal.finish(JobReport(0, [{"type": "summary", "run": delivered.run}]))
        return "done"


@settings(max_examples=times(0.5))
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), max_size=8))
def test_each_run_is_done_once_and_none_after_a_newer_one(
    tmp_path_factory: pytest.TempPathFactory, delivered: list[tuple[int, int]]
) -> None:
    """Whatever is delivered how often, in any order: the first delivery decides, and no clock."""
    directory, newest, jobs = tmp_path_factory.mktemp("journal"), (0, 0), set[Any]()
    for item in delivered:
        outcome = deliver(directory, job(*item))
        if item == newest:
            assert outcome == "repeated"
        elif item in jobs or item[0] == newest[0]:
            assert outcome == "superseded"
        else:
            assert outcome == "done"
            newest = item
            jobs.add(item)


def test_a_machine_that_is_selected_by_two_names_does_what_one_is_given(tmp_path: Path) -> None:
    """The other job of the same run is refused with that reason."""
    assert deliver(tmp_path, job(3)) == "done"
    journal = Journal(f"{tmp_path}/state.db", NAME)
    with journal.held("apply", 0.0), pytest.raises(Superseded, match="as where two names select it; nothing was done"):
        journal.begin(job(3, 1))


def test_a_job_that_was_begun_is_done_again(tmp_path: Path) -> None:
    """After a crash nobody knows how far it went."""
    journal = Journal(f"{tmp_path}/state.db", NAME)
    with journal.held("apply", 0.0):
        assert journal.begin(job(3)) is None
    assert deliver(tmp_path, job(3)) == "done"
    assert deliver(tmp_path, job(3)) == "repeated"


def test_a_journal_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its generations were the clock of some controller; whatever they were, the next job is done."""
    path = tmp_path / "jobs" / "web--default.json"
    path.parent.mkdir(mode=0o700)
    path.write_text('{"id": "x", "generation": 99999999999999, "report": null}')
    path.chmod(0o600)
    assert deliver(tmp_path, job(1)) == "done"
    assert json.loads(path.read_text())["generation"] == 100000000000000
    assert deliver(tmp_path, job(2)) == "done"


def test_of_a_large_report_the_summary_is_kept(tmp_path: Path) -> None:
    """A run of ten thousand changes leaves no ten megabytes."""
    journal = Journal(f"{tmp_path}/state.db", NAME)
    summary = {"type": "summary", "created": 1}
    with journal.held("apply", 0.0):
        journal.begin(job(1))
        journal.finish(JobReport(0, [{"type": "step_end", "is": "x" * MAX_REPORT}, summary]))
        assert journal.begin(job(1)) == JobReport(0, [summary])


def test_a_journal_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    """With the path, and the reason of the system."""
    (tmp_path / "jobs").write_text("")
    journal = Journal(f"{tmp_path}/state.db", NAME)
    with pytest.raises(StateError, match=rf"^{tmp_path}/jobs: Not a directory$"), journal.held("apply", 0.0):
        pass
    (tmp_path / "jobs").unlink()
    with journal.held("apply", 0.0):
        (tmp_path / "jobs" / "web--default.json").mkdir()
        with pytest.raises(StateError, match=rf"^{tmp_path}/jobs/web--default.json: Is a directory$"):
            journal.begin(job(1))
