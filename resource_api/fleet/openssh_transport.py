"""The transport of the program ``ssh``, one process a connection: supports tokens with a PIN and Kerberos.

Fixed options are in a file that ``ssh`` reads before its own configuration, and passes to the ``ssh`` of a jump host:
the first value of an option counts. A process has a session of its own: no terminal to ask on, and no interrupts.
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

from resource_api.fleet import transport
from resource_api.fleet.asyncssh_transport import known_hosts_file
from resource_api.fleet.connections import jump_chain
from resource_api.fleet.transport import lost, unreachable
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import CommandError
from resource_api.model.values.text import filled_lines
from resource_api.system.process import process_tree
from resource_api.system.process.program_checks import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.connections import Host
    from resource_api.fleet.transport import HostUnreachable

#: Descriptors of one connection: three streams, and one to wait for its end.
DESCRIPTORS: Final = 4
#: No questions, no unknown hosts, and nothing for a host but its job.
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
#: The mark that ``ssh`` prints on both streams when it is connected; the text before is its own error messages.
_CONNECTED: Final = "RApi-connected"
#: Sets a terminal to raw mode.
_RAW: Final = "stty raw -echo -iexten cs8 -parenb; "
#: Characters that a shell would interpret: ``ssh`` starts the ``ssh`` of a jump host by one.
_UNSAFE: Final = re.compile(r"[\s'`\"$;&<>|(){}*?!#~\\]|^-|[,@]-")
#: Lines of ``ssh`` that follow a more precise one.
_VAGUE_LINES: Final = re.compile(
    r"Host key verification failed\.|stdio forwarding failed|kex_exchange_identification: .*"
    r"|Connection (closed|reset) by UNKNOWN port \d+"
)
_CHANGED_KEY: Final = re.compile(r"Host key for ([^\s']+) has changed ")
#: The reason why a key of the user was not used, printed before the refusal.
_KEY_TROUBLE: Final = re.compile(r"(sign_and_send_pubkey|Load key|no such identity).*")
#: Errors after which another attempt may succeed.
_TRANSIENT: Final = re.compile(
    r"Connection (refused|reset|closed)|Broken pipe|closed by remote host|Temporary failure in name resolution"
)
#: Messages about the end of an established connection.
_ENDED: Final = re.compile(
    r"(client_loop: |Connection (to|reset|closed) |Timeout, server |Read from remote host |ssh_dispatch_run_fatal: ).*"
)
#: Printed at the end of a terminal, whatever the exit code.
_TERMINAL_CLOSED: Final = re.compile(rb"Connection to \S+ closed\.\r?\n")
#: Size of the last output of ``ssh`` in bytes.
_TAIL: Final = 4096
#: Exit code after an error of ``ssh``, or after a signal on the host.
_FAILED: Final = 255


class OpensshTransport:
    """Connects to hosts by processes of ``ssh``; no connection is shared."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Use the configuration of the user whose ``HOME`` is in ``environment``, and the key agents in it."""
        # Without the variables of this program: ``ssh`` and its helpers must not get the key of the state.
        variables = {name: value for name, value in environment.items() if not name.startswith("RESOURCE_API_")}
        # A shell starts the ssh of a jump host, and a service user may have none.
        self._environment = {**variables, "SHELL": "/bin/sh", "TERM": "dumb"}
        self._user_files = known_hosts_file(environment).parent
        self._pace = transport.JumpPace()
        #: The tasks that wait for killed processes.
        self._exiting: set[asyncio.Task[None]] = set()
        # Before any fork: each ``ssh`` asks the kernel to end it with this process.
        process_tree.prepare()

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> OpensshProcess:
        """Connect to a host and start a command. Raise ``HostUnreachable``.

        With ``terminal`` the command gets a terminal, because doas asks for a password only there. The command begins
        with ``stty`` for raw mode, in which the terminal passes all bytes unchanged.
        """
        with errors_as(unreachable, CommandError, "transport: ssh needs the program ssh of OpenSSH here: "):
            program = locate("ssh")
        arguments = [program, *_arguments(host, terminal=terminal), f"{_RAW if terminal else ''}{command}"]
        return await transport.attempted(lambda: self._attempt(host, arguments, terminal=terminal))

    async def close(self) -> None:
        """Wait for killed processes."""
        if self._exiting:
            await asyncio.wait(self._exiting, timeout=transport.EXIT_SECONDS)

    async def _attempt(self, host: Host, arguments: Sequence[str], *, terminal: bool) -> OpensshProcess:
        """Connect to a host by one process of ``ssh``. Raise ``HostUnreachable``.

        The time limit grows with the number of jump hosts, as ``ssh`` connects to them one after the other.
        """
        hops = len(jump_chain(host))
        if hops:
            await self._pace.wait(_via(host))
        # `ssh` passes the path of the file to a shell unquoted.
        directory = "/tmp" if _UNSAFE.search(tempfile.gettempdir()) else None  # noqa: S108 - a file of its own
        # `ssh` has read the file when it is connected; no file remains if this process is killed later.
        with tempfile.NamedTemporaryFile("w", prefix="resource-api-", dir=directory, errors="surrogateescape") as file:
            file.write(self._configuration(host))
            file.flush()
            program, *words = arguments
            process = await self._started([program, "-F", file.name, *words], terminal=terminal)
            try:
                output = await process.connect(host.connect_timeout * (hops + 1))  # None when connected
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
            raise _unreachable_error(host, output)
        return process

    def _configuration(self, host: Host) -> str:
        """Return the configuration file for ``ssh``: our rules, the keys of host and jump hosts, then the user's files.

        Of an option ssh takes the first value, so that no file of the user or the machine can weaken the rules. Raise
        ``HostUnreachable`` for a missing key.
        """
        lines = [f"ConnectTimeout {max(1, round(host.connect_timeout))}"]
        lines.append(f"ServerAliveInterval {max(1, round(transport.KEEPALIVE_SECONDS))}")
        lines.append(f"ServerAliveCountMax {transport.KEEPALIVE_COUNT}")
        for hop in jump_chain(host):
            if hop.identity is not None and hop.identity != host.identity:
                lines += (f"Host {_quoted(hop.address or hop.name)}", *_key_lines(hop.identity), "Host *")
        if host.identity is not None:
            lines += _key_lines(host.identity)
        config, *known_hosts = (
            _quoted(str(self._user_files / name)) for name in ("config", "known_hosts", "known_hosts2")
        )
        # At the end: no variable is sent that these files name, and the known hosts are a default.
        lines += (f"Include {config}", f"Include {_MACHINE}", "SendEnv -*")
        lines.append(f"UserKnownHostsFile {' '.join(known_hosts)}")
        return _RULES + "\n".join(lines) + "\n"

    async def _started(self, arguments: Sequence[str], *, terminal: bool) -> OpensshProcess:
        """Start ``ssh`` with pipes and without a terminal, on which it could ask the user. Raise ``HostUnreachable``.

        The process is in a session of its own, so that ``close`` can kill it together with its children.
        """
        loop = asyncio.get_running_loop()
        with errors_as(unreachable, OSError, "the program ssh cannot be started: "):
            child, protocol = await loop.subprocess_exec(
                # A stream buffers twice its limit.
                lambda: SubprocessStreamProtocol(limit=transport.WINDOW // 2, loop=loop),
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment,
                start_new_session=True,
                # The end of this process ends its connections.
                preexec_fn=partial(process_tree.end_with, os.getpid()),
            )
        process = asyncio.subprocess.Process(child, protocol, loop)
        return OpensshProcess(child, process, self._wait_for, terminal=terminal)

    def _wait_for(self, child: asyncio.SubprocessTransport, process: asyncio.subprocess.Process) -> None:
        """Close asyncio's transport of a killed process after its end, in a task that ``close`` awaits.

        It is not closed before, because a waiter for the process could then miss the exit code.
        """

        async def wait() -> None:
            """Wait for the end of the process, then close its transport."""
            await process.wait()
            child.close()

        task = asyncio.get_running_loop().create_task(wait())
        self._exiting.add(task)
        task.add_done_callback(self._exiting.discard)


class OpensshProcess(transport.RemoteProcess):
    """A process of ``ssh``; its streams are those of the program on the host."""

    def __init__(
        self,
        child: asyncio.SubprocessTransport,
        process: asyncio.subprocess.Process,
        on_close: Callable[[asyncio.SubprocessTransport, asyncio.subprocess.Process], None],
        *,
        terminal: bool,
    ) -> None:
        """Wrap a process of ``ssh``; ``child`` has its pipes and exit code, ``process`` waits for it.

        ``on_close`` is called by ``close``, to wait for the killed process. ``terminal``: the program on the host runs
        on a terminal.
        """
        self._child = child
        self._process = process
        #: None after ``close``, which calls it once.
        self._on_close: Callable[[asyncio.SubprocessTransport, asyncio.subprocess.Process], None] | None = on_close
        self._terminal = terminal
        #: Set at the end of standard error, of which the last bytes have the reason of a lost connection.
        self._silent, self._stderr_tail = asyncio.Event(), b""
        # Any: all three are pipes.
        self._stdin: Any = process.stdin
        self._stdout: Any = process.stdout
        self._stderr: Any = process.stderr

    async def connect(self, seconds: float) -> str | None:
        """Wait for the connection, and return None; if ``ssh`` ends before, return its error output for the message.

        The mark of ``LocalCommand``, which ``ssh`` prints on both streams when it is connected, separates the output of
        ``ssh`` from that of the program on the host. Raise ``TimeoutError``.
        """
        async with asyncio.timeout(seconds):
            mark = f"{_CONNECTED}\n".encode()
            if await self._stdout.readline() == mark:
                while (line := await self._stderr.readline()) and not line.endswith(mark):
                    pass  # the banner of the host
                return None
            tail = b""
            while data := await self._stderr.read(_TAIL):
                tail = (tail + data)[-_TAIL:]
            return tail.decode("utf-8", "replace")

    async def read(self) -> bytes:
        """Return bytes from standard output, b"" at its end. Raise ``ConnectionLost``."""
        return await _read(self._stdout)

    async def read_error(self) -> bytes:
        """Return bytes from standard error, b"" at its end. Raise ``ConnectionLost``.

        ``ssh`` writes its own messages there, too: the last bytes are stored for ``exit_code``, which searches them for
        the reason of a lost connection. The message about the end of a terminal is removed, as it means no error.
        """
        while data := await _read(self._stderr):
            self._stderr_tail = (self._stderr_tail + data)[-_TAIL:]
            if output := _TERMINAL_CLOSED.sub(b"", data) if self._terminal else data:
                return output
        self._silent.set()
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, and wait while the host reads slowly. Raise ``ConnectionLost``."""
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except OSError as error:
            raise lost("the program ssh has ended") from error

    async def exit_code(self) -> int | None:
        """Return the exit code of the program on the host, after the end of both outputs.

        None for 255, since ``ssh`` also returns it after an error of its own, and after a timeout. Raise
        ``ConnectionLost`` if the last line of standard error reports a lost connection, or if ``ssh`` was killed here.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(self._process.wait(), self._silent.wait()), transport.EXIT_SECONDS)
        code = self._child.get_returncode()
        if code is not None and code < 0 and self._on_close is not None:  # killed, and not by ``close``
            raise lost(f"the program ssh was ended here by signal {-code}")
        last = filled_lines(self._stderr_tail.decode("utf-8", "replace"))[-1:]
        if code == _FAILED and last and _ENDED.fullmatch(last[0]):
            raise lost(f"the connection was lost: {last[0]}")
        return None if code is None or code < 0 or code == _FAILED else code

    def close(self) -> None:
        """End the connection: kill ``ssh`` with its child, the ``ssh`` of a jump host, and close the pipes."""
        if self._on_close is None:
            return
        on_close, self._on_close = self._on_close, None
        if self._child.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.get_pid(), signal.SIGKILL)
        if not self._stdin.transport.is_closing():
            self._stdin.transport.abort()
        for descriptor in (1, 2):
            if (pipe := self._child.get_pipe_transport(descriptor)) is not None:
                pipe.close()
        on_close(self._child, self._process)


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Return bytes that have arrived, b"" at the end of the stream. Raise ``ConnectionLost``."""
    with errors_as(lost, OSError, "the connection was lost: "):
        return await stream.read(transport.WINDOW)


def _arguments(host: Host, *, terminal: bool) -> list[str]:
    """Return the arguments of ``ssh`` up to the name of the host, after which the command follows.

    Raise ``HostUnreachable`` for a user or jump host with characters of the shell by which ``ssh`` starts the ``ssh``
    of a jump host: they would be executed.
    """
    user, via = host.user or "", _via(host)
    # The backslash of `DOMAIN\user` goes to no shell.
    for setting, value, checked in (("user", user, user.replace("\\", "")), ("via", via, via)):
        if _UNSAFE.search(checked):
            raise unreachable(f"{setting} '{value}' has characters that the program ssh does not take")
    # Nothing of this user's for the host: no agent (-a), X11 (-x), Kerberos ticket (-k) or forwarded port.
    arguments = ["-tt" if terminal else "-T", "-a", "-x", "-k", "-o", "ClearAllForwardings=yes"]
    arguments += ["-o", "PermitLocalCommand=yes", "-o", f"LocalCommand=echo {_CONNECTED}; echo {_CONNECTED} >&2"]
    if host.port is not None:
        arguments += ["-p", str(host.port)]
    if host.user is not None:
        arguments += ["-l", host.user]
    if host.via is not None:
        arguments += ["-J", via]
    return [*arguments, "--", host.address or host.name]


def _via(host: Host) -> str:
    """Return the jump hosts for the option ``-J``: ``ops@10.0.0.1:2222,gate``.

    Jump hosts in the inventory have their addresses, since ssh does not know the names of the inventory.
    """
    if not host.jump_hosts:
        return host.via or ""
    hops = list[str]()
    for hop in jump_chain(host):
        address = hop.address or hop.name
        text = f"[{address}]" if ":" in address else address
        user, port = f"{hop.user}@" if hop.user else "", f":{hop.port}" if hop.port else ""
        hops.append(f"{user}{text}{port}")
    return ",".join(hops)


def _unreachable_error(host: Host, output: str) -> HostUnreachable:
    """Return the error for the output of an ``ssh`` that did not connect, with the reason and a remedy.

    The reason is the last line that is not one of ``_VAGUE_LINES``, such as "Permission denied". If an earlier line has
    the reason why a key of the user was not used, this line is added, as it is the more precise one.
    """
    lines = filled_lines(output)
    meaningful = [line for line in lines if not _VAGUE_LINES.fullmatch(line)] or lines
    last = meaningful[-1] if meaningful else "ssh has ended and said nothing"
    if "Host key verification failed." in lines:
        return unreachable(f"its host key is refused: {last}{_host_key_advice(host, last)}")
    trouble = next((line for line in meaningful[:-1] if _KEY_TROUBLE.fullmatch(line)), "")
    return unreachable(f"{last} ({trouble})" if trouble else last, transient=bool(_TRANSIENT.search(last)))


def _host_key_advice(host: Host, refusal: str) -> str:
    """Return the end of the error message after the ``refusal`` of a host key by ssh: the remedy, or "".

    An unknown key can be trusted, and the former key of a changed one can be removed.
    """
    if "is known for" in refusal and (host.address or host.name) in refusal:
        return f"; if it is right: resource-api hosts trust {host.name}"
    if changed := _CHANGED_KEY.match(refusal):
        return f"; if that is right, remove the known one: ssh-keygen -R '{changed[1]}'"
    return ""


def _key_lines(identity: str) -> Sequence[str]:
    """Return the lines of ssh's configuration by which it uses only the private key in the file ``identity``.

    The file of the public key is enough if an agent holds the private key. Raise ``HostUnreachable`` if neither file
    can be read: ``ssh`` would silently use other keys.
    """
    path = os.path.expanduser(identity)
    if not any(os.access(file, os.R_OK) for file in (path, f"{path}.pub")):
        raise unreachable(f"{path}: no such key, or it cannot be read")
    return "IdentitiesOnly yes", f"IdentityFile {_quoted(path)}"


def _quoted(path: str) -> str:
    """Return a path in the syntax of the configuration."""
    plain = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain}"'
