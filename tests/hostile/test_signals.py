"""Signals during a run: the first lets the running step finish, the second stops programs, the third ends it."""

from __future__ import annotations

import json
import os
import pty
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.hostile.conftest import Box

SLOW: Final = '''
"""Takes its time: in Python, or in a program."""
import os
import time
from pathlib import Path

from resource_api import Command
from json_store import JsonStore


class Provider(JsonStore):
    sh = Command("sh")

    def get(self, context):
        rows = list(super().get(context))
        self._wait("verifying" if any(row["name"] == "a" for row in rows) else "get")
        return rows

    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "a":
                self._wait("set")
            self._put(name, should)

    def _wait(self, where):
        here = Path(os.environ["STORE"])
        if os.environ["WHERE"] != where:
            return
        if os.environ["HOW"] == "program":
            self.sh("-c", 'echo $$ > "$0/pid"; sleep "$1"; echo survived > "$0/survived"', here, os.environ["FOR"])
            return
        (here / "pid").write_text("0")
        end = time.monotonic() + float(os.environ["FOR"])
        while time.monotonic() < end:
            time.sleep(0.02)
'''

CODES: Final = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def slow(box: Box) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a run that waits in ``where``, and yield it when it waits; the test ends all its processes."""
    box.type("bad")
    box.provider("bad", SLOW)
    resources = {"Good[before]": {"size": 1}, "Bad[a]": {"size": 1}, "Bad[b]": {"size": 2}, "Good[after]": {"size": 2}}
    box.manifest(resources)
    started: list[subprocess.Popen[bytes]] = []

    def start(
        location: str = "set", how: str = "python", seconds: float = 30, *, parallel: int = 1, **options: Any
    ) -> subprocess.Popen[bytes]:
        box.env |= {"WHERE": location, "HOW": how, "FOR": str(seconds)}
        started.append(box.start("apply", "site.json", "--json", "--parallel", str(parallel), **options))
        wait_until(lambda: started[-1].poll() is not None or ((box.path / "pid").exists() and _read(box.path / "pid")))
        assert started[-1].poll() is None, started[-1].communicate()
        return started[-1]

    yield start
    for process in started:
        for descendant in descendants(process.pid):
            with suppress(psutil.Error):
                descendant.kill()
        process.kill()
        process.communicate()


def descendants(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process."""
    with suppress(psutil.Error):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def assert_gone(processes: list[psutil.Process]) -> None:
    """Wait until killed processes have ended."""
    _, alive = psutil.wait_procs(processes, timeout=3)
    assert [item for item in alive if item.status() != psutil.STATUS_ZOMBIE] == []


def finish(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any], str]:
    """Return the exit code, the outcome of each resource, the summary, and stderr."""
    out, err = process.communicate(timeout=25)
    events = [json.loads(line.replace(" (site.json:1)", "")) for line in out.decode().splitlines()]
    steps = {event["reference"]: event for event in events if event["type"] == "step_end"}
    assert events[-1]["type"] == "summary"
    assert "Traceback" not in err.decode()
    return process.returncode, steps, events[-1], err.decode()


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("how", ["python", "program"])
def test_the_first_signal_lets_the_running_step_finish(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]], how: str, number: signal.Signals
) -> None:
    """It is finished and verified, nothing else starts, and the summary shows it."""
    process = slow("set", how, 1)
    process.send_signal(number)
    code, steps, summary, err = finish(process)
    assert (code, summary["exit_code"]) == (CODES[number], CODES[number])
    assert steps["Bad[a]"]["status"] == "success"
    assert steps["Good[after]"]["status"] == "skipped"
    assert box.stored("bad")["a"] == {"size": 1}
    assert box.stored("good") == {"before": {"size": 1}}
    assert "interrupted" in err
    assert (box.path / "survived").exists() is (how == "program")
    (run,) = json.loads(box.run("history", "--json").out)
    assert run["summary"]["exit_code"] == CODES[number]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["python", "program"])
def test_the_second_signal_ends_the_step_and_its_programs(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]], how: str, number: signal.Signals
) -> None:
    """Child processes have ended, the interrupted step has failed, the summary is still written."""
    process = slow("set", how)
    children = descendants(process.pid)
    assert bool(children) is (how == "program")
    process.send_signal(number)
    time.sleep(0.3)
    assert process.poll() is None
    start = time.monotonic()
    process.send_signal(number)
    code, steps, summary, _ = finish(process)
    assert time.monotonic() - start < 5
    assert (code, summary["exit_code"]) == (CODES[number], CODES[number])
    assert steps["Bad[a]"]["status"] == "failed"
    assert "KeyboardInterrupt" not in steps["Bad[a]"]["error"]
    assert steps["Good[after]"]["status"] == "skipped"
    assert steps["Good[after]"]["error"] == "skipped because the run was interrupted"
    assert_gone(children)
    assert not (box.path / "survived").exists()


@pytest.mark.parametrize("how", ["python", "program"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_planning(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]], how: str, number: signal.Signals
) -> None:
    """Nothing needs to be finished."""
    process = slow("get", how)
    children = descendants(process.pid)
    process.send_signal(number)
    code, _, summary, err = finish(process)
    assert (code, summary["exit_code"]) == (CODES[number], CODES[number])
    assert "interrupted" in err
    assert box.stored("good") == {}
    assert_gone(children)


def test_the_third_signal_ends_a_provider_that_ignores_interrupts(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The process ends at once."""
    box.provider("bad", SLOW.replace("            time.sleep(0.02)", STUBBORN))
    process = slow("set", "python")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130


STUBBORN: Final = """            try:
                time.sleep(0.02)
            except BaseException:
                pass"""


def test_after_a_signal_the_next_run_continues(box: Box, slow: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Nothing is locked, nothing is in doubt, and the rest converges."""
    process = slow("set", "program")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    finish(process)
    box.env["WHERE"] = "nowhere"
    assert box.run("apply", "site.json").code == 0
    assert box.stored("bad") | box.stored("good") == {
        "a": {"size": 1},
        "b": {"size": 2},
        "d": {"size": 4},
        "before": {"size": 1},
        "after": {"size": 2},
    }


CHAIN: Final = {
    "Good[before]": {"size": 1},
    "Bad[a]": {"size": 1},
    "Bad[b]": {"size": 2},
    "Good[after]": {"size": 2, "require": "Bad[a]"},
}


@pytest.mark.parametrize("how", ["python", "program"])
def test_the_first_signal_lets_parallel_calls_finish(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]], how: str
) -> None:
    """Running calls are finished and verified; the next name of a call and all dependents are skipped."""
    box.manifest(CHAIN)
    process = slow("set", how, 1, parallel=3)
    process.send_signal(signal.SIGINT)
    code, steps, summary, err = finish(process)
    assert (code, summary["exit_code"]) == (130, 130)
    assert {name: step["status"] for name, step in steps.items()} == {
        "Good[before]": "success",
        "Bad[a]": "success",
        "Bad[b]": "skipped",
        "Good[after]": "skipped",
    }
    assert "interrupted" in err


def test_the_second_signal_ends_programs_of_parallel_calls(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Whichever thread has started them."""
    box.manifest(CHAIN)
    process = slow("set", "program", parallel=3)
    children = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, steps, _, _ = finish(process)
    assert time.monotonic() - start < 5
    assert (code, steps["Bad[a]"]["status"], steps["Good[after]"]["status"]) == (130, "failed", "skipped")
    assert_gone(children)


def test_a_parallel_call_that_does_not_end_is_abandoned(box: Box, slow: Callable[..., subprocess.Popen[bytes]]) -> None:
    """After the second signal it has a few seconds; then it is in doubt, and the next run reads and converges."""
    box.manifest(CHAIN)
    process = slow("set", "python", parallel=3)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, steps, summary, _ = finish(process)
    assert 4 < time.monotonic() - start < 8
    assert (code, summary["failed"], summary["skipped"]) == (143, 2, 1)
    assert (
        steps["Bad[a]"]["error"]
        == "its call did not end after the interrupt; its outcome is in doubt until the next run"
    )
    box.env["WHERE"] = "nowhere"
    result = box.run("apply", "site.json", "--parallel", "3")
    assert result.code == 0
    assert "Bad[a]: in doubt" in result.text
    assert box.stored("bad")["a"] == {"size": 1}


@pytest.mark.parametrize("how", ["python", "program"])
def test_an_interrupted_verification_leaves_the_resource_in_doubt(
    box: Box, slow: Callable[..., subprocess.Popen[bytes]], how: str
) -> None:
    """The summary is printed, state is written, and the next run finds everything in sync."""
    process = slow("verifying", how)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    code, steps, summary, _ = finish(process)
    assert (code, summary["exit_code"], summary["created"]) == (143, 143, 1)
    assert (steps["Bad[a]"]["status"], steps["Good[after]"]["status"]) == ("failed", "skipped")
    assert steps["Bad[a]"]["error"] == ("its call was interrupted; its outcome is in doubt until the next run")
    box.env["WHERE"] = "nowhere"
    result = box.run("apply", "site.json")
    assert result.code == 0
    assert "Bad[a]: in doubt" in result.text


def test_an_ignored_signal_stays_ignored(slow: Callable[..., subprocess.Popen[bytes]]) -> None:
    """``nohup`` keeps a run going after its terminal has closed."""
    process = slow("set", "python", 1, preexec_fn=_ignore_hangups)
    process.send_signal(signal.SIGHUP)
    code, steps, *_ = finish(process)
    assert code == 0
    assert steps["Good[after]"]["status"] == "success"


#: Ways to carry a run out, each with its arguments.
WAYS: Final = {"in order": (), "side by side": ("--parallel", "3"), "in a worker": ("--isolate",)}
#: What all providers below are prompted for.
THREE: Final = {"Bad[a]": {"size": 1}, "Bad[b]": {"size": 2}, "Bad[c]": {"size": 3}, "Good[after]": {"size": 4}}

OBEDIENT: Final = """
import json
import os
import threading
import time
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        self.come, self.context = threading.Event(), context
        self._called("set", [len(changes)])
        for name, (_, should) in changes.items():
            self._called("name", [name])
            if name == "a":
                Path("pid").write_text("0")
                self.obey(context)
            self._put(name, should)

    def obey(self, context):
        while not context.cancelled:
            time.sleep(0.01)

    def _noted(self, *words):
        with Path("order").open("a") as file:
            file.write(" ".join(map(str, words)) + "\\n")
"""
RAISING: Final = """
        raise RuntimeError("a was told to end")
"""
CANCELLABLE: Final = """
    def obey(self, context):
        assert self.come.wait(20)
        self._noted("obeyed")

    def cancel(self):
        self._noted("cancel", self.context.cancelled)
        self.come.set()

    def close(self):
        self._noted("close")
"""


@pytest.fixture
def interrupted(box: Box) -> Iterator[Callable[[str, str], Any]]:
    """Start a run of a provider's text in one of ``WAYS``, send SIGTERM during its first name, and end it."""
    box.store("bad", {})
    box.type("bad")
    started: list[subprocess.Popen[bytes]] = []

    def run(text: str, way: str) -> Any:
        box.provider("bad", text)
        started.append(box.start("apply", "site.json", "--json", *WAYS[way]))
        wait_until((box.path / "pid").exists)
        started[-1].send_signal(signal.SIGTERM)
        return finish(started[-1])

    box.manifest(THREE)
    yield run
    for process in started:
        process.kill()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_new_begins_after_the_first_signal(box: Box, interrupted: Callable[..., Any], way: str) -> None:
    """The name that was begun is finished; no further name of the call is, and nothing behind it."""
    code, steps, _, _ = interrupted(OBEDIENT, way)
    assert code == 143
    assert {ref: step["status"] for ref, step in steps.items() if ref != "Good[after]"} == {
        "Bad[a]": "success",
        "Bad[b]": "skipped",
        "Bad[c]": "skipped",
    }
    assert steps["Bad[b]"]["error"] == "skipped because the run was interrupted"
    assert box.stored("bad") == {"a": {"size": 1}}
    assert box.calls("bad", "name") == [["a"]]


@pytest.mark.parametrize("way", WAYS)
def test_what_raises_because_it_was_interrupted_is_not_retried(
    box: Box, interrupted: Callable[..., Any], way: str
) -> None:
    """It has failed with that reason; nothing is made in its place."""
    code, steps, _, err = interrupted(OBEDIENT.replace("time.sleep(0.01)\n", "time.sleep(0.01)\n" + RAISING), way)
    assert code == 143
    assert "finishing the current step" in err
    assert steps["Bad[a]"]["status"] == "failed"
    assert steps["Bad[a]"]["error"].startswith("a was told to end (providers/bad.py:")
    assert {steps[f"Bad[{name}]"]["status"] for name in "bc"} == {"skipped"}
    assert (box.stored("bad"), box.calls("bad", "set"), box.calls("bad", "name")) == ({}, [[3]], [["a"]])


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_is_cancelled_by_the_first_signal(box: Box, interrupted: Callable[..., Any], way: str) -> None:
    """``cancel`` is called beside the running call, once, and the context says so by then; ``close`` comes last."""
    code, steps, _, _ = interrupted(OBEDIENT + CANCELLABLE, way)
    assert (code, steps["Bad[a]"]["status"], steps["Bad[b]"]["status"]) == (143, "success", "skipped")
    assert (box.path / "order").read_text().splitlines() == ["cancel True", "obeyed", "close"]


@pytest.mark.parametrize("way", WAYS)
def test_a_cancel_that_does_not_return_holds_nothing_up(box: Box, interrupted: Callable[..., Any], way: str) -> None:
    """``close`` waits some seconds for it; one that raises is a warning."""
    text = OBEDIENT + CANCELLABLE.replace("self.come.set()", "self.come.set()\n        time.sleep(60)")
    start = time.monotonic()
    code, steps, _, _ = interrupted(text, way)
    assert (code, steps["Bad[a]"]["status"]) == (143, "success")
    assert time.monotonic() - start < 15
    raising = OBEDIENT + CANCELLABLE.replace("self.come.set()", "self.come.set()\n        raise OSError('no line')")
    (box.path / "pid").unlink()
    box.store("bad", {})
    assert "bad: cancel of its provider failed: no line" in interrupted(raising, way)[3]


def test_no_refresh_begins_after_a_signal(box: Box, interrupted: Callable[..., Any]) -> None:
    """It is owed to the next run."""
    box.type("bad", "refreshable")
    box.store("bad", {"b": {"size": 2}})
    box.manifest({"Bad[b]": {"size": 2}, "Bad[a]": {"size": 1, "notify": "Bad[b]"}})
    text = OBEDIENT + "\n    def refresh(self, context, names):\n        self._called('refresh', list(names))\n"
    code, steps, _, _ = interrupted(text, "in order")
    assert (code, steps["Bad[a]"]["status"], steps["Bad[b]"]["status"]) == (143, "success", "skipped")
    assert box.calls("bad", "refresh") == []
    assert box.run("apply", "site.json").code == 0
    assert box.calls("bad", "refresh") == [["b"]]


@pytest.mark.parametrize("way", WAYS)
def test_a_program_does_not_outlive_a_killed_run(box: Box, way: str) -> None:
    """The next run may begin at once: what the killed one has started does nothing any more."""
    box.type("bad")
    box.provider("bad", SLOW)
    box.env |= {"WHERE": "set", "HOW": "program", "FOR": "1"}
    box.manifest({"Bad[a]": {"size": 1}})
    process = box.start("apply", "site.json", *WAYS[way])
    program = psutil.Process(int(_read(box.path / "pid")))
    process.kill()
    process.communicate()
    assert_gone([program])
    time.sleep(1.2)
    assert not (box.path / "survived").exists()


def _ignore_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_program_does_not_get_the_terminals_interrupt(box: Box) -> None:
    """Ctrl-C reaches only this process: a running package manager finishes its work."""
    box.type("bad")
    box.provider("bad", SLOW)
    box.env |= {"WHERE": "set", "HOW": "program", "FOR": "1"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(box.path)
        os.execvpe(box.command[0], [*box.command, "apply", "site.json"], box.env)  # noqa: S606 - as a shell would
    wait_until((box.path / "pid").exists)
    program = psutil.Process(int(_read(box.path / "pid")))
    assert program.terminal() is None
    os.write(terminal, b"\x03")
    output = b""
    with suppress(OSError):
        while chunk := os.read(terminal, 4096):
            output += chunk
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert _read(box.path / "survived") == "survived"
    assert b"interrupted: finishing the current step" in output
    assert b"4 skipped" in output, output


@pytest.mark.parametrize(
    ("keys", "code"), [(b"\x04", 1), (b"\x03", 130), (b"\n", 1), (b"y\n", 1), (b"\xff\n", 1), (b"yes\n", 0)]
)
def test_any_answer_but_yes_is_no(box: Box, keys: bytes, code: int) -> None:
    """The end of the input is no; an interrupt is an interrupt; neither changes anything, nor is it a bug."""
    ended, output = _destroyed_on_a_terminal(box, keys)
    assert (ended, b"bug" in output) == (code, False), output
    assert (b"Applied in" in output, b"Nothing is deleted." in output) == (code != 1, code == 1)
    assert list(box.stored("good")) == ([] if code == 0 else ["a"])


def test_destroy_deletes_nothing_with_json_unless_it_is_told_yes(box: Box) -> None:
    """It cannot show the plan and ask; a terminal makes no difference."""
    ended, output = _destroyed_on_a_terminal(box, b"", "--json")
    assert (ended, b"destroy needs --yes with --json" in output) == (64, True), output
    assert list(box.stored("good")) == ["a"]


def _destroyed_on_a_terminal(box: Box, answer: bytes, *options: str) -> tuple[int, bytes]:
    """Apply a manifest, destroy it on a terminal with an answer to the question; return the code and the output."""
    box.manifest({"Good[a]": {}})
    assert box.run("apply", "site.json").code == 0
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(box.path)
        line = [*box.command, "destroy", "site.json", *options]
        os.execvpe(box.command[0], line, box.env)  # noqa: S606 - as a shell would
    output = b""
    with suppress(OSError):
        while chunk := os.read(terminal, 4096):
            prompted, output = b"[no]" in output, output + chunk
            if b"[no]" in output and not prompted:
                os.write(terminal, answer)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), output


def _read(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text())
    return path.read_text(encoding="utf-8").strip()
