"""Connections by the program ``ssh``, one process each, for what the library lacks: tokens with a PIN, Kerberos.

What must hold for every connection stands in a file that ``ssh`` reads before its own configuration, and that it gives
the ``ssh`` which leads through a jump host: of each option the first value counts. A process is in a session of its
own: it has no terminal on which it could ask, and no interrupt reaches it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.carriers import transport
from resource_api.fleet.carriers.asyncssh_transport import known_hosts_file
from resource_api.fleet.carriers.transport import lost, unreachable
from resource_api.model.values.errors import CommandError
from resource_api.system.process import process_tree
from resource_api.system.process.trusted_path import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.carriers.carrier import Host
    from resource_api.fleet.carriers.transport import Unreachable

#: Descriptors that one connection needs: three streams, and one to wait for its end.
DESCRIPTORS: Final = 4
#: Nobody is asked anything, no host is trusted that is not known, and a host gets its job and nothing else.
_RULES: Final = """\
BatchMode yes
StrictHostKeyChecking yes
NoHostAuthenticationForLocalhost no
VerifyHostKeyDNS no
UpdateHostKeys no
PasswordAuthentication no
KbdInteractiveAuthentication no
ForwardAgent no
ForwardX11 no
Tunnel no
RemoteCommand none
SetEnv TERM=dumb
ControlMaster no
ControlPath none
EscapeChar none
LogLevel INFO
ConnectionAttempts 1
"""
_MACHINE: Final = "/etc/ssh/ssh_config"
#: What ``ssh`` prints on both streams as soon as it is connected; all before that is its own, and says why it is not.
_CONNECTED: Final = "RApi-connected"
#: Makes a terminal pass on every byte as it is.
_RAW: Final = "stty raw -echo -iexten cs8 -parenb; "
#: What a shell would not take as a part of a name: ``ssh`` runs the way through jump hosts by one.
_UNSAFE: Final = re.compile(r"[\s'`\"$;&<>|(){}*?!#~\\]|^-|[,@]-")
#: Lines of ``ssh`` that say less than the one before.
_EMPTY_WORDS: Final = re.compile(
    r"Host key verification failed\.|stdio forwarding failed|kex_exchange_identification: .*"
    r"|Connection (closed|reset) by UNKNOWN port \d+"
)
#: Why a key was not used, which stands before the refusal.
_KEY_TROUBLE: Final = re.compile(r"(sign_and_send_pubkey|Load key|no such identity).*")
#: Failures after which another attempt may succeed.
_PASSING: Final = re.compile(
    r"Connection (refused|reset|closed)|Broken pipe|closed by remote host|Temporary failure in name resolution"
)
#: What it says when a connection ends that was there.
_ENDED: Final = re.compile(
    r"(client_loop: |Connection (to|reset|closed) |Timeout, server |Read from remote host |ssh_dispatch_run_fatal: ).*"
)
#: What ``ssh`` prints at the end of a terminal, whatever it has ended with.
_TERMINAL_CLOSED: Final = re.compile(rb"Connection to \S+ closed\.\r?\n")
#: Bytes that are kept of what ``ssh`` says.
_KEPT: Final = 4096
#: How it ends when the connection does, or the program there by a signal.
_FAILED: Final = 255


class SshProgram:
    """Reaches hosts by processes of ``ssh``, which nothing else uses: no connection is shared."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Use the configuration of the user whose ``HOME`` is in ``environment``, and what it says of agents."""
        own = {name: value for name, value in environment.items() if not name.startswith("RESOURCE_API_")}
        #: The way through a jump host is run by a shell, and that of a service may be none.
        self._environment = {**own, "SHELL": "/bin/sh", "TERM": "dumb"}
        self._user_files = known_hosts_file(environment).parent
        self._pace = transport.JumpPace()
        #: Waits for processes that have been killed.
        self._exiting: set[asyncio.Task[None]] = set()
        process_tree.prepare()

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> Process:
        """Connect to a host, and start a command there by its login shell. Raise ``Unreachable``."""
        try:
            program = locate("ssh")
        except CommandError as error:
            msg = f"transport: ssh needs the program ssh of OpenSSH here: {error}"
            raise unreachable(msg) from error
        arguments = [program, *_arguments(host, terminal=terminal), f"{_RAW if terminal else ''}{command}"]
        return await transport.attempted(lambda: self._attempt(host, arguments, terminal=terminal))

    async def close(self) -> None:
        """Wait for the ends of processes."""
        if self._exiting:
            await asyncio.wait(self._exiting, timeout=transport.EXIT_SECONDS)

    async def _attempt(self, host: Host, arguments: Sequence[str], *, terminal: bool) -> Process:
        hops = 0
        if (via := host.via or "none") != "none":
            hops = via.count(",") + 1
            await self._pace.wait(via)
        # Once connected `ssh` has read the file; so nothing is left of it when this process is killed later.
        with tempfile.NamedTemporaryFile(
            "w", prefix="resource-api-", dir=_temporary(), errors="surrogateescape"
        ) as file:
            file.write(self._configuration(host))
            file.flush()
            program, *others = arguments
            process = await self._started([program, "-F", file.name, *others], terminal=terminal)
            try:
                output = await process.connect(host.connect_timeout * (hops + 1))
            except TimeoutError:
                process.close()
                port = f":{host.port}" if host.port is not None else ""
                msg = f"no answer within {host.connect_timeout:g} s ({host.address or host.name}{port})"
                raise unreachable(msg) from None
            except BaseException:
                process.close()
                raise
        if output is not None:
            process.close()
            raise _explained(host, output)
        return process

    def _configuration(self, host: Host) -> str:
        """Return what must hold for a host, before and after the configuration of the user. Raise ``Unreachable``."""
        lines = [_RULES, f"ConnectTimeout {max(1, round(host.connect_timeout))}\n"]
        lines.append(f"ServerAliveInterval {max(1, round(transport.KEEPALIVE_SECONDS))}\n")
        lines.append(f"ServerAliveCountMax {transport.KEEPALIVE_COUNT}\n")
        if host.identity is not None:
            lines.append(f"IdentitiesOnly yes\nIdentityFile {_quoted(_existing(host.identity))}\n")
        own = [_quoted(str(self._user_files / name)) for name in ("config", "known_hosts", "known_hosts2")]
        lines.append(f"Include {own[0]}\nInclude {_MACHINE}\nSendEnv -*\nUserKnownHostsFile {own[1]} {own[2]}\n")
        return "".join(lines)

    async def _started(self, arguments: Sequence[str], *, terminal: bool) -> Process:
        loop = asyncio.get_running_loop()
        try:
            made, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=transport.WINDOW // 2, loop=loop),
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment,
                start_new_session=True,
                # Whatever ends this process ends its connections.
                preexec_fn=partial(process_tree.end_with, os.getpid()),
            )
        except OSError as error:
            msg = f"the program ssh cannot be started: {error.strerror or error}"
            raise unreachable(msg) from error
        return Process(made, asyncio.subprocess.Process(made, protocol, loop), self._wait_for, terminal=terminal)

    def _wait_for(self, made: asyncio.SubprocessTransport, process: asyncio.subprocess.Process) -> None:
        """Close what belongs to a process once it has ended: earlier, its exit code might be taken from who waits."""

        async def wait() -> None:
            await process.wait()
            made.close()

        task = asyncio.get_running_loop().create_task(wait())
        self._exiting.add(task)
        task.add_done_callback(self._exiting.discard)


class Process(transport.Process):
    """A process of ``ssh``, whose streams are those of the program on the host."""

    def __init__(
        self,
        made: asyncio.SubprocessTransport,
        process: asyncio.subprocess.Process,
        closed: Callable[[asyncio.SubprocessTransport, asyncio.subprocess.Process], None],
        *,
        terminal: bool,
    ) -> None:
        """Use a process that was started in a session of its own; ``closed`` waits for its end."""
        self._made = made
        self._process = process
        self._closed: Callable[[asyncio.SubprocessTransport, asyncio.subprocess.Process], None] | None = closed
        self._terminal = terminal
        self._silent = asyncio.Event()
        self._stderr_tail = b""
        # Any: all three are pipes.
        self._stdin: Any = process.stdin
        self._stdout: Any = process.stdout
        self._stderr: Any = process.stderr

    async def connect(self, seconds: float) -> str | None:
        """Return None once it has connected; the end of what it has said where it has not. Raise ``TimeoutError``."""
        async with asyncio.timeout(seconds):
            mark = f"{_CONNECTED}\n".encode()
            if await self._stdout.readline() == mark:
                while (line := await self._stderr.readline()) and not line.endswith(mark):
                    pass  # the banner of the host
                return None
            kept = b""
            while data := await self._stderr.read(_KEPT):
                kept = (kept + data)[-_KEPT:]
            return kept.decode("utf-8", "replace")

    async def read(self) -> bytes:
        """Return what came on standard output; nothing at its end. Raise ``Lost``."""
        return await _read(self._stdout)

    async def read_error(self) -> bytes:
        """Return what came on standard error, also of ``ssh`` itself; nothing at its end. Raise ``Lost``."""
        while data := await _read(self._stderr):
            self._stderr_tail = (self._stderr_tail + data)[-_KEPT:]
            if found := _TERMINAL_CLOSED.sub(b"", data) if self._terminal else data:
                return found
        self._silent.set()
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, as fast as they are read. Raise ``Lost``."""
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except OSError as error:
            msg = "the program ssh has ended"
            raise lost(msg) from error

    async def exit_code(self) -> int | None:
        """Return the exit code once the output, and what is said about it, have ended; None where there is none.

        Raise ``Lost`` where ``ssh`` says that the connection has ended, or was killed.
        """
        ends = asyncio.gather(self._process.wait(), self._silent.wait())
        with suppress(TimeoutError):
            await asyncio.wait_for(ends, transport.EXIT_SECONDS)
        code = self._made.get_returncode()
        if code is not None and code < 0 and self._closed is not None:
            msg = f"the program ssh was ended here by signal {-code}"
            raise lost(msg)
        last = _lines(self._stderr_tail.decode("utf-8", "replace"))[-1:]
        if code == _FAILED and last and _ENDED.fullmatch(last[0]):
            msg = f"the connection was lost: {last[0]}"
            raise lost(msg)
        return None if code is None or code < 0 or code == _FAILED else code

    def close(self) -> None:
        """Kill it, and what it has started for a jump host."""
        if self._closed is None:
            return
        closed, self._closed = self._closed, None
        if self._made.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._made.get_pid(), signal.SIGKILL)
        if not self._stdin.transport.is_closing():
            self._stdin.transport.abort()
        for descriptor in (1, 2):
            if (pipe := self._made.get_pipe_transport(descriptor)) is not None:
                pipe.close()
        closed(self._made, self._process)


async def _read(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.read(transport.WINDOW)
    except OSError as error:
        msg = f"the connection was lost: {error.strerror or error}"
        raise lost(msg) from error


def _arguments(host: Host, *, terminal: bool) -> list[str]:
    """Return the arguments of ``ssh`` up to the name of the host. Raise ``Unreachable``."""
    for setting, value in (("user", host.user or ""), ("via", host.via or "")):
        # `DOMAIN\user` goes to no shell.
        if _UNSAFE.search(value.replace("\\", "") if setting == "user" else value):
            msg = f"{setting} '{value}' has characters that the program ssh does not take"
            raise unreachable(msg)
    found = ["-tt" if terminal else "-T", "-a", "-x", "-k", "-o", "ClearAllForwardings=yes"]
    found += ["-o", "PermitLocalCommand=yes", "-o", f"LocalCommand=echo {_CONNECTED}; echo {_CONNECTED} >&2"]
    found += ["-p", str(host.port)] if host.port is not None else []
    found += ["-l", host.user] if host.user is not None else []
    found += ["-J", host.via] if host.via is not None else []
    return [*found, "--", host.address or host.name]


def _temporary() -> str:
    """Return a directory for the file, whose name ``ssh`` gives to a shell without quotes."""
    usual = tempfile.gettempdir()
    return "/tmp" if _UNSAFE.search(usual) else usual  # noqa: S108 - a file of its own


def _explained(host: Host, output: str) -> Unreachable:
    """Return why a host was not reached, from what ``ssh`` has written."""
    lines = _lines(output)
    meaningful = [line for line in lines if not _EMPTY_WORDS.fullmatch(line)] or lines
    last = meaningful[-1] if meaningful else "ssh has ended and said nothing"
    if "Host key verification failed." in lines:
        trust = f"; if it is right: resource-api hosts trust {host.name}"
        unknown = "is known for" in last and (host.address or host.name) in last
        return unreachable(f"its host key is refused: {last}{trust if unknown else ''}")
    trouble = next((line for line in meaningful[:-1] if _KEY_TROUBLE.fullmatch(line)), "")
    return unreachable(f"{last} ({trouble})" if trouble else last, passing=bool(_PASSING.search(last)))


def _lines(output: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if line.strip()]


def _existing(identity: str) -> str:
    """Return the path of a key; only its public half is there where an agent has the other. Raise ``Unreachable``."""
    path = os.path.expanduser(identity)
    if not any(os.access(each, os.R_OK) for each in (path, f"{path}.pub")):
        msg = f"{path}: no such key, or it cannot be read"
        raise unreachable(msg)
    return path


def _quoted(path: str) -> str:
    """Return a path as a file of the configuration has it."""
    plain = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain}"'
