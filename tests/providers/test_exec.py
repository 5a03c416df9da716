"""Commands on the real system: when they run, as which user, in which directory, and for how long."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from resource_api import ManifestError, ProviderError, Runtime
from resource_api.model.report import Diagnosed
from resource_api.plugins.registry import Registry
from resource_api.system.log import ForwardedLog
from resource_api.testing import ProviderCompliance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api import Resource
    from resource_api.model.report import Event, RunReport

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = Registry.from_path()
#: Texts that a shell, a template or a formatter would change.
HOSTILE: Final = [
    *(
        "a b",
        "",
        "$HOME",
        "${HOME}",
        "$(id)",
        "`id`",
        "*",
        "/*",
        "~",
        ";",
        "|",
        "&&",
        ">",
        "#",
        "!",
        "\\",
        "'",
        '"',
        "\t",
    ),
    *("-n", "--", "-", "%s", "{0}", "{{7*7}}", "\\g<0>", "a\nb", "ü", "\u202e", "=x", "[", "("),
]


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Return a directory of root that every user can enter."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


class Ran:
    """The result of a manifest: the report, all log lines, and the warnings."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        isolate: bool = False,  # noqa: FBT001, FBT002
        level: str = "debug",
        **options: Any,
    ) -> None:
        """Apply it."""
        self.lines: list[str] = []
        self.warnings: list[str] = []
        log = ForwardedLog(level, lambda line: self.lines.append(f"{line.level}: {line.text}"))
        runtime = Runtime(REGISTRY, log=log, on_event=self._hear, isolate=isolate)
        self.report: RunReport = runtime.apply(manifest, **options)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Diagnosed):
            self.warnings.append(event.problem.message)

    @property
    def output(self) -> list[str]:
        """Return the output of commands with ``logoutput: always``, line by line."""
        return [line.partition("Executing: ")[2] for line in self.lines if line.startswith("notice: Executing: ")]


def run(command: str | list[str], **attributes: Any) -> Ran:
    """Run one command and return the result."""
    return Ran({"resources": {"Exec[it]": {"command": command, "logoutput": "always", **attributes}}})


def sh(script: str, **attributes: Any) -> Ran:
    """Run one shell script and return the result."""
    return run(script, **{"shell": True, **attributes})


def escaped(text: str) -> str:
    """Return the text in a manifest for a text that contains ``${``."""
    return text.replace("${", "$${")


def append(path: Path) -> str:
    """Return a shell command that appends a line to a file."""
    return f"echo ran >> {shlex.quote(str(path))}"


@pytest.mark.parametrize(
    ("guards", "runs"),
    [
        ({}, True),
        ({"creates": "/"}, False),
        ({"creates": "/ra-test-none"}, True),
        ({"creates": ["/ra-test-none", "/"]}, False),
        ({"creates": []}, True),
        ({"onlyif": "true"}, True),
        ({"onlyif": "false"}, False),
        ({"onlyif": ["true", "true"]}, True),
        ({"onlyif": ["true", "false"]}, False),
        ({"onlyif": [["test", "a b", "=", "a b"]]}, True),
        ({"unless": "false"}, True),
        ({"unless": "true"}, False),
        ({"unless": ["false", "true"]}, False),
        ({"unless": ["false", ["test", "a", "=", "b"]]}, True),
        ({"onlyif": "true", "unless": "true"}, False),
        ({"creates": "/ra-test-none", "onlyif": "true", "unless": "false"}, True),
        ({"refreshonly": True}, False),
        ({"refreshonly": True, "onlyif": "true"}, False),
    ],
    ids=str,
)
def test_a_command_runs_when_every_guard_allows_it(tmp_path: Path, guards: dict[str, Any], runs: bool) -> None:  # noqa: FBT001
    """With noop the decision is the same, and nothing runs."""
    file = tmp_path / "file"
    manifest = {"resources": {"Exec[it]": {"command": append(file), "shell": True, **guards}}}
    assert Ran(manifest, noop=True).report.summary.ran == runs
    assert not file.exists()
    summary = Ran(manifest).report.summary
    assert (summary.ran, summary.unchanged) == (runs, not runs)
    assert file.exists() == runs


def test_creates_makes_a_command_run_once(tmp_path: Path) -> None:
    """The second run finds the file that the first has created."""
    file = tmp_path / "file"
    command = {"command": f"touch {file}", "creates": str(file)}
    assert Ran({"resources": {"Exec[it]": command}}).report.summary.ran == 1
    assert Ran({"resources": {"Exec[it]": command}}).report.summary.unchanged == 1


def test_the_title_is_the_command() -> None:
    """It is not if ``command`` is declared."""
    assert Ran({"resources": {"Exec[echo hello]": {"logoutput": "always"}}}).output == ["hello"]


@pytest.mark.parametrize("split", [False, True])
def test_arguments_arrive_unchanged(tmp_path: Path, split: bool) -> None:  # noqa: FBT001 - two spellings
    """No shell expands, splits or interprets a list or quoted text."""
    file = tmp_path / "argv"
    argv = ["/bin/sh", "-c", f'printf "%s\\0" "$@" > {shlex.quote(str(file))}', "sh", *HOSTILE]
    command = escaped(shlex.join(argv)) if split else [escaped(word) for word in argv]
    assert run(command).report.exit_code == 0
    assert file.read_bytes().decode().split("\0")[:-1] == HOSTILE


def test_a_shell_runs_a_command_with_shell_true() -> None:
    """It handles expansion, pipes and conditions, in guards too."""
    ran = sh("echo a b | wc -w; echo $((1 + 1))", onlyif="test 1 = 1 && exit 0; exit 1")
    assert ran.output == ["2", "2"]


def test_the_environment_contains_only_known_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the caller are dropped; declared ones are added, from a mapping or a list."""
    for name in ("LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "RA_TEST"):
        monkeypatch.setenv(name, "/ra-test-none")
    plain = {line.partition("=")[0] for line in run("env").output}
    assert {"PATH", "HOME", "LANG"} <= plain
    assert not plain & {"LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "RA_TEST"}
    assert "A=x=y z" in run("env", environment={"A": "x=y z"}).output
    assert "A=x=y z" in run("env", environment=["A=x=y z"]).output


def test_a_command_runs_in_its_directory(tmp_path: Path) -> None:
    """The default is ``/``; a program may be named relative to it."""
    assert run("pwd").output == ["/"]
    assert run("pwd", cwd=str(tmp_path)).output == [str(tmp_path)]
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho $0\n")
    program.chmod(0o700)
    assert run("./program", cwd=str(tmp_path)).output == [str(program)]
    assert "does not exist" in run("pwd", cwd="/ra-test-none").report.steps[0].error


def test_programs_are_found_on_the_declared_path() -> None:
    """It replaces the system's path, also for programs that the command starts."""
    assert run("echo hi", path=["/ra-test-none", "/bin"]).output == ["hi"]
    assert run(["sh", "-c", "echo $PATH"], path="/bin:/usr/bin").output == ["/bin:/usr/bin"]
    assert "not found in /ra-test-none" in run("echo hi", path=["/ra-test-none"]).report.steps[0].error
    assert "not found" in run("ra-test-none").report.steps[0].error


@as_root
def test_a_command_runs_as_another_user() -> None:
    """The user's ids, groups and home apply, without capabilities of root; guards too."""
    script = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status"
    output = sh(script, user="games", onlyif="test $(id -un) = games").output
    expected = subprocess.run(["id", "-G", "games"], check=True, capture_output=True, text=True).stdout.strip()
    games = pwd.getpwnam("games")
    assert output[:4] == [str(games.pw_uid), str(games.pw_gid), expected, f"{games.pw_dir} games games"]
    assert len(output) == 8
    assert all(line.endswith("0" * 16) for line in output[4:])
    assert "no user 'ra-test-none'" in run("id", user="ra-test-none").report.steps[0].error


@as_root
def test_a_command_of_another_user_can_open_its_output_by_name() -> None:
    """Its pipes belong to that user: /dev/stdout and /dev/stderr are opened with the user's rights."""
    ran = sh("echo out > /dev/stdout; echo err > /dev/stderr", user="games")
    assert ran.report.exit_code == 0, ran.lines
    assert sorted(ran.output) == ["err", "out"]
    assert [line for line in ran.lines if line.endswith(": err")], ran.lines


@as_root
def test_supplementary_groups_are_those_of_the_user(tmp_path: Path) -> None:
    """Further groups of the user apply, and root's groups do not."""
    (tmp_path / "passwd").write_text("root:x:0:0::/root:/bin/sh\nra-test-user:x:54831:54831::/:/bin/sh\n")
    (tmp_path / "group").write_text("root:x:0:\nra-test-user:x:54831:\nra-test-one:x:54832:ra-test-user\n")
    (tmp_path / "apply.py").write_text(
        "from resource_api import Registry, Runtime\n"
        "from resource_api.system.log import ForwardedLog\n"
        "log = ForwardedLog('notice', lambda line: print(line.text))\n"
        "manifest = {'resources': {'Exec[id -G]': {'user': 'ra-test-user', 'logoutput': 'always'}}}\n"
        "Runtime(Registry.from_path(), log=log).apply(manifest)\n"
    )
    script = 'mount --bind passwd /etc/passwd && mount --bind group /etc/group && exec "$0" apply.py'
    process = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Executing: 54831 54832" in process.stdout.splitlines()


@as_root
@pytest.mark.parametrize("isolate", [False, True], ids=["in this process", "in workers"])
def test_the_declared_environment_reaches_no_program_that_is_still_root(open_path: Path, isolate: bool) -> None:  # noqa: FBT001 - a table
    """The dynamic loader obeys it, and leaves a file of each program's user: in the command and in both guards."""
    traces = open_path / "traces"
    traces.mkdir()
    traces.chmod(0o1777)
    games = pwd.getpwnam("games").pw_uid
    for guard in ("command", "onlyif", "unless"):
        command = {"command": "true", "user": "games", guard: "/bin/false" if guard == "unless" else "/bin/true"}
        command["environment"] = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{traces}/{guard}"}
        ran = Ran({"resources": {"Exec[it]": command}}, isolate)
        assert ran.report.exit_code == 0, ran.lines
        assert not [line for line in ran.lines if "LD_DEBUG" in line or str(traces) in line]
    owners = {path.name.partition(".")[0]: path.stat().st_uid for path in traces.iterdir()}
    assert owners == dict.fromkeys(("command", "onlyif", "unless"), games)


@as_root
def test_a_program_of_another_user_gets_nothing_of_root() -> None:
    """It has three descriptors and no terminal, and neither it nor its user can trace what started it."""
    script = "ls /proc/self/fd | tr '\\n' ' '; echo; cut -d' ' -f7 /proc/self/stat; grep NoNewPrivs /proc/self/status"
    assert sh(script, user="games").output == ["0 1 2 3 ", "0", "NoNewPrivs:\t0"]
    assert "denied" in sh("cat /proc/$PPID/environ", user="games").report.steps[0].error


@as_root
def test_before_it_is_executed_its_user_can_neither_read_nor_delay_it(tmp_path: Path) -> None:
    """The child still contains the memory of root: it is held here after its change of identity, and looked at."""
    program = "from resource_api import Command; Command('true', timeout=2)(user='games', cwd='/tmp')"
    watch = ["-f", "-o", str(tmp_path / "trace"), "-e", "trace=chdir", "-e", "inject=chdir:delay_enter=6s:when=1"]
    argv = ["strace", *watch, sys.executable, "-c", program]
    with subprocess.Popen(argv, env={"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True) as running:
        games, top, child = pwd.getpwnam("games").pw_uid, psutil.Process(running.pid), None
        until = time.monotonic() + 10
        while child is None and time.monotonic() < until:
            child = next((item for item in top.children(recursive=True) if is_of(item, games)), None)
        assert child is not None
        path = Path(f"/proc/{child.pid}")
        assert len(list((path / "fd").iterdir())) == 4  # the fourth is for the report of an error
        assert (path / "environ").stat().st_uid == 0
        for look in (["cat", path / "environ"], ["cat", path / "mem"], ["ls", path / "fd"]):
            argv = ["setpriv", f"--reuid={games}", "--clear-groups", *map(str, look)]
            assert "Permission denied" in subprocess.run(argv, capture_output=True, text=True, check=False).stderr
        assert "timed out after 2 s" in running.communicate()[1]


def is_of(process: psutil.Process, uid: int) -> bool:
    """Return whether a process runs as that user, with all its ids."""
    try:
        return set(process.uids()) == {uid}
    except psutil.NoSuchProcess:
        return False


KEYRING = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
syscall = lambda call, *given: (libc.syscall(call, *given), ctypes.get_errno())
if sys.argv[1] == "put":
    assert syscall(250, 1, None)[0] > 0 and syscall(248, b"user", b"ra-test", b"secret", 6, -3)[0] > 0
    from resource_api import Command
    print(Command("python3")(__file__, "find", user="nobody").stdout)
else:
    print(syscall(250, 10, -3, b"user", b"ra-test", 0)[0] > 0)
"""


@as_root
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are those of x86_64")
def test_a_program_of_another_user_does_not_possess_the_callers_session_keyring() -> None:
    """Possession would survive the change of identity: Kerberos and fscrypt keep their keys there."""
    script = Path("/usr/local/lib") / f"ra-test-keyring-{os.getpid()}.py"
    script.write_text(KEYRING)
    try:
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        argv = [sys.executable, str(script), "put"]
        process = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert process.stdout.strip() == "False", process.stderr
    finally:
        script.unlink()


@as_root
def test_only_root_can_become_another_user() -> None:
    """The caller's own name changes nothing but the variables; any other one is an error that says so."""
    script = """
import os
from resource_api import Command, CommandError
import resource_api.system.process.process
os.setgroups([]), os.setresgid(*[65534] * 3), os.setresuid(*[65534] * 3)
print(Command("id")("-un", user="nobody").stdout.strip())
try:
    Command("id")("-un", user="games")
except CommandError as error:
    print(error)
"""
    preload = "import ctypes, grp, pwd, sh, glob, logging\n"
    process = subprocess.run(
        [sys.executable, "-c", preload + script],
        env={"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout.splitlines() == ["nobody", "'id -un' was not started as 'games': Operation not permitted"]


@as_root
def test_a_directory_is_entered_as_the_declared_user(open_path: Path) -> None:
    """Neither a directory of root nor a link of that user to one lets it in where it has no access."""
    inner = open_path / "inner"
    inner.mkdir()
    open_path.chmod(0o700)
    ran = run("ls", cwd=str(inner), user="games")
    assert "was not started as 'games': Permission denied" in ran.report.steps[0].error
    open_path.chmod(0o755)
    assert run("pwd", cwd=str(inner), user="games").output == [str(inner)]


@as_root
def test_a_program_of_a_third_user_is_not_run(open_path: Path) -> None:
    """What runs as a user can be changed by root and that user only, as what runs as root by root only."""
    games = pwd.getpwnam("games")
    for owner, mode, message in (
        ("root", 0o755, ["games"]),
        ("games", 0o755, ["games"]),
        ("games", 0o775, ["games"]),
        ("games", 0o777, []),
        ("nobody", 0o755, []),
    ):
        program = open_path / f"{owner}{mode:o}"
        program.write_text("#!/bin/sh\nid -un\n")
        os.chown(program, pwd.getpwnam(owner).pw_uid, games.pw_gid)
        program.chmod(mode)
        assert run(str(program), user="games").output == message
        assert run(program.name, user="games", path=[str(open_path), "/bin"]).output == message


@as_root
def test_why_a_program_was_not_executed_is_reported(open_path: Path) -> None:
    """As another user it fails after the start, and still says why; the timeout holds until then."""
    program = open_path / "program"
    program.write_text("#!/ra-test-none\n")
    program.chmod(0o755)
    assert "names an interpreter that does not exist" in run(str(program), user="games").report.steps[0].error
    program.chmod(0o700)
    assert "was not started as 'games': Permission denied" in run(str(program), user="games").report.steps[0].error


def test_a_timeout_ends_all_descendants() -> None:
    """Children in sessions of their own are ended too."""
    script = "sleep 54321 & setsid sleep 54321 & wait"
    ran = sh(script, timeout=0.5)
    assert "timed out" in ran.report.steps[0].error
    assert ["sleep", "54321"] not in [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]


@pytest.mark.parametrize(
    ("code", "returns", "succeeds"), [(0, None, True), (1, None, False), (3, 3, True), (0, 3, False), (4, [0, 4], True)]
)
def test_returns_defines_success(code: int, returns: Any, succeeds: bool) -> None:  # noqa: FBT001 - a table
    """Other exit codes are failures."""
    ran = sh(f"exit {code}", **({} if returns is None else {"returns": returns}))
    assert (ran.report.exit_code == 0) == succeeds


def test_a_failure_contains_the_exit_code_and_stderr() -> None:
    """The expected codes and the last lines of stderr are in the message."""
    [step] = sh("echo first >&2; echo last >&2; exit 3", returns=[0, 2]).report.steps
    assert "returned 3 instead of 0 or 2: first; last" in step.error
    [step] = sh("kill -9 $$").report.steps
    assert "killed by signal 9" in step.error


def test_a_command_is_tried_up_to_the_declared_number(tmp_path: Path) -> None:
    """It ends with the first success, or fails with the last try."""
    file = tmp_path / "file"
    script = f"{append(file)}; test $(wc -l < {file}) -ge 3"
    assert sh(script, tries=2).report.exit_code == 1
    assert sh(script, tries=3, try_sleep=0.01).report.exit_code == 0
    assert file.read_text().count("ran") == 3


@pytest.mark.parametrize(
    ("logoutput", "code", "output"),
    [
        ("never", 1, []),
        ("on_failure", 1, ["said", "0"]),
        ("on_failure", 0, []),
        ("always", 0, ["said", "0", "1", "2", "3", "4", "5"]),
    ],
)
def test_logoutput_selects_the_output_that_is_logged(logoutput: str, code: int, output: list[str]) -> None:
    """It is logged at notice; of what a failure wrote to stderr, the end is in the reason, and only there."""
    script = f"echo said; seq 0 5 >&2; exit {code}"
    attributes = {"command": script, "shell": True, "logoutput": logoutput}
    ran = Ran({"resources": {"Exec[it]": attributes}}, level="notice")
    assert sorted(ran.output) == sorted(output)
    assert not [line for line in ran.lines if line.startswith("warning")]
    assert [step.error.endswith("instead of 0: 1; 2; 3; 4; 5") for step in ran.report.steps] == [bool(code)]


@pytest.mark.parametrize("logoutput", ["never", "on_failure", "always"])
def test_each_line_of_output_is_logged_once_with_debug(logoutput: str) -> None:
    """At debug as it comes, or at notice where that is declared."""
    ran = sh("echo said; echo wrong >&2; exit 1", logoutput=logoutput)
    level = "notice: Executing" if logoutput == "always" else "debug"
    for word in ("said", "wrong"):
        ends = [line for line in ran.lines if line.endswith(f": {word}") and not line.startswith("err")]
        assert ends == [f"{level}: {word}"]


@pytest.mark.parametrize(
    ("attributes", "runs"),
    [({"refreshonly": True}, 1), ({}, 2), ({"refreshonly": True, "unless": "true"}, 0)],
    ids=["refreshonly", "always due", "guarded"],
)
def test_a_notification_runs_a_command_once_more(tmp_path: Path, attributes: dict[str, Any], runs: int) -> None:
    """Its guards still apply; an unchanged resource notifies nothing."""
    file = tmp_path / "file"
    listener = {"command": append(file), "shell": True, "subscribe": "Exec[first]", **attributes}
    ran = Ran({"resources": {"Exec[first]": {"command": "true"}, "Exec[second]": listener}})
    assert ran.report.exit_code == 0
    assert (file.read_text().count("ran") if file.exists() else 0) == runs
    file.unlink(missing_ok=True)
    Ran({"resources": {"Exec[first]": {"command": "true", "creates": "/"}, "Exec[second]": listener}})
    assert file.exists() == (not attributes)


def test_a_failed_refresh_does_not_stop_others(tmp_path: Path) -> None:
    """One guard cannot be started; the other notified commands run."""
    file = tmp_path / "file"
    listener = {"refreshonly": True, "subscribe": "Exec[true]", "shell": True, "command": append(file)}
    resources = {"Exec[true]": {}, "Exec[bad]": {**listener, "onlyif": [["ra-test-none"]]}, "Exec[good]": listener}
    summary = Ran({"resources": resources}).report.summary
    assert (summary.failed, summary.refreshed) == (1, 1)
    assert file.read_text() == "ran\n"


def test_a_secret_is_accepted_as_stdin_only(tmp_path: Path) -> None:
    """A secret in any other attribute is refused before anything runs."""
    file = tmp_path / "file"
    inputs = {"key": {"type": "Sensitive[String]", "default": "ra-test-secret"}}
    resource = {"command": ["tee", str(file)], "input": "${inputs.key}"}
    ran = Ran({"inputs": inputs, "resources": {"Exec[it]": resource}})
    assert file.read_text() == "ra-test-secret"
    assert "ra-test-secret" not in "\n".join(ran.lines)
    for attribute, value in (("command", "echo ${inputs.key}"), ("environment", {"KEY": "${inputs.key}"})):
        with pytest.raises(ManifestError, match="input"):
            Ran({"inputs": inputs, "resources": {"Exec[echo]": {attribute: value}}})


def test_a_text_that_cannot_be_split_is_refused() -> None:
    """An unclosed quote and a blank text are refused; with a shell they are allowed."""
    for attributes in ({"command": "echo 'a"}, {"command": " "}, {"unless": "echo 'a"}):
        with pytest.raises(ManifestError):
            Ran({"resources": {"Exec[true]": attributes}})
        assert Runtime(REGISTRY).validate({"resources": {"Exec[true]": {**attributes, "shell": True}}})


def test_shell_operators_without_a_shell_cause_a_warning() -> None:
    """They are passed unchanged, which is probably a mistake."""
    assert any("shell: true" in warning for warning in run("echo a | wc").warnings)
    assert run("echo a | wc").output == ["a | wc"]
    assert not sh("echo a | wc").warnings
    assert not run(["echo", "|"]).warnings


def test_commands_cannot_be_listed() -> None:
    """Listing fails with the reason: the effects of commands cannot be read."""
    with pytest.raises(ProviderError, match="cannot be read"):
        Runtime(REGISTRY).resources("exec")


def test_a_command_requires_its_program_directory_and_user() -> None:
    """The relationships are automatic when these are in the catalog."""
    attributes = {"command": "/ra-test/bin --now", "cwd": "/ra-test", "user": "ra-test-user"}
    titles = REGISTRY.type("exec").automatic["require"]
    assert set(titles["file"]({"name": "x", **attributes})) == {"/ra-test/bin", "/ra-test"}
    assert set(titles["file"]({"name": "/ra-test/bin"})) == {"/ra-test/bin"}
    catalog = Runtime(REGISTRY).compile({"resources": {"Exec[x]": attributes, "User[ra-test-user]": {}}})
    assert [str(entry.reference) for entry in catalog.entries] == ["User[ra-test-user]", "Exec[x]"]


class TestExec(ProviderCompliance):
    """A command whose effect is the file in ``creates``."""

    type_name = "exec"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        mark = tmp_path / "ra-test-mark"
        command = ["/bin/sh", "-c", 'cat > "$1"', "sh", str(mark)]
        return {"name": "ra-test-a", "command": command, "creates": str(mark), "input": "sesame-1"}

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: list(tmp_path.iterdir())

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads whether one path exists, and runs what is declared"
