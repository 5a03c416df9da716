"""The launch of the first program on a host, without I/O: change the user, and find Python or install a runtime.

A shell searches Python 3.11 or later. A host without one requests a runtime, one of the ``fleet/runtime_archives`` of
the user, and unpacks it into its cache. The password is sent only at the prompt of ``sudo`` or ``doas``.
"""

from __future__ import annotations

import re
import secrets
import shlex
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape, filled_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.values import Sensitive

#: Largest standard error of a host in bytes; and the size of its end, which has the error message.
_MAX_ERROR: Final = 1024 * 1024
_TAIL: Final = 4096
#: The common part of all marks.
_NAME: Final = b"RApi"
#: The first frame of the first program: the rest of the stream belongs to the channel.
_FRAME: Final = re.compile(rb"^RApi ", re.MULTILINE)
_RUNTIME: Final = re.compile(
    rb"^RApi-runtime ([a-z0-9_]{1,20}) (glibc|musl)(?: (\d{1,3})\.(\d{1,3}))?\r?\n", re.MULTILINE
)
_PYTHON: Final = re.compile(rb"^RApi-python (python[0-9.]{1,8}) (.*)", re.MULTILINE)
_ANSWER: Final = re.compile(rb"^RApi-(have|need)\r?\n", re.MULTILINE)
_DOAS: Final = re.compile(rb"doas \([^\n()]{1,200}\) password: \Z")
#: Messages of sudo and doas about a wrong password, and about a missing one.
_WRONG_PASSWORD: Final = ("incorrect password", "no password was provided", "Authentication failed")
_MISSING_PASSWORD: Final = ("a password is required", "Authentication required")
#: Largest length of an error message, and of the lines that a host printed in it, and their number.
_MAX_REASON: Final = 300
_MAX_PRINTED: Final = 600
_PRINTED_LINES: Final = 5
#: Arguments: the path of an interpreter or "", and the arguments for it. `trap` lets programs survive the terminal. A
#: runtime is on the disk before it counts as whole: after a loss of power its files could be empty.
_SCRIPT: Final = r"""trap '' HUP
chosen=$1; shift
if [ "$chosen" ]; then
    [ -x "$chosen" ] || { echo "$chosen: there is no such program here" >&2; exit 127; }
    exec "$chosen" "$@"
fi
newline='
'
reasons=
check='import sys; print("this is Python " + sys.version.split()[0] if sys.version_info < (3, 11) else "fits")'
for python in python3.14 python3.13 python3.12 python3.11 python3; do
    command -v $python >/dev/null 2>&1 || continue
    reason=$($python -I -S -c "$check" 2>&1 </dev/null)
    code=$?
    case $reason in *fits) exec $python "$@" ;; esac
    reason="exit code $code${reason:+: }$reason"
    reasons=$reasons$(printf 'RApi-python %s %.200s' $python "${reason%%$newline*}")$newline
done
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=musl
umask 077
if [ "$(id -u)" = 0 ]; then cache=/var/cache/resource-api; else cache=$HOME/.cache/resource-api; fi
printf '\n%sRApi-runtime %s %s\n' "$reasons" "$(uname -m)" "$libc"
read -r digest size || exit 127
runtime=$cache/runtime-$digest
if [ -d "$runtime" ] && [ ! -h "$runtime" ] && [ -O "$runtime" ] && [ -e "$runtime/.whole" ]; then
    printf '\nRApi-have\n'
else
    new=$runtime.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$cache" && mkdir -p "$new/tree" || exit 1
    printf '\nRApi-need\n'
    head -c "$size" >"$new/archive" || exit 1
    sum=$(sha256sum <"$new/archive")
    [ "${sum%% *}" = "$digest" ] || { echo "what has arrived has another digest" >&2; exit 1; }
    tar -xzf "$new/archive" -C "$new/tree" || exit 1
    sync -f "$new/tree" 2>/dev/null || sync 2>/dev/null
    : >"$new/tree/.whole"
    [ -e "$runtime/.whole" ] || { rm -rf "$runtime"; mv "$new/tree" "$runtime"; } || exit 1
    rm -rf "$new"
    trap - EXIT
fi
exec "$runtime/bin/python3" "$@"
"""
#: Decodes its arguments and evaluates the first: quoted by ``shlex``, csh too takes words without these characters.
_DECODE: Final = 'for word do set -- "$@" "$(printf %b "$word")"; shift; done; script=$1; shift; eval "$script"'
_ENCODED: Final = str.maketrans({"\\": "\\0134", "\n": "\\0012", "!": "\\0041"})


class HostPlatform(NamedTuple):
    """The machine and the C library of a host, or of a runtime."""

    #: The output of ``uname -m``: ``x86_64``.
    machine: str
    #: ``glibc`` or ``musl``.
    libc: str
    #: The version of glibc: ``(2, 36)``.
    version: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        """Return ``x86_64 with glibc 2.36``."""
        version = "" if self.version == (0, 0) else " {}.{}".format(*self.version)
        return f"{self.machine} with {self.libc}{version}"


class Launch:
    """The launch of the first program on one host; the caller moves the bytes."""

    def __init__(
        self, become: str, password: Sensitive[str] | None, runtime: Callable[[HostPlatform], tuple[str, bytes] | None]
    ) -> None:
        """Prepare the launch as the user of the login, or as root by ``become``: sudo or doas, with a password or None.

        ``runtime`` returns a runtime's digest and archive for a host's platform, or None.
        """
        self._become = become
        self._password = password
        self._find_runtime = runtime
        self._prompt = f"[resource-api {secrets.token_hex(8)}]"
        #: The number of prompts for the password so far.
        self._prompts = 0
        #: The runtime, until the host answers whether it needs it.
        self._archive: bytes | None = None
        #: The end of standard output in which a mark is searched.
        self._buffer = bytearray()
        #: The end of standard error, and the size of all of it.
        self._error, self._error_size = b"", 0
        self._outgoing: list[bytes] = []
        #: The end of standard output before the first mark, for ``printed``.
        self._printed = b""
        #: Whether the first frame came.
        self._began = False
        #: Whether the launch script or the first program has written a mark.
        self.answered = False
        #: The error that ends the launch, or "".
        self.problem = ""

    @property
    def terminal(self) -> bool:
        """Whether a terminal is needed: doas asks for passwords only on one."""
        return self._become == "doas" and self._password is not None

    def command(self, arguments: Sequence[str], python: str | None) -> str:
        """Return the command line for the login shell that runs the first program with ``arguments``."""
        words = [word.translate(_ENCODED) for word in (_SCRIPT, python or "", *arguments)]
        return "exec " + shlex.join([*self._prefix(), "sh", "-c", _DECODE, "sh", *words])

    def _prefix(self) -> Sequence[str]:
        """Return the words of sudo or doas at the begin of the command line, such as ``doas -n --``.

        Without a password, ``-n`` makes them fail instead of asking for one, since nobody would answer.
        """
        if self._become == "sudo":
            questions = ("-n",) if self._password is None else ("-S", "-p", self._prompt)
            return ("sudo", "-H", *questions, "--")
        if self._become == "doas":
            return ("doas", "-n", "--") if self._password is None else ("doas", "--")
        return ()

    def receive(self, data: bytes) -> None:
        """Process bytes from standard output, and answer them, until the first frame: the first program then runs.

        After the output of the login, doas may ask for the password. A host without Python sends the mark ``runtime``
        of ``_SCRIPT``, which is answered with the digest of a runtime; then the mark ``need``, answered with the
        runtime's archive, or ``have`` if it is in the host's cache. On a terminal, standard error arrives here, too.
        """
        if self._began:
            return
        self._buffer += data
        if not self.answered:  # for the message of a launch that fails
            self._printed = (self._printed + data)[-_TAIL:]
        if self.terminal:
            self._error = (self._error + data)[-_TAIL:]
        if self.terminal and _DOAS.search(self._buffer[-300:]):  # more than the longest prompt
            self._answer_prompt()
            self._buffer.clear()
        if _NAME in self._buffer:  # not in most output of logins: the patterns would be slow for a flood
            self._answer_mark()
        # A prompt or a line may be incomplete.
        del self._buffer[:-_TAIL]

    def _answer_mark(self) -> None:
        """Answer a mark of the launch script in the buffer: ``runtime`` with a digest, ``need`` with an archive.

        At the first frame of the first program the launch is complete: ``HostChannel`` answers from then on.
        """
        if match := _RUNTIME.search(self._buffer):
            self._offer_runtime(match, _PYTHON.findall(self._buffer))
            self._buffer.clear()
        elif match := _ANSWER.search(self._buffer):
            if match[1] == b"need" and self._archive is not None:
                self._outgoing.append(self._archive)
            self._archive = None
            del self._buffer[: match.end()]  # the first frame may follow at once
        if _FRAME.search(self._buffer):
            self._began = self.answered = True
            self._buffer.clear()

    def receive_error(self, data: bytes) -> None:
        """Process bytes from standard error: store its end for messages, and answer sudo's prompt for the password.

        A flood of bytes from an untrusted host ends the launch.
        """
        self._error = (self._error + data)[-_TAIL:]
        self._error_size += len(data)
        if self._error_size > _MAX_ERROR:
            self.problem = "it wrote more than 1 MiB to its standard error"
        if self._become == "sudo" and not self._began and self._prompt.encode() in self._error:
            self._error = self._error.replace(self._prompt.encode(), b"")
            self._answer_prompt()

    def take(self) -> list[bytes]:
        """Return the bytes to send to the host, each once."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def reason(self, code: int | None) -> str:
        """Return the reason why the stream ended before the job did, for the report of the host.

        It is the last line of standard error; messages of sudo and doas about the password are replaced by clearer
        ones. ``code``: the exit code, None after a signal.
        """
        if self.problem:
            return self.problem
        lines = filled_lines(self._error.decode("utf-8", "replace"))
        last = lines[-1] if lines else ""
        if self._become != "none" and not self._began:
            if self._prompts and any(text in last for text in _WRONG_PASSWORD):
                return f"{self._become} has refused the password"
            if any(text in last for text in _MISSING_PASSWORD):
                return f"{self._become} asks for a password: give become_password"
        if last:
            return escape(last)[:_MAX_REASON] + self.printed()
        result = "was ended by a signal" if code is None else f"has ended with exit code {code}"
        return f"the program there {result}{self.printed()}"

    def printed(self) -> str:
        """Return the last lines that a host printed, as the end of an error message, or "".

        If no program of ours has answered, the login may have failed, and these lines may contain its error. Otherwise
        return "", as they are unrelated output.
        """
        lines = filled_lines(self._printed.decode("utf-8", "replace"))
        if self.answered or self.terminal or not lines:
            return ""
        return f"; it printed: {' | '.join(map(escape, lines[-_PRINTED_LINES:]))}"[:_MAX_PRINTED]

    def _answer_prompt(self) -> None:
        """Send the password at the first prompt; a second prompt means that it was refused, so it is not sent again."""
        self._prompts += 1
        if self._prompts > 1 or self._password is None:
            self.problem = f"{self._become} has refused the password"
        else:
            self._outgoing.append(self._password.reveal().encode() + b"\n")

    def _offer_runtime(self, requested: re.Match[bytes], pythons: Sequence[tuple[bytes, bytes]]) -> None:
        """Answer a host without Python with digest and size of a runtime; store the archive until the host requests it.

        The host may have the runtime in its cache, which saves many megabytes. A second request is an error, since an
        untrusted host could ask without end. If there is no runtime for the platform, ``problem`` is set. ``pythons``:
        the host's unusable interpreters with their outputs, for this message.
        """
        if self.answered:
            self.problem = "it asks for a runtime a second time"
            return
        self.answered = True
        # Only glibc has a version.
        machine, libc, major, minor = (part.decode("ascii") for part in requested.groups(b"0"))
        platform = HostPlatform(machine, libc, (int(major), int(minor)))
        runtime = self._find_runtime(platform)
        if runtime is not None:
            digest, self._archive = runtime
            self._outgoing.append(f"{digest} {len(self._archive)}\n".encode("ascii"))
            return
        reasons = [f"{name.decode()} ({escape(reason.decode('utf-8', 'replace').strip())})" for name, reason in pythons]
        tried = f"; tried: {', '.join(reasons)}"[:_MAX_PRINTED] if reasons else ""
        self.problem = (
            f"it has no Python 3.11 or later, and there is no runtime for {platform}{tried}: install one there, or "
            "add a runtime with: resource-api hosts runtime add FILE"
        )
