"""What the command shows while work is done: on terminals, in pipes, while it waits and when it is interrupted."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.model.record import Intent
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from tests import command
from tests.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.conftest import Bench

#: A manifest with a command that waits for the gate, and one more step.
SITE: Final = """
resources:
  Widget[a]: {}
  Exec[it]: {command: "echo ready; read x < gate", shell: true, cwd: HOME}
"""


class Gate:
    """A named pipe that commands read a line from: they wait until it is opened."""

    def __init__(self, path: Path) -> None:
        """Make it, closed."""
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR)

    def open(self) -> None:
        """Let all go on that wait, and those that come."""
        os.write(self._descriptor, b"\n" * 20)

    def close(self) -> None:
        """Open it, so that nothing waits when the test has failed, and leave it."""
        self.open()
        os.close(self._descriptor)


@pytest.fixture
def gate(bench: Bench) -> Iterator[Gate]:
    """Return a gate in the bench's directory."""
    with closing(Gate(bench.home / "gate")) as created:
        yield created


def site(bench: Bench, text: str = SITE) -> Path:
    """Write a manifest."""
    return bench.write("site.yaml", text.replace("HOME", str(bench.home)))


@pytest.mark.parametrize(("columns", "colour"), [(60, {}), (100, {"NO_COLOR": "1"})], ids=["colour", "no colour"])
def test_a_running_command_has_a_live_line_that_leaves_nothing(
    bench: Bench, gate: Gate, columns: int, colour: dict[str, str]
) -> None:
    """With its place, the seconds, and what the program has printed last."""
    with Terminal(columns) as terminal:
        terminal.run(bench, "apply", site(bench), **colour)
        lines = terminal.until(lambda lines: "ready" in lines[-1])
        assert lines[0] == "Notice: Widget[a]: Successfully created"
        assert lines[1] in {f"[2/2] Exec[it] running … {second} s: ready" for second in range(20)}
        gate.open()
        code, lines = terminal.end()
    assert code == 0
    assert lines[:2] == ["Notice: Widget[a]: Successfully created", "Notice: Exec[it]: Executed successfully"]
    assert [line.startswith("Applied in ") for line in lines[2:]] == [True]


def test_lines_of_the_log_appear_above_the_live_line(bench: Bench, gate: Gate) -> None:
    """What the program prints is streamed there."""
    text = SITE.replace("read x", "seq 30; sleep 0.5; seq 31 60; read x").replace("shell", "logoutput: always, shell")
    with Terminal(60, 10) as terminal:
        terminal.run(bench, "apply", site(bench, text))
        lines = terminal.until(
            lambda lines: lines[-1].startswith("[2/2]") and "Notice: Exec[it]: Executing: 60" in lines
        )
        assert lines[2:-1] == [f"Notice: Exec[it]: Executing: {number}" for number in range(1, 61)]
        gate.open()
        assert terminal.end()[1][2:62] == lines[2:-1]


def test_calls_side_by_side_have_a_line_each(bench: Bench, gate: Gate) -> None:
    """A verb is the type's own, where it has one."""
    body = """
    def set(self, context, changes):
        for name in changes:
            with context.creating(name):
                os.read(os.open("gate", os.O_RDONLY), 1)
        self._done(changes)
    """
    bench.probe(body, features=("parallel",), verbs={"create": "probing"})
    resources = "".join(f"  Probe[{name}]: {{}}\n" for name in "abcd")
    with Terminal() as terminal:
        terminal.run(bench, "apply", site(bench, f"resources:\n{resources}"), "--parallel", "4")
        lines = terminal.until(lambda lines: len(lines) == 4)
        assert sorted(line.rpartition("…")[0] for line in lines) == [
            f"[{index}/4] Probe[{name}] probing " for index, name in enumerate("abcd", 1)
        ]
        gate.open()
        assert not [line for line in terminal.end()[1] if "…" in line]


def test_who_holds_the_lock_is_shown_while_it_is_waited_for(bench: Bench) -> None:
    """The run goes on when the lock is free; nothing of the wait is left."""
    url = f"sqlite:{bench.home}/state.db"
    with Terminal(120) as terminal:
        with SqliteStore(f"{bench.home}/state.db").lock("holding it", 0):
            terminal.run(
                bench, "apply", site(bench, "resources: {'Widget[a]': {}}"), "--lock-timeout", "30", "--state", url
            )
            [line] = terminal.until(lambda lines: lines[-1])
        wait, _, holder = line.partition(" s: ")
        assert wait.startswith("waiting for the lock of the state … ")
        assert holder.startswith(f"pid {os.getpid()} (")
        assert "has been running 'holding it' since " in holder
        code, lines = terminal.end()
    assert (code, lines[0]) == (0, "Notice: Widget[a]: Successfully created")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_live_line(bench: Bench, gate: Gate, number: int, code: int) -> None:
    """The first lets the call end; its line stays until then."""
    with Terminal() as terminal:
        terminal.run(bench, "apply", site(bench))
        terminal.until(lambda lines: "running" in lines[-1])
        os.kill(terminal.pid, number)
        terminal.until(lambda lines: "interrupted" in "".join(lines[:-1]) and "running" in lines[-1])
        gate.open()
        ended, lines = terminal.end()
    assert ended == code
    assert not [line for line in lines if "…" in line]


def test_the_third_signal_leaves_no_live_line(bench: Bench, gate: Gate) -> None:
    """A call that cannot be stopped is ended with the process."""
    body = """
    def set(self, context, changes):
        while True:
            try:
                os.read(os.open("gate", os.O_RDONLY), 1)
                return self._done(changes)
            except BaseException:
                open("stopped", "w").close()
    """
    bench.probe(body)
    # Signals that arrive together count once: each must have been handled before the next.
    handled = (lambda lines: "creating" in lines[-1], lambda lines: "interrupted" in "".join(lines))
    with Terminal() as terminal:
        terminal.run(bench, "apply", site(bench, "resources: {'Probe[a]': {}}"))
        for before in (*handled, lambda _lines: (bench.home / "stopped").exists()):
            terminal.until(before)
            os.kill(terminal.pid, signal.SIGINT)
        code, lines = terminal.end()
    assert code == 130
    assert not [line for line in lines if "…" in line]
    assert gate


@pytest.mark.parametrize(
    ("options", "environment"),
    [((), {"TERM": "dumb"}), ((), {"CI": "true"}), (("-q",), {}), (("--log-format", "json"), {})],
    ids=str,
)
def test_a_terminal_that_cannot_or_shall_not_has_no_live_lines(
    bench: Bench, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    """Nothing is replaced on it."""
    with Terminal() as terminal:
        terminal.run(bench, "apply", site(bench, "resources: {'Exec[sleep 0.5]': {}}"), *options, **environment)
        assert terminal.end()[0] == 0
    assert "\x1b[J" not in terminal.raw
    assert "…" not in terminal.raw


def test_elsewhere_a_long_call_is_a_notice_after_five_seconds(bench: Bench) -> None:
    """With ``--json`` it is an object of the stream as well."""
    text = "resources: {'Exec[it]': {command: sleep 5.3}}"
    result = bench.stream(text)
    assert result.lines == ["Notice: Exec[it]: still running (5 s)", "Notice: Exec[it]: Executed successfully"]
    [event] = [item for item in result.events("log") if item["message"].startswith("still")]
    fields = {name: event[name] for name in ("level", "subject", "message", "reference", "action", "resource_type")}
    assert fields == {
        "level": "notice",
        "subject": "Exec[it]",
        "message": "still running (5 s)",
        "reference": "Exec[it]",
        "action": "run",
        "resource_type": "exec",
    }
    assert event["urn"].endswith("::exec::it")


@pytest.mark.parametrize(
    ("output", "options", "line"),
    [
        ("always", (), "Notice: Exec[it]: Executing: ready"),
        ("always", ("--isolate",), "Notice: Exec[it]: Executing: ready"),
        ("never", ("-d",), "Debug: Exec[it]: ready"),
    ],
    ids=["logoutput", "worker", "debug"],
)
def test_a_line_of_a_program_arrives_while_it_runs(
    bench: Bench, gate: Gate, output: str, options: tuple[str, ...], line: str
) -> None:
    """Each once; the program ends only after the line was seen."""
    path = site(bench, SITE.replace("shell", f"logoutput: {output}, shell"))
    reading, writing = os.pipe()
    with Path(os.devnull).open("r+") as null, os.fdopen(reading) as lines:
        streams, words = [null.fileno(), null.fileno(), writing], ["apply", str(path), *options]
        with command.start(words, cwd=bench.home, env=bench.environment, streams=streams) as running:
            os.close(writing)
            result = next(item for item in lines if item.rstrip("\n") == line)
            gate.open()
            rest = lines.read()
            assert running.wait() == 0
    assert result
    assert "ready\n" not in rest


def test_v_shows_the_beginning_and_the_end_of_each_step_with_its_seconds(bench: Bench) -> None:
    """Not so ``-d``, which has more lines than these."""
    text = "resources: {'Widget[a]': {}, 'Exec[true]': {}, 'Exec[false]': {}}"
    lines = [line for line in bench.apply(text, "-v").lines if line.startswith("Info: ")]
    assert [re.sub(r"\d\.\d s", "0.0 s", line) for line in lines] == [
        "Info: Widget[a]: creating",
        "Info: Widget[a]: done in 0.0 s",
        "Info: Exec[true]: running",
        "Info: Exec[true]: done in 0.0 s",
        "Info: Exec[false]: running",
        "Info: Exec[false]: failed after 0.0 s",
    ]
    assert not [line for line in bench.apply(text, "-d").lines if line.startswith("Info: ")]


def test_what_a_successful_command_writes_to_stderr_is_no_warning(bench: Bench) -> None:
    """It is its output; what a failed one has written there is in the reason, once."""
    text = "resources: {'Exec[it]': {command: 'echo careful >&2; exit CODE', shell: true}}"
    assert bench.apply(text.replace("CODE", "0")).lines == ["Notice: Exec[it]: Executed successfully"]
    assert bench.apply(text.replace("CODE", "1")).err.count("careful") == 2  # as part of the command, and as output


def test_a_closed_stderr_stops_nothing(bench: Bench) -> None:
    """Neither live lines nor notices have a place then."""
    path = site(bench, "resources: {'Exec[sleep 0.4]': {}}")
    process = bench.shell(f'TERM=xterm "$@" apply "{path}" 2>&-')
    assert (process.returncode, process.stderr) == (0, "")


def test_what_a_run_does_now_is_in_no_doubt(bench: Bench) -> None:
    """While it holds the lock, who runs is said instead; its first run is no reason to know of no stack."""
    path = f"{bench.home}/state.db"
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{path}"
    store, name = SqliteStore(path), StackName("site", "default")
    manifest = site(bench, "resources: {'Widget[a]': {}, 'Widget[b]': {}}")
    created = bench.run("apply", manifest, "--target", "Widget[b]")
    assert created.code == 0
    with store.lock("apply", 0):
        store.record_intents(name, [Intent("1", "widget", "a", "a", "create")])
        who = rf"pid {os.getpid()} \(\S+\) has been running 'apply' since .* UTC"
        for result in (bench.run("plan", manifest), bench.run("apply", manifest, "--noop")):
            assert re.search(rf"^Notice: Widget\[a\]: its create is under way: {who}$", result.err, re.MULTILINE)
            assert "doubt" not in result.err
        assert re.search(rf"1 resource, 1 change under way: {who}$", bench.run("state", "check").out, re.MULTILINE)
    assert "in doubt" in bench.run("plan", manifest).err
    assert "1 change in doubt" in bench.run("state", "check").out


def test_a_stack_that_a_first_run_is_about_to_record_is_locked(bench: Bench) -> None:
    """A command that changes it says who runs; without a run nothing is recorded."""
    path = f"{bench.home}/state.db"
    words = ["state", "rm", "Widget[a]", "--state", f"sqlite:{path}"]
    assert bench.run(*words).err == "Error: nothing is recorded yet\n"
    with SqliteStore(path).lock("apply", 0):
        result = bench.run(*words)
    assert (result.code, "has been running 'apply' since" in result.err) == (75, True)
