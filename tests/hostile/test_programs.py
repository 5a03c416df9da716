"""A provider that is an executable and does not keep to the protocol loses its current call, and nothing else."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests import command

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE = {
    "name": "thing",
    "docs": "Things.",
    "attributes": {
        "name": {"type": "String", "kind": "namevar", "docs": "n"},
        "ensure": {"type": "Enum[present, absent]", "docs": "e", "default": "present"},
        "size": {"type": "Optional[Integer]", "docs": "s"},
    },
}
#: A program that keeps things in a file; CASE is executed for each change of the thing 'b'.
PROGRAM = """#!{python} -S
import json, os, sys, time
def send(kind, **body):
    sys.stdout.write("RApi " + json.dumps(dict(body, kind=kind)) + chr(10))
    sys.stdout.flush()
def load():
    return json.load(open("things.json")) if os.path.exists("things.json") else {{}}
for line in sys.stdin:
    frame = json.loads(line[5:])
    if frame["kind"] == "hello":
        send("ready", protocol=VERSION)
    elif frame["kind"] == "close":
        send("closed")
        break
    elif frame["kind"] == "call" and frame["method"] == "get":
        send("done", id=frame["id"], value=[dict(row, name=name, ensure="present") for name, row in load().items()])
    elif frame["kind"] == "call":
        for change in frame["arguments"][0]["changes"]:
            name = change["name"]
            if name == "b":
                CASE
            things = load()
            things[name] = {{"size": change["should"].get("size")}}
            json.dump(things, open("things.json", "w"))
        else:
            send("done", id=frame["id"], value=None)
"""
MANIFEST = {"project": "p", "resources": {f"Thing[{name}]": {"size": 1} for name in "abc"}}


class Box:
    """A directory with a type as data, its program, and a manifest of three things."""

    def __init__(self, path: Path) -> None:
        """Write the type and the manifest."""
        self.path = path
        for kind in ("types", "providers"):
            (path / kind).mkdir()
        (path / "types" / "thing.json").write_text(json.dumps(TYPE))
        (path / "site.json").write_text(json.dumps(MANIFEST))

    def program(self, case: str = "pass", version: object = 3) -> Path:
        """Write the program, with a statement for the thing 'b'."""
        path = self.path / "providers" / "thing"
        text = PROGRAM.format(python=Path(sys.executable).resolve())
        path.write_text(text.replace("CASE", case.replace("HANG", "time.sleep(600)")).replace("VERSION", repr(version)))
        path.chmod(0o755)
        return path

    def apply(self, *options: str) -> Any:
        """Apply the manifest."""
        environment = {"PATH": "/usr/bin:/bin", "RESOURCE_API_STATE": "memory:", "PYTHONPATH": str(command.ROOT)}
        return command.run(["apply", "site.json", *options], cwd=self.path, env=environment, text=True, timeout=50)

    def things(self) -> list[str]:
        """Return the names of the things that exist."""
        file = self.path / "things.json"
        return sorted(json.loads(file.read_text())) if file.exists() else []


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Yield a box; afterwards no program of it runs."""
    yield Box(tmp_path)
    remaining = [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(tmp_path)]
    psutil.wait_procs(remaining, timeout=5)
    assert not [item for item in remaining if item.is_running()]


def test_a_program_converges(box: Box) -> None:
    """What it does not report is read and reported by the run; a second run changes nothing."""
    box.program()
    result = box.apply()
    assert (result.returncode, result.stderr.splitlines()) == (0, [f"Notice: Thing[{name}]: created" for name in "abc"])
    assert "Applied in" in result.stdout
    assert box.apply("--detailed-exitcodes", "--isolate").returncode == 0


def test_a_close_that_fails_is_a_warning(box: Box) -> None:
    """The program says so instead of ``closed``."""
    program = box.program()
    program.write_text(program.read_text().replace('send("closed")', 'send("raised", text="the lock is gone")'))
    result = box.apply()
    assert result.returncode == 0
    assert "Warning: thing: close of its provider failed: the lock is gone" in result.stderr


def test_a_program_that_does_not_know_the_protocol_is_refused(box: Box) -> None:
    """cat(1) answers ``hello`` with ``hello``."""
    program = box.program()
    program.write_text("#!/bin/sh\nexec cat\n")
    result = box.apply()
    assert result.returncode == 65
    message = "the worker of 'thing' sent 'hello' instead of 'ready' while it loaded the type and its provider"
    assert message in result.stderr


@pytest.mark.parametrize(
    "frame",
    [
        "'program'",
        "'log', level='loud', text='x'",
        "'ready', protocol=3, methods=5",
        "'ready', protocol=3, priority='high'",
        "'raised'",
        "'raised', text='x', base='Nothing'",
        "'raised', text='x', name=5",
        "'raised', text='x', more=5",
    ],
)
def test_a_program_whose_first_frame_is_invalid_is_refused(box: Box, frame: str) -> None:
    """Its fault is not one of this program."""
    program = box.program()
    program.write_text(program.read_text().replace('send("ready"', f'send({frame}); send("ready"'))
    result = box.apply()
    assert result.returncode == 65, result.stderr
    assert "the worker of 'thing' sent an invalid frame while it loaded the type and its provider: " in result.stderr


def test_reports_before_ready_count(box: Box) -> None:
    """A line of the log is shown, and a secret in it is masked."""
    program = box.program()
    reports = "send('conceal', value='hunter22'); send('log', level='notice', text='begins with hunter22')"
    program.write_text(program.read_text().replace('send("ready"', f'{reports}; send("ready"'))
    result = box.apply()
    assert result.returncode == 0
    assert "Notice: thing: begins with <sensitive>" in result.stderr
    assert "hunter22" not in result.stdout + result.stderr


LOST = {
    "os._exit(3)": "the worker of 'thing' ended with exit code 3 while in set",
    "os.kill(os.getpid(), 9)": "the worker of 'thing' was killed by SIGKILL while in set, perhaps for want of memory",
    "print('RApi nonsense', flush=True); HANG": "the worker of 'thing' sent bytes that are no frame while in set",
    "print('RApi {}', flush=True); HANG": "the worker of 'thing' sent bytes that are no frame while in set: a",
    "send('unheard_of'); HANG": "the worker of 'thing' sent an invalid frame while in set: a frame 'unheard_of'",
    "send('status', name='b'); HANG": "the worker of 'thing' sent an invalid frame while in set",
    "send('status', name='b', status='eaten'); HANG": "'eaten' is no status; there are created, updated",
    "send('log', level='loud', text='x'); HANG": "'loud' is no level of the log",
    "send('raised', id=frame['id'], text='the disk is full'); break": "the disk is full",
    "send('done', id=frame['id'] - 1, value=None); HANG": "sent an invalid frame while in set: 'done' has",
    "send('status', name='b', status='failed', reason='too big'); continue": "too big",
    "sys.stdout.write('RApi ' + 'x' * (2 << 20)); sys.stdout.flush()": "a line of more than 1 MiB",
    "[print('RApi+ ' + 'x' * 1000000, flush=True) for _ in range(300)]": "a frame of more than 256 MiB",
    "os.close(1); time.sleep(1); os._exit(4)": "while in set",
}


@pytest.mark.parametrize("case", LOST)
def test_a_program_that_fails_loses_its_call(box: Box, case: str) -> None:
    """The message says how; the other things of the call are created."""
    box.program(case)
    result = box.apply()
    assert result.returncode == 1
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: Thing[b]: ")]
    assert len(errors) == 1, result.stderr
    assert LOST[case] in errors[0]
    assert box.things() == ["a", "c"]


def test_other_lines_of_a_program_are_logged(box: Box) -> None:
    """Standard output without the mark at notice, standard error as warnings, cut where they are too long."""
    box.program("print('hello'); print('x' * 3_000_000); print('oops', file=sys.stderr, flush=True)")
    result = box.apply()
    assert result.returncode == 0
    assert "Notice: thing: hello" in result.stderr.splitlines()
    assert "Warning: thing: oops" in result.stderr.splitlines()
    assert result.stderr.count("x" * 60_000) > 40
    assert box.things() == ["a", "b", "c"]


def test_a_program_that_hangs_is_killed_after_its_time(box: Box) -> None:
    """Its resource fails; a daemon that it has started in its session dies with it."""
    box.program("os.fork() or time.sleep(600); time.sleep(600)")
    manifest: dict[str, Any] = json.loads((box.path / "site.json").read_text())
    manifest["resources"]["Thing[b]"]["timeout"] = 0.5
    (box.path / "site.json").write_text(json.dumps(manifest))
    result = box.apply()
    assert result.returncode == 1
    assert "Error: Thing[b]: set timed out after 0.5 s and did not end when it was asked to" in result.stderr
    assert box.things() == ["a", "c"]


def _between_calls(box: Box, statement: str) -> str:
    """Give the program a statement for the time after it has read, and declare more than a pipe holds; return it."""
    name, program = "x" * 100_000, box.program()
    text = program.read_text()
    after = '    elif frame["kind"] == "call":\n'
    program.write_text(text.replace(after, f"        {statement}\n{after}"))
    (box.path / "site.json").write_text(
        json.dumps({"project": "p", "resources": {f"Thing[{name}]": {"size": 1, "timeout": 0.5}}})
    )
    return name


def test_a_program_that_does_not_read_is_killed_after_its_time(box: Box) -> None:
    """Where its pipe holds only a part of the call."""
    name = _between_calls(box, "time.sleep(600)")
    result = box.apply()
    assert result.returncode == 1
    # Of the half second a busy machine has spent a part before the call.
    assert re.search(rf"Error: Thing\[{name}\]: set timed out after 0\.[1-5] s", result.stderr), result.stderr
    assert box.things() == []


def test_a_program_may_print_much_before_it_reads(box: Box) -> None:
    """Neither waits for the other for ever."""
    name = _between_calls(box, "print(('y' * 79 + chr(10)) * 20_000)")
    result = box.apply()
    assert result.returncode == 0, result.stderr[-1000:]
    assert box.things() == [name]


SHELL_PROVIDER = """#!/bin/sh
say() { printf 'RApi %s\\n' "$1"; }
start() { setsid sleep "$1" </dev/null >/dev/null 2>&1 & }
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id": *\\([0-9]*\\).*/\\1/p')
    case $line in
    *'"kind": "hello"'* | *'"kind":"hello"'*) say '{"kind": "ready", "protocol": 3}' ;;
    *'"kind": "close"'* | *'"kind":"close"'*) say '{"kind": "closed"}'; exit 3 ;;
    *'"method": "get"'* | *'"method":"get"'*)
        rows=; test ! -e made || rows='{"name": "b", "ensure": "present", "size": 1}'
        say "{\\"kind\\": \\"done\\", \\"id\\": $id, \\"value\\": [$rows]}" ;;
    *'"kind": "call"'* | *'"kind":"call"'*)
        ( start SECONDS )
        sleep 0.2
        CASE
        touch made
        say "{\\"kind\\": \\"done\\", \\"id\\": $id, \\"value\\": null}" ;;
    esac
done
"""


def _apply_with_daemon(box: Box, case: str, seconds: str) -> tuple[Any, list[psutil.Process]]:
    """Apply one thing by a provider in shell that starts a daemon; return the outcome and the daemons that are left."""
    program = box.path / "providers" / "thing"
    program.write_text(SHELL_PROVIDER.replace("CASE", case).replace("SECONDS", seconds))
    program.chmod(0o755)
    (box.path / "site.json").write_text(json.dumps({"project": "p", "resources": {"Thing[b]": {"size": 1}}}))
    result = box.apply()
    remaining = [
        process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", seconds]
    ]
    for item in remaining:
        item.kill()
    return result, remaining


@pytest.mark.parametrize(("case", "how"), [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 4", "ended with exit")])
def test_daemons_of_a_program_that_crashed_end_with_it(box: Box, case: str, how: str) -> None:
    """In a session of their own and without a parent: as those of a provider in Python."""
    result, remaining = _apply_with_daemon(box, case, f"36{len(case)}.5")
    assert (result.returncode, remaining) == (1, [])
    assert f"the worker of 'thing' {how}" in result.stderr


def test_a_daemon_of_a_program_that_ended_when_asked_goes_on(box: Box) -> None:
    """Whatever its exit code is: it is a service that was meant to stay."""
    result, remaining = _apply_with_daemon(box, ":", "3699.5")
    assert (result.returncode, len(remaining)) == (0, 1), result.stderr


def test_a_program_ends_with_a_killed_run_and_its_daemon_goes_on(box: Box) -> None:
    """As without a worker: who kills a run does not stop services."""
    result, remaining = _apply_with_daemon(
        box, "kill -KILL $(ps -o ppid= $(ps -o ppid= $$)); exec sleep 3698.5", "3698.25"
    )
    assert (result.returncode, len(remaining)) == (-9, 1), result.stderr
    program = [process for process in psutil.process_iter(["cmdline"]) if "3698.5" in (process.info["cmdline"] or [])]
    assert psutil.wait_procs(program, timeout=5)[1] == []


@pytest.mark.parametrize("version", [2, 4, "3", None])
def test_another_version_of_the_protocol_is_refused(box: Box, version: object) -> None:
    """The message names both; nothing is done."""
    box.program(version=version)
    result = box.apply()
    assert result.returncode == 65
    assert (
        f"the worker of 'thing' uses protocol {version} and this run 3: resource-api or the provider" in result.stderr
    )
    assert box.things() == []


def test_a_program_that_others_can_write_is_refused(box: Box) -> None:
    """As all code on the module path."""
    program = box.program()
    program.chmod(program.stat().st_mode | stat.S_IWOTH)
    result = box.apply()
    assert result.returncode == 65
    assert f"{program}" in result.stderr
    assert box.things() == []


def test_a_program_that_cannot_be_executed_is_refused(box: Box) -> None:
    """Without the bit, and with an interpreter that does not exist."""
    program = box.program()
    program.chmod(0o644)
    result = box.apply()
    assert result.returncode == 65
    assert (
        f"{program}: a provider without the ending .py is an executable, and this file cannot be executed"
        in result.stderr
    )
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    result = box.apply()
    assert result.returncode != 0
    assert "the worker of 'thing' cannot be started: No such file or directory" in result.stderr


BAD_TYPES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "thing.json:1:"),
    "no object": ("[]", "the type must be an object, not list"),
    "attributes": ('{"name": "thing", "attributes": []}', "attributes must be an object, not list"),
    "attribute": ('{"name": "thing", "attributes": {"a": "String"}}', "attributes.a must be an object, not str"),
    "no data type": ('{"name": "thing", "attributes": {"a": {"kind": "namevar"}}}', "attributes.a: "),
    "unknown keyword": (
        '{"name": "thing", "attributes": {"a": {"type": "String", "kind": "namevar", "desc": "x"}}}',
        "'desc' is not a keyword here, write 'docs'",
    ),
    "data type": ('{"name": "thing", "attributes": {"a": {"type": "Strin", "kind": "namevar"}}}', "Strin"),
    "name": ('{"name": "other", "attributes": {"a": {"type": "String", "kind": "namevar"}}}', "is named 'other'"),
    "twice": ('{"name": "thing", "name": "thing"}', "name"),
    "function": ('{"name": "thing", "functions": {"f": {"inputs": 3}}}', "functions.f.inputs must be an object"),
}


@pytest.mark.parametrize("case", BAD_TYPES)
def test_a_wrong_type_as_data_is_named_with_its_place(box: Box, case: str) -> None:
    """The same checks as of a type in Python."""
    box.program()
    text, expected = BAD_TYPES[case]
    (box.path / "types" / "thing.json").write_text(text)
    result = box.apply()
    assert result.returncode == 65
    assert expected in result.stderr
    assert "thing.json" in result.stderr
