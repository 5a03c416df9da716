"""The laws of commands: what a provider may run, what the program gets, what is logged, and how errors are worded."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.errors import CommandError, ResourceError
from resource_api.model.values.values import Sensitive
from resource_api.provider.command import Command, CommandResult
from resource_api.provider.context import Context, RunContext, Subject
from resource_api.system.log import ForwardedLog, line
from resource_api.system.process import program_checks
from tests.sampling import times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.model.report import LogEvent

TYPE = TypeDefinition(name="apt_key", docs="Keys.", attributes={"id": Attribute("String", "ID.", kind="namevar")})


class Provider:
    """What a provider's author writes."""

    sh = Command("sh")
    look = Command("sh", read_only=True)
    printf = Command("printf")
    cat = Command("cat")


class ProviderCall:
    """A call of a provider, and the lines that its commands have logged."""

    def __init__(self, **options: Any) -> None:
        """Begin the call; ``options`` are those of its context."""
        self.lines: list[LogEvent] = []
        self.run = RunContext(ForwardedLog("debug", self.lines.append))
        self.provider = Provider()
        self.context = Context(TYPE, self.run, **options)

    def log_lines(self) -> list[str]:
        """Return the lines as users see them."""
        return list(map(line, self.lines))


@pytest.fixture
def in_call() -> Iterator[ProviderCall]:
    """Return a call of ``set`` that is going on."""
    call = ProviderCall()
    with call.context.activate(call.provider):
        yield call


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes executable files."""

    def make(name: str, text: str, mode: int = 0o755) -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return path

    return make


def message(call: Callable[[], object]) -> str:
    """Return the message of the ``CommandError`` that ``call`` raises."""
    with pytest.raises(CommandError) as caught:
        call()
    return str(caught.value)


def test_a_call_returns_exit_code_stdout_and_stderr() -> None:
    """A command in the class body is called as a method, or as the plain object that it is."""
    assert Provider().sh("-c", "echo out; echo err >&2") == CommandResult(0, "out\n", "err\n")
    assert Provider.sh("-c", "echo $0 $1", "a", 5) == CommandResult(0, "a 5\n", "")
    assert Command("/bin/echo")(Path("/tmp/x y")).stdout == "/tmp/x y\n"  # noqa: S108 - only a name


def test_attempt_never_raises_for_an_exit_code() -> None:
    """It returns the exit code, that of a signal as a negative number."""
    assert Provider().sh.attempt("-c", "echo out; echo err >&2; exit 3") == CommandResult(3, "out\n", "err\n")
    assert Provider().sh.attempt("-c", "kill -KILL $$").exit_code == -signal.SIGKILL


def test_lines_stream_without_line_ends() -> None:
    """Lines arrive as they are written, the last one also without its end; only a newline ends a line."""
    lines = Provider().sh.lines("-c", r"printf 'a\n\nb\r\n\302\205c\ttail'; sleep 0.1; printf ' end'")
    assert list(lines) == ["a", "", "b\r", "\x85c\ttail end"]


def test_lines_are_read_while_the_program_runs(tmp_path: Path) -> None:
    """The first line is read before the program goes on."""
    lines = Provider().sh.lines(
        "-c", 'echo first; while [ ! -e "$0" ]; do sleep 0.01; done; echo last', tmp_path / "go"
    )
    assert next(lines) == "first"
    (tmp_path / "go").touch()
    assert list(lines) == ["last"]


def test_lines_raise_at_the_end_for_an_exit_code() -> None:
    """All lines are delivered before the failure is."""
    lines = Provider().sh.lines("-c", "echo a; echo broken >&2; exit 4")
    assert next(lines) == "a"
    assert message(lambda: next(lines)) == """"sh -c 'echo a; echo broken >&2; exit 4'" returned 4: broken"""


def test_closing_lines_early_stops_the_program(tmp_path: Path) -> None:
    """A reader that has read enough leaves no program running."""
    lines = Provider().sh.lines("-c", 'echo $$; sleep 30; touch "$0"', tmp_path / "late")
    pid = int(next(lines))
    lines.close()  # type: ignore[attr-defined]
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "late").exists()


def test_a_line_without_end_uses_limited_memory() -> None:
    """A program that never ends its line is stopped."""
    endless = Provider().sh.lines("-c", "cat /dev/zero")
    assert message(lambda: list(endless)) == """"sh -c 'cat /dev/zero'" wrote a line of more than 16 MiB"""


def test_output_without_end_uses_limited_memory() -> None:
    """Above 64 MiB of stdout the program is stopped; of stderr the last 64 KiB are kept."""
    assert message(lambda: Provider().cat("/dev/zero")) == (
        "'cat /dev/zero' wrote more than 64 MiB; read it with lines()"
    )
    assert Provider().sh("-c", "yes x | head -c 1M >&2; echo end >&2").stderr.endswith("x\nend\n")
    assert len(Provider().sh("-c", "yes x | head -c 1M >&2").stderr) == 65536


def test_output_that_is_not_utf8_keeps_its_bytes() -> None:
    """Any bytes are read as text with surrogate escapes, and written as the same bytes."""
    data = bytes(range(256))
    stdout = Provider().cat(input=data).stdout
    assert stdout.encode("utf-8", "surrogateescape") == data
    assert Provider().cat(input=stdout).stdout == stdout


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5))
@hypothesis_settings(max_examples=times(0.5))
def test_arguments_arrive_as_they_are(arguments: list[str]) -> None:
    """No shell reads them: nothing is split, expanded, or removed."""
    assert Provider().printf(r"%s\0", "", *arguments).stdout.split("\0")[1:-1] == arguments


def test_hostile_arguments_arrive_as_they_are() -> None:
    """Blanks, quotes, substitutions, globs, options and every byte a file name may hold reach the program."""
    hostile = ["", " ", "a b", "'", '"', ";id", "$(id)", "`id`", "*", "~", "%s", "--help", "\n", "é", "-n", "{a,b}"]
    name = os.fsdecode(bytes(range(1, 256)))
    assert Provider().printf(r"%s\0", *hostile, name).stdout.split("\0")[:-1] == [*hostile, name]


def test_values_of_other_types_are_refused_as_arguments() -> None:
    """Text, integers and paths are arguments; other values would be converted in a way that nobody chose."""
    for value, kind in ((None, "NoneType"), (True, "bool"), (1.5, "float"), (["a"], "list; give each one by itself")):
        assert message(lambda value=value: Provider().sh(value)) == (  # type: ignore[misc]
            f"command 'sh' cannot be given an argument of type {kind}"
        )
    assert message(lambda: Provider().sh("a\0b")) == "command 'sh' cannot be given an argument with a NUL character"
    assert "half a surrogate pair" in message(lambda: Provider().sh("\ud800"))
    assert "input of type int" in message(lambda: Provider().sh(input=5))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="inptu"):
        Provider().sh("-c", "true", inptu="")  # type: ignore[call-arg]


def test_a_secret_is_passed_by_input_only(in_call: ProviderCall) -> None:
    """A sensitive value is refused where other users could see it, and appears in no line of the log."""
    secret = Sensitive("canary")
    for call in (
        lambda: in_call.provider.sh("-c", secret),  # type: ignore[arg-type]
        lambda: in_call.provider.sh("-c", "true", env={"KEY": secret}),  # type: ignore[dict-item]
        lambda: Command("sh", env={"KEY": secret})("-c", "true"),  # type: ignore[dict-item]
    ):
        assert message(call).endswith("that is sensitive: others would see it; pass it by input=")
    script = "tr a-z A-Z; tr '\\0' ' ' < /proc/$$/cmdline; cat /proc/$$/environ"
    assert in_call.provider.sh("-c", script, input=secret).stdout.startswith("CANARY")
    assert not [line for line in in_call.log_lines() if "canary" in line]


def test_the_environment_is_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the time zone is inherited from the environment; variables of the command and of the call are added."""
    for name in ("LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "IFS", "http_proxy", "CANARY"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    lines = Command("env", env={"A": "1", "B": "1"})(env={"B": "2", "LC_ALL": "C"}).stdout.splitlines()
    assert dict(line.split("=", 1) for line in lines) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": pwd.getpwuid(os.geteuid()).pw_dir,
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TZ": "Europe/Berlin",
        "DEBIAN_FRONTEND": "noninteractive",
        "A": "1",
        "B": "2",
    }
    assert "a variable called 'A=B'" in message(lambda: Provider().sh("-c", "true", env={"A=B": "1"}))


def test_the_working_directory_is_the_root(tmp_path: Path) -> None:
    """Programs run in / or in the directory of the call, not in the current one."""
    assert Provider().sh("-c", "pwd").stdout == "/\n"
    assert Provider().sh("-c", "pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"


def test_a_prompt_reads_the_end_of_the_input() -> None:
    """A program that prompts reads the end of its input at once, and has no terminal."""
    assert Provider().sh.attempt("-c", "read answer").exit_code == 1
    assert Provider().sh.attempt("-c", "exec 2>&-; : < /dev/tty").exit_code != 0


def test_names_are_searched_on_the_secure_path(monkeypatch: pytest.MonkeyPatch, script: Callable[..., Path]) -> None:
    """``PATH`` and the current directory are not used."""
    trojan = script("env", "#!/bin/sh\necho trojan\n")
    monkeypatch.setenv("PATH", str(trojan.parent))
    monkeypatch.chdir(trojan.parent)
    assert "trojan" not in Command("env")().stdout
    assert message(Command("ra-test-missing")) == (
        "command 'ra-test-missing' not found in /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    )
    assert message(Command("./env")) == "command './env' is a relative path; give a full path or a bare name"
    assert message(Command("/nowhere/env")) == "command '/nowhere/env' not found"
    assert message(Command("/" + 256 * "x")).endswith("' not found")  # longer than a name may be
    assert message(Command("")).startswith("command '' not found")


@pytest.mark.parametrize("program", [None, 5, ["env"]])
def test_a_program_that_is_no_text_is_refused_where_it_is_declared(program: Any) -> None:
    """A time limit that is no number is refused by the call."""
    with pytest.raises(TypeError, match=r"a program is text such as 'git', not "):
        Command(program)
    with pytest.raises(CommandError, match="command 'true' cannot be given the timeout '5'; it takes seconds"):
        Command("true")(timeout="5")  # type: ignore[arg-type] # that is the law


def test_a_program_that_appears_later_is_found(script: Callable[..., Path], tmp_path: Path) -> None:
    """A missing program is searched again; the error for one that was removed is that of a missing one."""
    late = Command(str(tmp_path / "late"))
    assert "not found" in message(late)
    path = script("late", "#!/bin/sh\necho here\n")
    assert late().stdout == "here\n"
    path.unlink()
    assert message(late) == f"command '{path}' not found"


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_program_that_others_can_change_is_refused(script: Callable[..., Path], tmp_path: Path, mode: int) -> None:
    """Neither the file, nor its directories, nor those behind a symbolic link may be writable by group or others."""
    safe, weak = script("safe", "#!/bin/sh\n"), script("weak", "#!/bin/sh\n", mode)
    for path in (weak, tmp_path):
        os.chown(path, 0, 65534)
    who, bits = ("everybody", "o-w") if mode & 0o002 else ("the group 'nogroup'", "g-w")
    assert message(Command(str(weak))) == (
        f"command '{weak}' is refused: '{weak}' belongs to root and has mode {mode:04o}, so {who} can write to it; "
        f"run: chmod {bits} {weak}"
    )
    (tmp_path / "link").symlink_to(weak)
    assert f"'{weak}' belongs to root and has mode {mode:04o}" in message(Command(str(tmp_path / "link")))
    tmp_path.chmod(mode)
    assert f"'{tmp_path}' belongs to root and has mode {mode:04o}" in message(Command(str(safe)))
    tmp_path.chmod(0o755)
    assert Command(str(safe))() == CommandResult(0, "", "")


def test_a_program_of_another_user_is_refused(script: Callable[..., Path]) -> None:
    """Its owner could change it at any time."""
    path = script("theirs", "#!/bin/sh\n")
    os.chown(path, 65534, 0)
    assert message(Command(str(path))).startswith(f"command '{path}' is refused: '{path}' belongs to nobody and has")


def test_a_program_behind_a_link_in_a_directory_of_others_is_refused(
    script: Callable[..., Path], tmp_path: Path
) -> None:
    """Every directory between two links counts: its owner can change where the second link leads."""
    script("program", "#!/bin/sh\n")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "second").symlink_to(tmp_path / "program")
    (tmp_path / "first").symlink_to(theirs / "second")
    assert Command(str(tmp_path / "first"))() == CommandResult(0, "", "")
    program_checks.locate.cache_clear()
    os.chown(theirs, 65534, 65534)
    assert f"is refused: '{theirs}' belongs to nobody" in message(Command(str(tmp_path / "first")))


def test_the_group_of_a_program_is_judged_by_its_members(script: Callable[..., Path]) -> None:
    """A group may write if each of its members is root, the caller or the program's user, as with code."""
    path = script("program", "#!/bin/sh\n", 0o775)
    assert Command(str(path))() == CommandResult(0, "", "")
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, rights, 65534 if tag == 2 else 2**32 - 1)
        for tag, rights in ((1, 7), (2, 7), (4, 5), (16, 7), (32, 5))
    )
    os.setxattr(path, "system.posix_acl_access", acl)
    program_checks.locate.cache_clear()
    assert "an ACL that may let others write to it" in message(Command(str(path)))


def test_each_way_to_fail_has_its_own_message(script: Callable[..., Path], tmp_path: Path) -> None:
    """The message names the cause."""
    sh = Provider().sh
    plain = script("plain", "text", 0o644)
    lost = script("lost", "#!/nowhere/sh\n")
    garbage = script("garbage", "\x7fELF nonsense")
    words: dict[str, Callable[[], object]] = {
        "returned 3": lambda: sh("-c", "exit 3"),
        "was killed by SIGSEGV": lambda: sh("-c", "kill -SEGV $$"),
        "timed out after 0.1 s": lambda: sh("-c", "sleep 9", timeout=0.1),
        "Argument list too long": lambda: sh("-c", "true", "x" * 200_000),
        f"'{plain}' is not executable: {plain}": Command(str(plain)),
        "names an interpreter that does not exist": Command(str(lost)),
        "Exec format error": Command(str(garbage)),
        "directory '/nowhere' does not exist": lambda: sh("-c", "true", cwd="/nowhere"),
        f"directory '{plain}' is not a directory": lambda: sh("-c", "true", cwd=plain),
        "directory 'tmp' is not a full path": lambda: sh("-c", "true", cwd="tmp"),
        "there is no user 'a\0b' to run it as": lambda: sh("-c", "true", user="a\0b"),
        "x' cannot be entered": lambda: sh("-c", "true", cwd="/" + 256 * "x"),
    }
    for expected, call in words.items():
        assert expected in message(call)
    assert tmp_path.exists()


def test_an_error_carries_what_ran_and_how_it_ended() -> None:
    """The error is one of resources, and holds argv, the exit code and the end of stderr."""
    with pytest.raises(ResourceError) as caught:
        Provider().sh("-c", "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 9")
    error = caught.value
    assert isinstance(error, CommandError)
    assert str(error).endswith("returned 9: line 3; line 4; line 5; line 6; line 7")
    assert (error.argv[:2], error.status) == (("sh", "-c"), 9)
    assert error.stderr.startswith("line 1\n")


def test_a_failing_program_is_run_once(tmp_path: Path) -> None:
    """Nothing is tried again: only the provider's author can decide whether that is safe."""
    assert "returned 1" in message(lambda: Provider().sh("-c", 'echo >> "$0"; exit 1', tmp_path / "turns"))
    assert (tmp_path / "turns").read_text() == "\n"


def test_a_timeout_comes_from_command_call_or_resource() -> None:
    """The call's timeout replaces the command's; the resource's deadline applies when it is earlier."""
    slow = Command("sleep", timeout=0.1)
    assert message(lambda: slow(9)) == "'sleep 9' timed out after 0.1 s"
    assert message(lambda: Command("sleep")(9, timeout=0.1)) == "'sleep 9' timed out after 0.1 s"
    assert slow("0.2", timeout=5).exit_code == 0
    call = ProviderCall(deadline=time.monotonic() + 0.3)
    with call.context.activate(call.provider):
        assert message(lambda: call.provider.sh("-c", "sleep 9")).endswith(
            " s, all that was left of its resource's time"
        )


@pytest.mark.parametrize("script", ["exit 3", "sleep 0.1; exit 3"])
def test_an_exit_code_that_other_code_takes_is_an_error(script: str) -> None:
    """Where the embedding program ignores SIGCHLD the exit code is unknown, and no success is assumed."""
    code = f"""
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from resource_api.provider.command import Command
from resource_api.model.values.errors import CommandError
try:
    Command("sh")("-c", "{script}")
except CommandError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert process.stdout.endswith("has ended, but something else in this process took its exit code\n")


def test_a_command_logs_what_it_does(in_call: ProviderCall) -> None:
    """Start, success and stdout at debug, stderr at warning, without the message of the logging context."""
    words = ("-c", "echo a; echo b; printf c; echo w >&2")
    context = Context(TYPE, in_call.run, subjects={"k": Subject("k")})
    with context.activate(in_call.provider), context.updating("k"):
        in_call.provider.sh(*words)
    text = shlex.join(["sh", *words])
    assert in_call.log_lines()[0] == "Debug: Apt_key[k]: Started updating"
    written = sorted(in_call.log_lines()[2:-2])
    assert written == [*(f"Debug: Apt_key[k]: {line}" for line in "abc"), "Warning: Apt_key[k]: w"]
    assert in_call.log_lines()[1] == f'Debug: Apt_key[k]: Executing "{text}"'
    assert in_call.log_lines()[-2] == f'Debug: Apt_key[k]: Successfully executed "{text}"'


def test_a_failure_logs_no_success(in_call: ProviderCall) -> None:
    """A command that failed has no line of success; one that was attempted logs its exit code."""
    assert "returned 2" in message(lambda: in_call.provider.sh("-c", "exit 2"))
    in_call.provider.sh.attempt("-c", "exit 3")
    assert not [line for line in in_call.log_lines() if "Successfully" in line]
    assert in_call.log_lines()[-1] == """Debug: apt_key: "sh -c 'exit 3'" returned 3"""


def test_lines_are_not_logged(in_call: ProviderCall) -> None:
    """Streamed output may be endless; only start, success and stderr are logged."""
    assert list(in_call.provider.sh.lines("-c", "echo a; echo w >&2")) == ["a"]
    assert [line.text for line in in_call.lines if line.level == "warning"] == ["w"]
    assert len(in_call.lines) == 3


@pytest.mark.parametrize(
    ("options", "command", "runs"),
    [
        ({"noop": True}, "sh", False),
        ({"noop": True}, "look", True),
        ({"noop": True, "reading": True}, "sh", True),
        ({}, "sh", True),
    ],
)
def test_with_noop_only_read_only_commands_run(
    tmp_path: Path, options: dict[str, bool], command: str, *, runs: bool
) -> None:
    """A command that could change the system is logged and returns success; a read-only one is run."""
    call = ProviderCall(**options)
    with call.context.activate(call.provider):
        chosen: Command = getattr(call.provider, command)
        words = ("-c", 'touch "$0"')
        assert chosen(*words, tmp_path / "call") == CommandResult(0, "", "")
        assert chosen.attempt(*words, tmp_path / "attempt") == CommandResult(0, "", "")
        assert list(chosen.lines(*words, tmp_path / "lines")) == []
    assert len(list(tmp_path.iterdir())) == (3 if runs else 0)
    assert sum('Skipping "sh -c ' in line and line.endswith('" (noop)') for line in call.log_lines()) == (
        0 if runs else 3
    )


def test_with_noop_the_program_may_be_missing() -> None:
    """A skipped program need not exist: an earlier resource may install it."""
    call = ProviderCall(noop=True)
    with call.context.activate(call.provider):
        assert Command("ra-test-missing")("x") == CommandResult(0, "", "")


def test_noop_holds_in_threads_of_the_provider(tmp_path: Path) -> None:
    """A thread that the provider starts has no current context, but the command is bound to its provider."""
    call = ProviderCall(noop=True)
    with call.context.activate(call.provider):
        thread = threading.Thread(target=call.provider.sh, args=("-c", 'touch "$0"', tmp_path / "x"))
        thread.start()
        thread.join()
    assert not list(tmp_path.iterdir())


def test_a_cancelled_run_lets_a_running_program_end(in_call: ProviderCall) -> None:
    """After the first signal no new step starts; a half-finished package command would be worse than a late end."""
    threading.Timer(0.1, setattr, (in_call.run, "cancelled", True)).start()
    assert in_call.provider.sh("-c", "sleep 0.4; echo done").stdout == "done\n"


def test_a_command_runs_without_a_context() -> None:
    """Tools and tests use commands as they are."""
    assert Command("sh", read_only=True)("-c", "echo x").stdout == "x\n"
    assert program_checks.locate("sh") in {"/usr/bin/sh", "/bin/sh"}


def test_a_result_that_is_used_as_text_is_explained() -> None:
    """Elsewhere a program that is run returns its output; 'in' would be False whatever that is."""
    result: Any = Command("echo")("out")
    with pytest.raises(AttributeError, match=r"and no 'split'; write .stdout.split$"):
        result.split()
    with pytest.raises(AttributeError, match=r"^a result has exit_code, stdout and stderr, and no 'status'$"):
        result.status  # noqa: B018 - the attribute is the test
    with pytest.raises(TypeError, match=r"^a result is no text: search its .stdout$"):
        "out" in result  # noqa: B015 - the same


def test_a_command_line_in_place_of_a_program_is_explained() -> None:
    """Arguments belong to the call, each by itself."""
    with pytest.raises(CommandError, match=r"'echo out' not found in .*; its arguments are given in each call$"):
        Command("echo out")()
    with pytest.raises(CommandError, match=r"bin$"):
        Command("ra-test-missing out")()
    echo: Any = Command("echo")
    with pytest.raises(CommandError, match=r"an argument of type list; give each one by itself$"):
        echo(["out"])
