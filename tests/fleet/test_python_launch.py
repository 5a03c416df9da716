"""How a host is brought to run the first program, with a real sshd, sudo and doas: users, passwords, interpreters."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import subprocess
import tarfile
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet.asyncssh_transport import AsyncsshTransport
from resource_api.fleet.connections import Host
from resource_api.fleet.openssh_transport import OpensshTransport
from resource_api.fleet.python_launch import HostPlatform, Launch
from resource_api.fleet.runtime_archives import PythonRuntimes
from resource_api.fleet.transport import ConnectionLost
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.values import Sensitive
from tests.fleet.sshd import PASSWORD, USERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api.fleet.transport import RemoteProcess
    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

#: Says who it is and that it can receive every byte; then what it was sent as a job.
_PROGRAM: Final = """
import json, os, sys
print('RApi {"kind":"have"}', flush=True)
job = sys.stdin.buffer.read(256)
told = {"uid": os.getuid(), "home": os.environ["HOME"], "arguments": sys.argv[1:]}
print(json.dumps({**told, "job": job.hex(), "exe": sys.executable}), flush=True)
"""
_EVERY_BYTE: Final = bytes(range(256))


def _run(
    home: Path,
    host: Host,
    password: str | None = None,
    runtime: Callable[[HostPlatform], tuple[str, bytes] | None] = lambda _machine: None,
) -> dict[str, Any] | str:
    """Return what the program says of itself on a host, or why it was not started."""

    async def run() -> dict[str, Any] | str:
        environment = {"HOME": str(home)}
        connections = OpensshTransport(environment) if host.transport == "ssh" else AsyncsshTransport(environment)
        launch = Launch(host.become, None if password is None else Sensitive(password), runtime)
        command = launch.command(["-I", "-S", "-c", _PROGRAM, "a b", "c"], host.python)
        async with await connections.start(host, command, terminal=launch.terminal) as process:
            errors = asyncio.create_task(_read_errors(process, launch))
            try:
                return await _move(process, launch)
            except ConnectionLost as error:
                return launch.problem or str(error)
            finally:
                errors.cancel()
                process.close()
                await connections.close()

    return asyncio.run(run())


async def _move(process: RemoteProcess, launch: Launch) -> dict[str, Any] | str:
    observed = b""
    while not launch.problem:
        data = await process.read()
        if not data:
            return launch.reason(await process.exit_code())
        launch.receive(data)
        if b"RApi {" not in observed and b"RApi {" in observed + data:
            await process.write(_EVERY_BYTE)
        observed += data
        with suppress(ConnectionLost):  # then it says why
            for part in launch.take():
                await process.write(part)
        if observed.endswith(b"}\n") and b'"uid"' in observed:
            document: dict[str, Any] = json.loads(observed.splitlines()[-1])
            assert bytes.fromhex(document["job"]) == _EVERY_BYTE
            return document
    return launch.problem


async def _read_errors(process: RemoteProcess, launch: Launch) -> None:
    while data := await process.read_error():
        launch.receive_error(data)
        for part in launch.take():
            await process.write(part)
        if launch.problem:
            process.close()


def _host(server: Server, address: str, **fields: Any) -> Host:
    arguments = {"port": server.port, "user": "deploy", "identity": str(server.identity), **fields}
    return Host("web1", address, **arguments)


@pytest.fixture(params=["asyncssh", "ssh"])
def reached(request: pytest.FixtureRequest, server: Server) -> Callable[..., Host]:
    """What returns a host with an address, for the library and for the program ``ssh``."""
    return partial(_host, server, transport=request.param)


def test_the_command_line_is_quoted_for_every_login_shell() -> None:
    """Line breaks and ``!`` mean something to csh within quotes, two backslashes to fish; sh decodes the words."""
    launch = Launch("none", None, lambda _platform: None)
    words = ["%s|", "a\nb", "!x", r"\\0 \n", "it's", "", "%s $HOME"]
    command = launch.command(words, "/usr/bin/printf")
    assert re.search(r"[\n!]|\\\\", command) is None
    result = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, timeout=20)
    assert result.stdout == "".join(f"{word}|" for word in words[1:])


def test_a_runtime_is_on_the_disk_before_it_counts_as_whole(tmp_path: Path) -> None:
    """After a loss of power its files could be empty, and each later run would start an empty interpreter."""
    programs = {
        "id": "echo 1000",
        "sync": "find $HOME/.cache -name .whole -o -name python3 >>$HOME/synced",
        "python3": "exit 1",
    }
    (tmp_path / "bin").mkdir()
    for name in ("sh", "uname", "head", "sha256sum", "tar", "gzip", "mkdir", "mv", "rm", "getconf", "find"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    for name, line in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "python3").write_text("#!/bin/sh\necho runs\n")
    (tmp_path / "python3").chmod(0o755)
    with tarfile.open(tmp_path / "runtime.tar.gz", "w:gz") as file:
        file.add(tmp_path / "python3", "bin/python3")
    raw = (tmp_path / "runtime.tar.gz").read_bytes()
    result = subprocess.run(
        ["/bin/sh", "-c", Launch("none", None, lambda _platform: None).command([], None)],
        env={"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)},
        input=f"{sha256(raw).hexdigest()} {len(raw)}\n".encode() + raw,
        capture_output=True,
        check=True,
    )
    assert result.stdout.endswith(b"RApi-need\nruns\n"), result
    assert [line.rpartition("/")[2] for line in (tmp_path / "synced").read_text().split()] == ["python3"]


def test_a_host_that_asks_for_runtimes_again_and_again_gets_one() -> None:
    """Each answer is an archive of many megabytes, which would fill the memory of the controller."""
    launch = Launch("none", None, lambda _platform: ("0" * 64, bytes(1 << 20)))
    for _ in range(3):
        launch.receive(b"RApi-runtime x86_64 glibc 2.36\n")
        launch.receive(b"RApi-need\n")
    assert sum(map(len, launch.take())) < 2 << 20
    assert launch.problem == "it asks for a runtime a second time"


def test_the_interpreters_that_a_host_names_are_cut_in_the_message() -> None:
    """It may print any number of them, and any text about each."""
    launch = Launch("none", None, lambda _platform: None)
    launch.receive(b"RApi-python python3 " + b"x" * 60_000 + b"\nRApi-runtime x86_64 glibc 2.36\n")
    assert "; tried: python3 (xxx" in launch.problem
    assert len(launch.problem) < 1000


def test_a_first_frame_may_come_with_the_answer_to_a_runtime() -> None:
    """What follows it is the job's, also where it looks like a prompt."""
    launch = Launch("doas", Sensitive("secret"), lambda _platform: ("digest", b"archive"))
    launch.receive(b"RApi-runtime x86_64 glibc 2.36\n")
    launch.take()
    launch.receive(b"RApi-have\nRApi {}\n")
    launch.receive(b"doas (root@host) password: ")
    assert launch.take() == []


def test_without_become_the_user_runs_the_program(home: Path, server: Server) -> None:
    """Its arguments and its input arrive as they are, whatever its login prints before."""
    printed = "echo 'RApi is not here'; printf '\\033]0;title\\007'; echo '[resource-api] Password:' >&2"
    server.profile("127.2.0.1", printed)
    messages = _run(home, _host(server, "127.2.0.1"))
    assert isinstance(messages, dict)
    assert (messages["uid"], messages["arguments"]) == (USERS["deploy"], ["a b", "c"])


@pytest.mark.parametrize("become", ["sudo", "doas"])
@pytest.mark.parametrize(("user", "password"), [("ops", None), ("ops", PASSWORD), ("deploy", PASSWORD)])
def test_root_is_become_with_a_password_where_one_is_asked_for(
    home: Path, reached: Callable[..., Host], become: str, user: str, password: str | None
) -> None:
    """A password that nobody asks for is not sent: it would be read as a part of the job."""
    messages = _run(home, reached("127.2.0.2", user=user, become=become), password)
    assert isinstance(messages, dict), messages
    assert (messages["uid"], messages["home"]) == (0, "/root")


@pytest.mark.parametrize(
    ("become", "login", "problem"),
    [
        ("sudo", ("deploy", None), "sudo asks for a password: give become_password"),
        ("doas", ("deploy", None), "doas asks for a password: give become_password"),
        ("sudo", ("deploy", "wrong"), "sudo has refused the password"),
        ("doas", ("deploy", "wrong"), "doas has refused the password"),
        ("sudo", ("guest", PASSWORD), "guest is not in the sudoers file."),
        ("doas", ("guest", PASSWORD), "doas: Operation not permitted"),
    ],
)
def test_who_may_not_become_root_is_said_why(
    home: Path, reached: Callable[..., Host], become: str, login: tuple[str, str | None], problem: str
) -> None:
    """A wrong password is sent once."""
    user, password = login
    assert _run(home, reached("127.2.0.3", user=user, become=become), password) == problem


def test_an_interpreter_can_be_named(home: Path, server: Server) -> None:
    """The path of the inventory is used and nothing else is looked for."""
    messages = _run(home, _host(server, "127.2.0.5", python="/usr/bin/python3"))
    assert isinstance(messages, dict)
    assert messages["exe"] == "/usr/bin/python3"
    problem = _run(home, _host(server, "127.2.0.5", python="/opt/python"))
    assert problem == "/opt/python: there is no such program here"


def test_the_output_of_a_login_that_ends_at_once_is_the_reason(
    home: Path, reached: Callable[..., Host], server: Server
) -> None:
    """The shell ``nologin``, and a login file that ends with ``exit``: the last five lines, escaped."""
    server.profile("127.2.0.20", "exec /usr/sbin/nologin")
    account = "This account is currently not available."
    ended = "the program there has ended with exit code"
    assert _run(home, reached("127.2.0.20")) == f"{ended} 1; it printed: {account}"
    server.profile("127.2.0.20", r"for n in 1 2 3 4 5 6; do printf 'line\033 %s\n' $n; done; exit 0")
    lines = " | ".join(rf"line\x1b {number}" for number in range(2, 7))
    assert _run(home, reached("127.2.0.20")) == f"{ended} 0; it printed: {lines}"


def test_an_interpreter_that_does_not_run_is_passed_over(home: Path, server: Server) -> None:
    """A shim of pyenv for a version that is not chosen, or one that runs nothing: the next candidate does."""
    server.profile("127.2.0.21", _SHIM)
    messages = _run(home, _host(server, "127.2.0.21"))
    assert isinstance(messages, dict), messages
    server.profile("127.2.0.21", f"{_OLD}{_SHIM}")
    problem = str(_run(home, _host(server, "127.2.0.21")))
    assert (
        "; tried: python3.14 (exit code 127: pyenv: python3.14: command not found), python3.13 (exit code 0), python3"
        " (exit code 1): " in problem
    )


#: A shim of pyenv, first in the path.
_SHIM: Final = """mkdir -p $HOME/bin
printf '#!/bin/sh\\necho pyenv: python3.14: command not found >&2\\nexit 127\\n' >$HOME/bin/python3.14
printf '#!/bin/sh\\n' >$HOME/bin/python3.13
chmod 755 $HOME/bin/python3.14 $HOME/bin/python3.13
PATH=$HOME/bin:$PATH
"""
#: A host with programs, but without an interpreter that is new enough.
_OLD: Final = """mkdir -p $HOME/bin
for each in sh id uname head sha256sum tar gzip mkdir mv rm getconf chmod; do
    ln -sf /usr/bin/$each $HOME/bin/$each
done
printf '#!/bin/sh\\nexit 1\\n' >$HOME/bin/python3
chmod 755 $HOME/bin/python3
PATH=$HOME/bin
"""


def test_a_host_without_python_is_said_what_to_do(home: Path, server: Server) -> None:
    """The message names the machine that a runtime must fit."""
    server.profile("127.2.0.6", _OLD)
    problem = _run(home, _host(server, "127.2.0.6"))
    assert str(problem).startswith("it has no Python 3.11 or later, and there is no runtime for ")
    assert str(problem).endswith("install one there, or add a runtime with: resource-api hosts runtime add FILE")


def test_a_runtime_is_sent_once_and_runs_the_program(home: Path, server: Server, runtimes: PythonRuntimes) -> None:
    """The second run finds it in the cache, and gets the same answer without the archive."""
    server.profile("127.2.0.7", _OLD)
    sent: list[int] = []

    def find(machine: HostPlatform) -> tuple[str, bytes] | None:
        result = runtimes.find(machine)
        assert result is not None
        sent.append(len(result[1]))
        return result[0], result[1] if len(sent) == 1 else b"not sent"

    for _ in range(2):
        messages = _run(home, _host(server, "127.2.0.7"), runtime=find)
        assert isinstance(messages, dict), messages
        assert messages["exe"].startswith("/hosts/127.2.0.7/deploy/.cache/resource-api/runtime-")
    mode = server.path("/hosts/127.2.0.7/deploy/.cache/resource-api").stat().st_mode
    assert mode & 0o777 == 0o700


def test_a_runtime_that_is_changed_on_the_way_is_refused(home: Path, server: Server, runtimes: PythonRuntimes) -> None:
    """Nothing of it is unpacked."""
    server.profile("127.2.0.8", _OLD)

    def change(machine: HostPlatform) -> tuple[str, bytes]:
        digest, raw = runtimes.find(machine) or ("", b"")
        return digest, raw[:-1] + b"\0"

    assert _run(home, _host(server, "127.2.0.8"), runtime=change) == "what has arrived has another digest"
    assert list(server.path("/hosts/127.2.0.8/deploy/.cache/resource-api").iterdir()) == []


def test_a_runtime_for_a_full_disk_is_refused(home: Path, server: Server, runtimes: PythonRuntimes) -> None:
    """The message is that of the system there."""
    server.profile("127.2.0.9", _OLD)
    server.run("mkdir", "-p", "/hosts/127.2.0.9/deploy")
    server.run("mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", "/hosts/127.2.0.9/deploy")
    problem = _run(home, _host(server, "127.2.0.9"), runtime=runtimes.find)
    assert "No space left on device" in str(problem)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of Debian, its library and what both are linked with, as an archive that can lie anywhere."""
    script = "import sys, sysconfig; print(sys.version_info[1], sysconfig.get_path('stdlib'))"
    process = subprocess.run(["/usr/bin/python3", "-I", "-c", script], check=True, capture_output=True, text=True)
    minor, library = process.stdout.split()
    path = tmp_path_factory.mktemp("runtime") / "python.tar"

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        left_out = ("__pycache__", "/test", "dist-packages", "config-", "sitecustomize")
        return None if any(item in info.name for item in left_out) or info.issym() else info

    with tarfile.open(path, "w") as file:
        file.add(f"/usr/bin/python3.{minor}", f"python/bin/python3.{minor}")
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, f"python3.{minor}"
        file.addfile(link)
        file.add(library, f"python/lib/python3.{minor}", filter=kept)
    return path


@pytest.fixture(scope="module")
def runtimes(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> PythonRuntimes:
    """A directory to which the archive was added."""
    python_runtimes = PythonRuntimes(str(tmp_path_factory.mktemp("runtimes")))
    python_runtimes.add(str(archive))
    return python_runtimes


def test_what_a_runtime_fits_is_read_from_it(runtimes: PythonRuntimes) -> None:
    """Older libraries, other machines and other libraries do not get it."""
    (added,) = runtimes.all()
    machine = added.platform
    assert machine.libc == "glibc"
    assert (2, 17) <= machine.version <= (2, 60)
    assert runtimes.find(machine) is not None
    assert (runtimes.find(machine) or "")[1] is (runtimes.find(machine) or "")[1]  # the hosts of a run share its bytes
    assert runtimes.find(machine._replace(version=(2, machine.version[1] - 1))) is None
    assert runtimes.find(machine._replace(machine="riscv64")) is None
    assert runtimes.find(HostPlatform(machine.machine, "musl")) is None


def test_a_runtime_that_cannot_be_read_is_named(runtimes: PythonRuntimes, tmp_path: Path) -> None:
    """Whether its description is damaged, or the archive is not there."""
    (added,) = runtimes.all()
    description, copied = tmp_path / f"{added.digest}.json", PythonRuntimes(str(tmp_path))
    for damaged in ("", "[1]", "{}", json.dumps({**added.document(), "libc_version": "x"})):
        description.write_text(damaged)
        with pytest.raises(ResourceError) as refused:
            copied.all()
        assert str(refused.value) == f"{description}: is damaged; remove it, and add the runtime again"
    description.write_text(json.dumps(added.document()))
    with pytest.raises(ResourceError) as missing:
        copied.find(added.platform)
    archived = tmp_path / f"{added.digest}.tar.gz"
    assert str(missing.value) == f"{archived}: No such file or directory; add the runtime again"


def _tar(path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:xz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return str(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a": b"b"}, r"has no bin/python3 with the program bin/python3\.N beside it"),
        ({"bin/python3": b"x", "bin/python3.9": b"\x7fELF"}, r"has Python 3\.9; hosts need 3\.11 or later"),
        ({"bin/python3": b"x", "bin/python3.12": b"\x7fELF"}, "its program has a damaged header"),
        ({"bin/python3": b"x", "bin/python3.12": b"\x7fELF\2\1" + bytes(4000)}, r"for a machine that is not known"),
        ({"../bin/python3": b"x"}, "is no archive that can be used: "),
    ],
)
def test_what_is_no_runtime_is_refused(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    """The message names the missing part; nothing is added."""
    python_runtimes = PythonRuntimes(str(tmp_path / "runtimes"))
    with pytest.raises(UsageError, match=message):
        python_runtimes.add(_tar(tmp_path / "python.tar.xz", members))
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(UsageError, match="is no archive that can be used"):
        python_runtimes.add(str(tmp_path / "text"))
    assert python_runtimes.all() == []
