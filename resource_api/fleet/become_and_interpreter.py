"""What happens on a host before the first program runs: another user is become, and an interpreter is found. No I/O.

A shell looks for Python 3.11 or later. Where there is none, it asks for a runtime (``fleet/python_runtimes``) and
unpacks it into the cache. ``sudo`` and ``doas`` may ask for a password; it is sent when they do, and never otherwise.
"""

from __future__ import annotations

import re
import secrets
import shlex
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.values import Sensitive

#: Bytes that a host may write to its standard error; those of them that are kept say why it has ended.
_MAX_ERROR: Final = 1024 * 1024
_KEPT: Final = 4096
#: Is in all that is looked for.
_NAME: Final = b"RApi"
#: Begins a frame of the first program, from which on its channel has the stream.
_FRAME: Final = re.compile(rb"^RApi ", re.MULTILINE)
_RUNTIME: Final = re.compile(
    rb"^RApi-runtime ([a-z0-9_]{1,20}) (glibc|musl)(?: (\d{1,3})\.(\d{1,3}))?\r?\n", re.MULTILINE
)
_WANTED: Final = re.compile(rb"^RApi-(have|need)\r?\n", re.MULTILINE)
_DOAS: Final = re.compile(rb"doas \([^\n()]{1,200}\) password: \Z")
#: What sudo and doas say of a wrong password, and of one that is missing.
_WRONG: Final = ("incorrect password", "no password was provided", "Authentication failed")
_WANTED_PASSWORD: Final = ("a password is required", "Authentication required")
#: Characters of an explanation.
_MAX_REASON: Final = 300
#: Arguments: the path of an interpreter, or nothing; what the interpreter is given. Without `trap`, the end of a
#: terminal would end what runs there.
_SCRIPT: Final = r"""trap '' HUP
given=$1; shift
if [ "$given" ]; then
    [ -x "$given" ] || { echo "$given: there is no such program here" >&2; exit 127; }
    exec "$given" "$@"
fi
for python in python3.14 python3.13 python3.12 python3.11; do
    if command -v $python >/dev/null 2>&1; then exec $python "$@"; fi
done
if python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then exec python3 "$@"; fi
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=musl
umask 077
if [ "$(id -u)" = 0 ]; then cache=/var/cache/resource-api; else cache=$HOME/.cache/resource-api; fi
echo "RApi-runtime $(uname -m) $libc"
read -r digest size || exit 127
runtime=$cache/runtime-$digest
if [ -d "$runtime" ] && [ ! -h "$runtime" ] && [ -O "$runtime" ] && [ -e "$runtime/.whole" ]; then
    echo RApi-have
else
    new=$runtime.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$cache" && mkdir -p "$new/tree" || exit 1
    echo RApi-need
    head -c "$size" >"$new/archive" || exit 1
    sum=$(sha256sum <"$new/archive")
    [ "${sum%% *}" = "$digest" ] || { echo "what has arrived has another digest" >&2; exit 1; }
    tar -xzf "$new/archive" -C "$new/tree" || exit 1
    : >"$new/tree/.whole"
    [ -e "$runtime/.whole" ] || { rm -rf "$runtime"; mv "$new/tree" "$runtime"; } || exit 1
    rm -rf "$new"
    trap - EXIT
fi
exec "$runtime/bin/python3" "$@"
"""


class Machine(NamedTuple):
    """What a runtime must fit."""

    #: As ``uname -m`` prints it: ``x86_64``.
    machine: str
    #: ``glibc`` or ``musl``.
    libc: str
    #: That of glibc: ``(2, 36)``.
    version: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        """Return ``x86_64 with glibc 2.36``."""
        version = "" if self.version == (0, 0) else " {}.{}".format(*self.version)
        return f"{self.machine} with {self.libc}{version}"


class Launch:
    """How one host is brought to run the first program; the carrier moves the bytes."""

    def __init__(
        self,
        become: str,
        password: Sensitive[str] | None,
        runtime: Callable[[Machine], tuple[str, bytes] | None],
    ) -> None:
        """Become root by ``become``, with a password or without; ``runtime`` finds the archive for a machine."""
        self._become = become
        self._password = password
        self._find_runtime = runtime
        self._prompt = f"[resource-api {secrets.token_hex(8)}]"
        self._asked = 0
        self._archive: bytes | None = None
        self._seen = bytearray()
        self._error = b""
        self._error_size = 0
        self._outgoing: list[bytes] = []
        self._began = False
        #: Why the host cannot go on; empty: it can.
        self.problem = ""

    @property
    def terminal(self) -> bool:
        """Whether a terminal is needed: doas asks for passwords there only."""
        return self._become == "doas" and self._password is not None

    def command(self, arguments: Sequence[str], python: str | None) -> str:
        """Return the line for the login shell that runs the first program with these ``arguments``."""
        return "exec " + shlex.join([*self._prefix(), "sh", "-c", _SCRIPT, "sh", python or "", *arguments])

    def _prefix(self) -> Sequence[str]:
        if self._become == "sudo":
            return (
                ("sudo", "-H", "-n", "--") if self._password is None else ("sudo", "-H", "-S", "-p", self._prompt, "--")
            )
        if self._become == "doas":
            return ("doas", "-n", "--") if self._password is None else ("doas", "--")
        return ()

    def receive(self, data: bytes) -> None:
        """Take what came on standard output; once the first program speaks it is none of ours."""
        if self._began:
            return
        self._seen += data
        if self.terminal:
            self._error = (self._error + data)[-_KEPT:]
        if self.terminal and _DOAS.search(self._seen[-300:]):
            self._answer_prompt()
            self._seen.clear()
        if _NAME not in self._seen:  # most of what a login prints; patterns would be slow for what a host floods with
            pass
        elif found := _RUNTIME.search(self._seen):
            machine, libc, *version = (part and part.decode("ascii") for part in found.groups())
            self._seen.clear()
            self._send_runtime(Machine(str(machine), str(libc), (int(version[0] or 0), int(version[1] or 0))))
        elif found := _WANTED.search(self._seen):
            if found[1] == b"need" and self._archive is not None:
                self._outgoing.append(self._archive)
            self._archive = None
            self._seen.clear()
        elif _FRAME.search(self._seen):
            self._began = True
            self._seen.clear()
        # A prompt or a line may have come in part; no more than that has to be kept.
        del self._seen[:-_KEPT]

    def receive_error(self, data: bytes) -> None:
        """Take what came on standard error."""
        self._error = (self._error + data)[-_KEPT:]
        self._error_size += len(data)
        if self._error_size > _MAX_ERROR:
            self.problem = "it wrote more than 1 MiB to its standard error"
        if self._become == "sudo" and not self._began and self._prompt.encode() in self._error:
            self._error = self._error.replace(self._prompt.encode(), b"")
            self._answer_prompt()

    def take(self) -> list[bytes]:
        """Return what is to be sent to the host now."""
        taken, self._outgoing = self._outgoing, []
        return taken

    def reason(self, code: int | None) -> str:
        """Return why the host has ended before the job did."""
        if self.problem:
            return self.problem
        lines = [line.strip() for line in self._error.decode("utf-8", "replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        if self._become != "none" and not self._began:
            if self._asked and any(each in last for each in _WRONG):
                return f"{self._become} has refused the password"
            if any(each in last for each in _WANTED_PASSWORD):
                return f"{self._become} asks for a password: give become_password"
        if last:
            return escape(last)[:_MAX_REASON]
        how = "was ended by a signal" if code is None else f"has ended with exit code {code}"
        return f"the program there {how}"

    def _answer_prompt(self) -> None:
        """Send the password when it is asked for, once."""
        self._asked += 1
        if self._asked > 1 or self._password is None:
            self.problem = f"{self._become} has refused the password"
        else:
            self._outgoing.append(self._password.reveal().encode() + b"\n")

    def _send_runtime(self, machine: Machine) -> None:
        found = self._find_runtime(machine)
        if found is None:
            self.problem = (
                f"it has no Python 3.11 or later, and there is no runtime for {machine}: install one there, or add a "
                "runtime with: resource-api hosts runtime add FILE"
            )
            return
        digest, self._archive = found
        self._outgoing.append(f"{digest} {len(self._archive)}\n".encode("ascii"))
