"""What is written directly to descriptors 1 and 2, without any call of this program, beside a secret."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Box, Done

SECRET: Final = "one-secret-of-24-letters-"

PROVIDER: Final = '''
"""Writes its secret to descriptors in the way that LEAK names."""
import ctypes, os, signal, subprocess, sys, time
from resource_api import Sensitive, SimpleProvider


class Provider(SimpleProvider):
    def get(self, context):
        os.write(1, b"written in get\\n")
        return []

    def create(self, context, name, should):
        self.context, self.secret = context, should["secret"].reveal()
        getattr(self, os.environ["LEAK"])()

    def write(self):
        os.write(1, f"to 1: {self.secret}\\n".encode())
        os.write(2, f"to 2: {self.secret}\\n".encode())

    def child(self):
        subprocess.run(["sh", "-c", "cat >&2; echo to 1"], input=self.secret.encode(), check=True)

    def library(self):
        ctypes.CDLL(None).dprintf(2, b"from C: %s\\n", self.secret.encode())

    def bytes(self):
        os.write(2, b"\\xff\\x00\\x1b[1m" + self.secret.encode() + b"\\x1b[0m\\r\\n\\n")

    def pieces(self):
        for character in self.secret + "\\n":
            os.write(2, character.encode())

    def long(self):
        os.write(2, b"y" * 200_000 + self.secret.encode() + b"z" * 200_000 + b"\\n")

    def later(self):
        self.context.conceal(Sensitive("a-second-secret"))
        os.write(2, b"then a-second-secret\\n")

    def without_descriptors(self):
        os.close(2)

    def reopened(self):
        with open("log", "w") as log:
            os.dup2(log.fileno(), 1)
        os.write(1, b"for the file\\n")

    def order(self):
        for number in range(20):
            os.write(1, f"raw {number}\\n".encode())
            self.context.notice(f"line {number}")

    def captured(self):
        done = subprocess.run(["cat"], input=self.secret.encode(), capture_output=True, check=True)
        assert done.stdout == self.secret.encode()

    def abort(self):
        os.write(2, f"at the end: {self.secret}".encode())
        os.abort()

    def kill(self):
        os.write(2, f"at the end: {self.secret}".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def execute(self):
        os.execv("/bin/sh", ["sh", "-c", f"printf 'at the end: %s' {self.secret}"])

    def daemon(self):
        subprocess.Popen(["sh", "-c", "echo $$ > daemon; exec sleep 30"], start_new_session=True)

    def daemon_and_kill(self):
        self.daemon()
        time.sleep(0.2)
        self.kill()

    def terminal(self):
        os.write(1, f"terminal {os.isatty(1)} {self.secret}\\n".encode())

    def waits(self):
        os.write(2, b"waiting\\n")
        time.sleep(1)
        os.write(2, f"after the signal: {self.secret}\\n".encode())
'''


@pytest.fixture
def raw(box: Box) -> Box:
    """Return a box with one resource that has a secret."""
    box.type("raw")
    box.provider("raw", PROVIDER)
    box.write("raw.json", json.dumps({"resources": {"Raw[a]": {"secret": SECRET}}}))
    return box


def _apply(box: Box, leak: str, *options: str) -> Done:
    box.env["LEAK"] = leak
    return box.run("apply", "raw.json", *options)


@pytest.mark.parametrize("leak", ["write", "child", "library", "bytes", "pieces", "long"])
def test_a_secret_is_masked_in_what_is_written_to_a_descriptor(raw: Box, leak: str) -> None:
    """By Python, by a program that inherits it, and by a C library; in pieces and in a long line too."""
    result = _apply(raw, leak)
    assert b"<sensitive>" in result.err
    assert SECRET[:12].encode() not in result.err + result.out


def test_what_is_written_is_shown_as_lines_of_the_log(raw: Box) -> None:
    """Bytes that are no text and control characters are escaped; on stderr."""
    result = _apply(raw, "bytes")
    assert b"Notice: \\xff\\x00\\x1b[1m<sensitive>\\x1b[0m\nNotice: \n" in result.err
    assert result.out.startswith(b"Applied in")


FORGES: Final = '''
"""Writes a line that looks like an error of the run, in the way that WAY names."""
import ctypes, os, subprocess
from resource_api import BaseProvider

LINES = "told\\nError: File[/etc/shadow]: forged\\n\\x1b[31mError: \\u202eforged\\x9b\\n"


class Provider(BaseProvider):
    def get(self, context):
        return []

    def set(self, context, changes):
        getattr(self, os.environ["WAY"])()
        context.failed(list(changes), message="on purpose")

    def prints(self):
        print(LINES, end="")

    def writes(self):
        os.write(1, LINES.encode())

    def child(self):
        subprocess.run(["cat"], input=LINES.encode(), check=True)

    def library(self):
        ctypes.CDLL(None).dprintf(2, b"%s", LINES.encode())
'''


@pytest.mark.parametrize("way", ["prints", "writes", "child", "library"])
@pytest.mark.parametrize("options", [(), ("--isolate",), ("--json",), ("--log-format", "json")])
def test_no_printed_line_looks_like_one_of_the_run(box: Box, way: str, options: tuple[str, ...]) -> None:
    """A line begins as one of the log does, and nothing in it controls a terminal."""
    box.provider("good", FORGES)
    box.write("good.json", json.dumps({"resources": {"Good[a]": {"size": 1, "secret": SECRET}}}))
    box.env["WAY"] = way
    result = box.run("apply", "good.json", *options)
    lines = (result.out + result.err).decode().splitlines()
    assert [line for line in lines if line.startswith("Error: ") and "on purpose" not in line] == []
    assert [line for line in lines if "forged" in line]
    assert not {"\x1b", "\u202e", "\x9b"} & set((result.out + result.err).decode())


@pytest.mark.parametrize("way", ["prints", "writes", "child", "library"])
def test_a_terminal_obeys_nothing_that_is_printed(box: Box, way: str) -> None:
    """Without a secret too."""
    box.provider("good", FORGES)
    box.write("good.json", json.dumps({"resources": {"Good[a]": {"size": 1}}}))
    box.env["WAY"] = way
    lines = _on_terminal(box, "apply", "good.json", "--color", "never").decode().splitlines()
    assert [line for line in lines if line.startswith("Error: ") and "on purpose" not in line] == []
    assert [line for line in lines if "forged" in line]
    assert not [line for line in lines if "forged" in line and {"\x1b", "\u202e", "\x9b"} & set(line)]


def _on_terminal(box: Box, *arguments: str) -> bytes:
    """Run the command on a terminal; return what is shown there."""
    controller, terminal = pty.openpty()
    run = box.start(*arguments, stdout=terminal, stderr=terminal)
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(controller, 65536):
            output += chunk
    except OSError:  # nobody can write any more
        pass
    finally:
        os.close(controller)
        run.wait(timeout=20)
    return output


def test_a_secret_that_becomes_known_later_is_masked_too(raw: Box) -> None:
    """It is known to the filter before anything is written after it."""
    assert "then <sensitive>\n" in _apply(raw, "later").text


@pytest.mark.parametrize("leak", ["abort", "kill", "execute"])
def test_nothing_is_lost_when_the_run_ends_without_notice(raw: Box, leak: str) -> None:
    """By a crash, a kill or another program in its place: an incomplete line is shown, masked."""
    raw.env["LEAK"] = leak
    # A pipe: its end is that of the filter, not that of the run.
    assert raw.start("apply", "raw.json").communicate(timeout=20)[1].endswith(b"at the end: <sensitive>")


def test_the_order_of_lines_is_kept(raw: Box) -> None:
    """Lines of the log and those that are written directly follow each other as they were written."""
    lines = [line.rpartition(": ")[2] for line in _apply(raw, "order").text.splitlines()]
    assert [line for line in lines if line.startswith(("raw", "line"))] == [
        f"{word} {number}" for number in range(20) for word in ("raw", "line")
    ]


def test_the_captured_output_of_a_program_is_not_changed(raw: Box) -> None:
    """The provider works with it."""
    text = _apply(raw, "captured").text
    assert "did not converge" in text, "the provider of this test creates nothing"
    assert "failed" not in text


@pytest.mark.parametrize("leak", ["without_descriptors", "reopened"])
def test_descriptors_are_restored_after_a_call(raw: Box, leak: str) -> None:
    """What the next call writes is shown again."""
    assert _apply(raw, leak).text.count("written in get") == 2


LEARNS: Final = '''
"""Returns a secret from ``get``, and writes it to a descriptor in the next call."""
import os
from resource_api import BaseProvider, Sensitive


class Provider(BaseProvider):
    def get(self, context):
        context.conceal(Sensitive("only-known-to-get"))
        return []

    def set(self, context, changes):
        os.write(2, b"only-known-to-get\\n")
'''


def test_a_secret_that_becomes_known_in_a_call_starts_the_filter(box: Box) -> None:
    """What restores the descriptors after that call does not undo it."""
    box.provider("good", LEARNS)
    box.write("good.json", json.dumps({"resources": {"Good[a]": {"size": 1}}}))
    result = box.run("apply", "good.json")
    assert "<sensitive>\n" in result.text
    assert "only-known" not in result.text


def test_a_daemon_does_not_delay_the_end_of_the_command(raw: Box) -> None:
    """The filter goes on for as long as the daemon may write; the command has ended."""
    raw.env["LEAK"] = "daemon"
    with (raw.path / "err").open("wb") as err:
        run = raw.start("apply", "raw.json", stdout=err, stderr=err)
        assert run.wait(timeout=20) == 1
    os.kill(int((raw.path / "daemon").read_text()), signal.SIGKILL)


def test_the_lock_is_free_after_a_kill_while_a_daemon_may_still_write(raw: Box) -> None:
    """The filter holds nothing of the run but the descriptor that it writes to."""
    raw.env["LEAK"] = "daemon_and_kill"
    with (raw.path / "err").open("wb") as err:
        run = raw.start("apply", "raw.json", stdout=err, stderr=err)
        assert run.wait(timeout=20) == -signal.SIGKILL
    try:
        assert _apply(raw, "captured").code == 1
    finally:
        os.kill(int((raw.path / "daemon").read_text()), signal.SIGKILL)


def test_a_signal_to_the_whole_group_does_not_end_the_filter(raw: Box) -> None:
    """As Ctrl-C on a terminal sends it: what the running call writes afterwards is shown and masked."""
    raw.env["LEAK"] = "waits"
    run = raw.start("apply", "raw.json", start_new_session=True)
    assert run.stderr is not None
    while b"waiting" not in run.stderr.readline():
        pass
    os.killpg(run.pid, signal.SIGINT)
    assert b"after the signal: <sensitive>\n" in run.communicate(timeout=20)[1]
    assert run.returncode == 130


def test_our_own_output_still_goes_to_the_terminal(raw: Box) -> None:
    """It has its colors; what is written directly goes to a pipe first, as a program can see."""
    controller, terminal = pty.openpty()
    raw.env["LEAK"] = "terminal"
    run = raw.start("apply", "raw.json", stdout=terminal, stderr=terminal)
    run.wait(timeout=20)
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(controller, 65536):
            output += chunk
    except OSError:
        pass
    finally:
        os.close(controller)
    assert b"terminal False <sensitive>\r\n" in output
    assert b"\x1b[31mError: Raw[a]" in output


DESCRIPTORS: Final = '''
"""Reports what its descriptors are, and the number of child processes."""
import os
from resource_api import BaseProvider


class Provider(BaseProvider):
    def get(self, context):
        children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        context.notice(f"{os.readlink('/proc/self/fd/2')} {len(children)}")
        return []

    def set(self, context, changes):
        pass
'''


def test_a_run_without_a_secret_has_no_filter(box: Box) -> None:
    """Its descriptors are those of the caller, and there is no other process."""
    box.provider("good", DESCRIPTORS)
    box.write("good.json", json.dumps({"resources": {"Good[a]": {"size": 1}}}))
    with (box.path / "err").open("wb") as err:
        subprocess.run([*box.command, "plan", "good.json"], cwd=box.path, env=box.env, stderr=err, check=False)
    assert f"Notice: good: {box.path}/err 0" in (box.path / "err").read_text()


EMBEDS: Final = """
import os, sys
from resource_api import Registry, Runtime

before = [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)]
runtime = Runtime(Registry.from_path("."), state="memory:")
print(runtime.apply("raw.json").exit_code, before == [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)])
"""


def test_the_descriptors_of_a_program_that_embeds_the_runtime_are_its_own(raw: Box) -> None:
    """They are left alone, as everything else of its process."""
    raw.env["LEAK"] = "captured"
    command = [raw.command[0], "-c", EMBEDS]
    process = subprocess.run(command, cwd=raw.path, env=raw.env, capture_output=True, check=False, timeout=30)
    assert process.stdout.endswith(b"\n1 True\n"), process.stderr


def test_the_filter_ends_with_its_run(raw: Box) -> None:
    """No process that could write is left then."""
    before = _processes()
    _apply(raw, "write")
    until = time.monotonic() + 5
    while _processes() - before and time.monotonic() < until:
        time.sleep(0.05)
    assert not _processes() - before


def _processes() -> set[int]:
    names = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"raw.json" in path.read_bytes():
                names.add(int(path.parent.name))
        except OSError:
            continue
    return names
