"""What leaves the command: JSON stays JSON, streams that are gone stop nothing, no text moves a cursor."""

from __future__ import annotations

import json
import os
import re
import subprocess
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
    """Give a box whose bad provider prints wherever it can, and works."""
    box.bad("prints")
    return box


@pytest.mark.parametrize(
    "options", [["--json"], ["--json", "-d"], ["--json", "--log-format", "json"], ["--json", "-q"]]
)
def test_what_a_provider_prints_never_reaches_stdout(shouting: Box, options: list[str]) -> None:
    """By print, by the descriptor, or by a child: stdout is our JSON alone."""
    done = shouting.run("apply", "site.json", *options)
    assert done.code == 0
    assert done.events[-1]["type"] == "summary"
    for word in (b"printed", b"written", b"original", b"on the descriptor", b"by a child"):
        assert word not in done.out
        assert word in done.err


@pytest.mark.parametrize("arguments", ["plan site.json --json", "resource bad --json", "validate site.json --json"])
def test_documents_stay_documents(shouting: Box, arguments: str) -> None:
    """The same for commands that write one document."""
    done = shouting.run(*arguments.split(), "--module-path", str(shouting.path))
    assert done.code == 0
    json.loads(done.out)


def test_with_json_logs_every_line_of_python_code_is_an_object(box: Box) -> None:
    """Also what a provider prints; only what bypasses Python can be none."""
    box.bad("prints")
    code = (
        (box.path / "providers" / "bad.py")
        .read_text()
        .replace("os.write", "bytes and len")
        .replace("subprocess.run", "len")
    )
    box.provider("bad", code.replace('len(1, b"on the descriptor\\n")', "len(b'')").replace(", check=True", ""))
    done = box.run("apply", "site.json", "--log-format", "json")
    lines = [line for line in done.text.splitlines() if line != "to the original"]
    assert any(json.loads(line)["message"].startswith("printed") for line in lines)


@pytest.mark.parametrize(
    "redirection", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", ">/dev/full", "2>/dev/full", "&>/dev/full"]
)
@pytest.mark.parametrize("options", ["-d", "--json"])
def test_a_stream_that_takes_nothing_stops_no_run(box: Box, redirection: str, options: str) -> None:
    """Closed or full: everything is done, and the exit code says so."""
    box.type("bad")
    box.provider("bad", PRINTING)
    done = box.run_shell(f'"$@" apply site.json {options} {redirection}')
    assert done.code == 0
    assert box.shelf("good") == DONE
    assert b"Traceback" not in done.out + done.err
    assert b"Exception ignored" not in done.err


PRINTING: Final = """
import os
import sys

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        print("printed", flush=True)
        print("complained", file=sys.stderr)
        os.system("echo by a child")
        super().set(context, changes)
"""


@pytest.mark.parametrize("line", ['"$@" apply site.json -d 2>&1 | head -1', '"$@" apply site.json --json -d | head -1'])
def test_a_reader_that_leaves_stops_no_run(shouting: Box, line: str) -> None:
    """``head`` takes one line and goes."""
    shouting.manifest({f"Good[{number}]": {"size": 1, "colour": "x" * 1000} for number in range(300)})
    done = shouting.run_shell(f"set -o pipefail; {line}")
    assert done.code == 0, done.err
    assert len(shouting.shelf("good")) == 300
    assert len(done.out.splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        '"$@" --help | true',
        '"$@" --version >/dev/full',
        '"$@" nonsense 2>&-',
        '"$@" types 1>&- 2>&-',
    ],
)
def test_short_answers_show_no_traceback_either(box: Box, line: str) -> None:
    """Help, versions and wrong usage are written by other code; nobody sees its insides."""
    done = box.run_shell(line)
    assert b"Traceback" not in done.err
    assert b"Exception ignored" not in done.err


SLOW: Final = """
import time

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        time.sleep(1.5)
"""


def test_events_arrive_while_the_run_goes_on(box: Box) -> None:
    """Who reads the stream sees each step when it happens, not at the end."""
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
def test_no_text_from_anywhere_moves_a_cursor(box: Box, command: str) -> None:
    """Titles, values, what a provider says, raises and prints: every control character is spelt out."""
    box.type("bad")
    box.provider("bad", NOISY.format(controls=CONTROLS))
    box.manifest(
        {
            "Bad[a\u202e\u200f]": {"colour": f"x{CONTROLS}y\nz"},
            "Bad[b]": {"size": 1},
            "Good[c]": {"colour": CONTROLS},
        }
    )
    done = box.run(*command.split())
    assert done.code in {0, 1}, done.text
    assert not OBEYED.search(done.out.decode() + done.text)
    if "-d" in command:
        assert ("\\u001b" if "--log-format" in command else "\\x1b") in done.text


NOISY: Final = """
from shelf import Shelf

NOISE = {controls!r}


class Provider(Shelf):
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
    """Who reads late reads everything."""
    read, write = os.pipe()
    process = shouting.start("apply", "site.json", "--json", stdout=write)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        lines = stream.read().decode().splitlines()
    process.communicate()
    assert json.loads(lines[-1])["type"] == "summary"
    assert process.returncode == 0


def test_a_shell_is_what_the_redirections_are_tried_in(box: Box) -> None:
    """The harness passes the command line as it is."""
    assert box.run_shell('"$@" --version').out.startswith(b"resource-api")
    assert subprocess.run(["bash", "-c", "exit 3"], check=False).returncode == 3
