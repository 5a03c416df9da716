"""What holds after any fault: the one checker of all sweeps. Each function raises ``AssertionError``."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.state.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from tests.faults.bench import Bench, Seen
    from tests.faults.tracer import Outcome

#: What may stand in the state's directory; of what was being made when a run was cut, see the test of its own.
_KEPT: Final = re.compile(r"state\.db(\.(lock|marker|converged|runs|[123]|(0|new)(-journal|-wal|-shm)?))?")
CUT: Final = "in doubt: the last run did not see"


def hold(bench: Bench, point: object) -> None:
    """Check every law on the machine after a failure at ``point``; an error names the point."""
    try:
        lock_is_free(bench)
        converges(bench, nothing_is_unknown(bench))
        only_ours_goes(bench)
    except BaseException as error:
        error.add_note(f"after {point}")
        raise


def failed_clearly(bench: Bench, result: Outcome, point: object) -> None:
    """Check that a run with a fault either did everything or says why it did not, and is no report of a bug."""
    assert result.returncode in {0, 1, 74}, f"{point}: {result.returncode} {result.stderr}"
    # Those of programs written in Python have the words before them that all output of programs has.
    assert not re.search("^Traceback", result.stderr, re.MULTILINE), f"{point}: {result.stderr}"
    assert "this is a bug" not in result.stderr, f"{point}: {result.stderr}"
    if result.returncode:
        assert "Error: " in result.stderr, f"{point}: {result.stderr}"
    else:
        assert bench.tree() == bench.whole.tree, point


def lock_is_free(bench: Bench) -> None:
    """Check that the lock of a killed process is free."""
    path = Path(f"{bench.state}.lock")
    if path.exists():
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def nothing_is_unknown(bench: Bench) -> Seen:
    """Check that state is valid, created resources are recorded or in doubt, and recorded ones were created."""
    SqliteStore(str(bench.state)).check()
    observed = bench.observe()
    if bench.case.system or bench.case.observation:
        return observed  # what a resource is there, only its provider can say
    declared = {*observed.state.records, *observed.state.intents}
    paths = {f"{bench.world}/{name}" for name in observed.tree.keys() - bench.before.tree.keys()}
    names = {name for _, name in declared}
    whole = {name for kind, name in declared if kind == "archive"}
    paths -= {path for path in paths for name in whole if path.startswith(f"{name}/") or path == _record(name)}
    unknown = {path for path in paths if path not in names and not _auxiliary(path, names)}
    assert not unknown, f"made, and neither recorded nor in doubt: {unknown}"
    for key, record in observed.state.records.items():
        if record.is_ is not None and key not in observed.state.intents and key not in bench.before.state.records:
            assert record.type == "errand" or os.path.lexists(record.name), f"recorded, not there: {record.reference}"
    return observed


def _record(name: str) -> str:
    """Return the file in which the provider of archives lists unpacked files."""
    return str(Path(name).with_name(f".{Path(name).name}.archive~"))


def _auxiliary(path: str, declared: set[str]) -> bool:
    """Return whether a provider keeps a file beside a resource, or has not finished it."""
    return path.endswith(".resource-api~") or str(Path(path).with_suffix("")) in declared


def converges(bench: Bench, cut: Seen) -> None:
    """Check that the next run succeeds and names the interrupted resources, and that a second one changes nothing."""
    report, events = bench.run_in_process(bench.case.command)
    assert report.exit_code == 0, [str(line) for line in events]
    subjects = {line.subject for line in events if CUT in line.text}
    assert subjects == cut.doubts
    after = bench.observe()
    as_if_nothing_had_happened(bench, after)
    stamps = bench.stamps()
    report, events = bench.run_in_process(bench.case.command)
    assert report.exit_code == 0
    assert not report.steps, [str(line) for line in events]
    assert bench.stamps() == stamps
    assert bench.observe().state == after.state


def as_if_nothing_had_happened(bench: Bench, observed: Seen) -> None:
    """Check that world and records are those of an uninterrupted run, with nothing owed or in doubt."""
    assert observed.tree == bench.whole.tree
    assert observed.records == bench.whole.records
    assert dict(observed.state.outputs) == dict(bench.whole.state.outputs)
    assert not observed.state.owed
    assert not observed.state.intents
    assert not {name for name in observed.kept if not _KEPT.fullmatch(name)}


def only_ours_goes(bench: Bench) -> None:
    """Check that destroy deletes everything that we created and nothing else."""
    if bench.gone is not None:
        report, events = bench.run_in_process("destroy")
        assert report.exit_code == 0, [str(line) for line in events]
        assert bench.observe().tree == bench.gone
        assert not bench.observe().state.records
