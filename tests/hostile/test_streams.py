"""The output of the command: JSON stays valid, closed streams stop nothing, no text moves the cursor."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Box

#: What a terminal would obey: C0 but line feed and tab, DEL, C1, separators, bidirectional and invisible characters.
OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)
INVISIBLE: Final = (0x61C, 0x200B, 0x200F, 0x2028, 0x202E, 0x2066, 0xFEFF)
CONTROLS: Final = "".join(map(chr, [*range(1, 32), *range(0x7F, 0xA0), *INVISIBLE]))

DONE: Final = {"before": {"size": 1}, "after": {"size": 2}, "dependent": {"size": 3}}


@pytest.fixture
def shouting(box: Box) -> Box:
    """Return a box whose bad provider prints by all means, and works."""
    box.bad("prints")
    return box


@pytest.mark.parametrize(
    "options", [["--json"], ["--json", "-d"], ["--json", "--log-format", "json"], ["--json", "-q"]]
)
def test_output_of_a_provider_never_reaches_stdout(shouting: Box, options: list[str]) -> None:
    """By print, by the descriptor, or by a child: stdout contains only our JSON."""
    result = shouting.run("apply", "site.json", *options)
    assert result.code == 0
    assert result.events[-1]["type"] == "summary"
    for word in (b"printed", b"written", b"original", b"on the descriptor", b"by a child"):
        assert word not in result.out
        assert word in result.err


@pytest.mark.parametrize("arguments", ["plan site.json --json", "resource bad --json", "validate site.json --json"])
def test_documents_stay_valid(shouting: Box, arguments: str) -> None:
    """The same for commands that write one document."""
    result = shouting.run(*arguments.split(), "--module-path", str(shouting.path))
    assert result.code == 0
    json.loads(result.out)


def test_with_json_logs_every_line_of_python_code_is_an_object(box: Box) -> None:
    """Also what a provider prints; only output that bypasses Python is not."""
    box.bad("prints")
    code = (
        (box.path / "providers" / "bad.py")
        .read_text()
        .replace("os.write", "bytes and len")
        .replace("subprocess.run", "len")
    )
    box.provider("bad", code.replace('len(1, b"on the descriptor\\n")', "len(b'')").replace(", check=True", ""))
    result = box.run("apply", "site.json", "--log-format", "json")
    lines = [line for line in result.text.splitlines() if line != "to the original"]
    assert any(json.loads(line)["message"].startswith("printed") for line in lines)


@pytest.mark.parametrize(
    "redirection", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", ">/dev/full", "2>/dev/full", "&>/dev/full"]
)
@pytest.mark.parametrize("options", ["-d", "--json"])
def test_a_closed_or_full_stream_stops_no_run(box: Box, redirection: str, options: str) -> None:
    """Everything is done, and the exit code reports it."""
    box.type("bad")
    box.provider("bad", PRINTING)
    result = box.run_shell(f'"$@" apply site.json {options} {redirection}')
    assert result.code == 0
    assert box.stored("good") == DONE
    assert b"Traceback" not in result.out + result.err
    assert b"Exception ignored" not in result.err
    assert (b"Warning: cannot write: No space left on device" in result.err) == (redirection == ">/dev/full")


PRINTING: Final = """
import os
import sys

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        print("printed", flush=True)
        print("complained", file=sys.stderr)
        os.system("echo by a child")
        super().set(context, changes)
"""


@pytest.mark.parametrize("line", ['"$@" apply site.json -d 2>&1 | head -1', '"$@" apply site.json --json -d | head -1'])
def test_a_reader_that_closes_the_pipe_stops_no_run(shouting: Box, line: str) -> None:
    """As ``head`` does after one line."""
    shouting.manifest({f"Good[{number}]": {"size": 1, "colour": "x" * 1000} for number in range(300)})
    result = shouting.run_shell(f"set -o pipefail; {line}")
    assert result.code == 0, result.err
    assert len(shouting.stored("good")) == 300
    assert len(result.out.splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        '"$@" --help | true',
        '"$@" --version >/dev/full',
        '"$@" nonsense 2>&-',
        '"$@" types 1>&- 2>&-',
    ],
)
def test_help_and_usage_errors_show_no_traceback(box: Box, line: str) -> None:
    """Help, versions and wrong usage are written by other code."""
    result = box.run_shell(line)
    assert b"Traceback" not in result.err
    assert b"Exception ignored" not in result.err


def test_wrong_usage_controls_no_terminal(box: Box) -> None:
    """An argument is quoted with its control characters escaped."""
    result = box.run("plan", "site.json", "x\x1b[31m\u202e")
    assert result.code == 64
    assert b"unexpected extra argument (x\\x1b[31m\\u202e)" in result.err


def test_a_working_directory_that_was_removed_is_named(box: Box) -> None:
    """It is no file that cannot be written."""
    result = box.run_shell('mkdir gone; cd gone; rmdir ../gone; "$@" plan site.json')
    assert (result.code, result.err) == (1, b"resource-api: the working directory: No such file or directory\n")


SLOW: Final = """
import time

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        time.sleep(1.5)
"""


def test_events_are_written_during_the_run(box: Box) -> None:
    """A reader of the stream sees each step when it happens, not at the end."""
    box.bad("prints")
    box.provider("bad", SLOW)
    process = box.start("apply", "site.json", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "step_end" and event["reference"] == "Good[before]":
            break
    assert process.poll() is None
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    "command",
    ["plan site.json", "apply site.json --noop", "apply site.json -d", "apply site.json -d --log-format json"],
)
def test_control_characters_are_escaped_in_all_output(box: Box, command: str) -> None:
    """In titles, values, and everything that a provider logs, raises and prints."""
    box.type("bad")
    box.provider("bad", NOISY.format(controls=CONTROLS))
    box.manifest(
        {
            "Bad[a\u202e\u200f]": {"colour": f"x{CONTROLS}y\nz"},
            "Bad[b]": {"size": 1},
            "Good[c]": {"colour": CONTROLS},
        }
    )
    result = box.run(*command.split())
    assert result.code in {0, 1}, result.text
    assert not OBEYED.search(result.out.decode() + result.text)
    if "-d" in command:
        assert ("\\u001b" if "--log-format" in command else "\\x1b") in result.text


def test_json_holds_no_character_that_controls_a_terminal(box: Box) -> None:
    """Neither C1 controls nor characters that change the direction; a reader gets them back."""
    value = "a\x7f\x9b31m\u202eb\u2066c\u200bd\u2028e"
    box.manifest({"Good[a]": {"colour": value}})
    for command in ("plan site.json", "apply site.json", "resource good a --module-path ."):
        text = box.run(*command.split(), "--json").out.decode()
        assert not {*"\x7f\x9b\u202e\u2066\u200b\u2028"} & set(text), command
        assert "\\u202e" in text
        documents = [json.loads(line) for line in (text.splitlines() if "apply" in command else [text])]
        assert repr(value)[1:-1] in repr(documents)


NOISY: Final = """
from json_store import JsonStore

NOISE = {controls!r}


class Provider(JsonStore):
    def set(self, context, changes):
        print("printed", NOISE)
        context.warning("warned " + NOISE)
        for name, (_, should) in changes.items():
            with context.updating(name, message="Doing " + NOISE):
                if name == "b":
                    raise RuntimeError("raised " + NOISE)
                context.attribute_changed("colour", NOISE, NOISE, message="said " + NOISE)
                self._put(name, should)
"""


def test_a_log_on_a_blocked_pipe_does_not_lose_the_summary(shouting: Box) -> None:
    """A late reader reads everything."""
    read, write = os.pipe()
    process = shouting.start("apply", "site.json", "--json", stdout=write)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        lines = stream.read().decode().splitlines()
    process.communicate()
    assert json.loads(lines[-1])["type"] == "summary"
    assert process.returncode == 0


def test_the_shell_of_the_box_passes_arguments_unchanged(box: Box) -> None:
    """The redirections are tested in a shell."""
    assert box.run_shell('"$@" --version').out.startswith(b"resource-api")
    assert subprocess.run(["bash", "-c", "exit 3"], check=False).returncode == 3


def test_a_non_blocking_pipe_is_written_whole(box: Box) -> None:
    """Another program may have made the descriptor non-blocking; its reader may be slower than the command."""
    expected = box.run_shell('"$@" describe file | cat')
    code = "import os, subprocess, sys; os.set_blocking(1, False); subprocess.run(sys.argv[1:], check=False)"
    # The pipe holds no more than a page.
    reader = "import fcntl, sys, time; fcntl.fcntl(0, 1031, 4096); time.sleep(1); sys.stdout.write(sys.stdin.read())"
    pipeline = f"{sys.executable} -c '{code}' \"$@\" describe file | {sys.executable} -c '{reader}'"
    assert box.run_shell(pipeline).out == expected.out
