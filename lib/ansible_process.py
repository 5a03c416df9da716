"""The process that runs modules of Ansible: ``ansible_helper.py``, in Ansible's own interpreter.

Ansible is under the GPL and is never imported into this process. The helper stays for all calls of a provider.
"""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api import Command, CommandError, ResourceError
from resource_api.system.process import program_checks
from resource_api.system.process.process import STDOUT, Invocation, Process, describe_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Context

PROGRAM = f"{os.path.dirname(os.path.abspath(__file__))}/ansible_helper.py"  # noqa: PTH100, PTH120 - text in, text out
#: Run the program without its directory on the path of modules; with ``-I`` the packages of the user would be missing.
BOOT = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
#: Seconds that a call may take if its resource has no limit of its own.
LIMIT = 300.0
#: Bytes at the beginning of a program that contain its interpreter; lines of output in a failure.
HEAD, LINES = 512, 5
#: The interpreter of a script: in its first line, or in the second if the path is long.
SHEBANG = re.compile(r"\A#!(?:/bin/sh\n'''exec' )?\s*\"?(/[^\s\"]+)")


def interpreter(declared: str | None) -> str:
    """Return the Python that has Ansible: the ``declared`` one, or that in the first line of the program ``ansible``.

    The helper runs in it, because Ansible is often installed in an environment of its own. Raise ``ResourceError`` if
    there is none.
    """
    if declared:
        return Command(declared).locate()
    try:
        program = Command("ansible").locate()
    except CommandError as error:
        raise ResourceError(f"{error}; install ansible-core, or name its interpreter in 'python'") from None
    with open(program, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - text in
        match = SHEBANG.match(stream.read(HEAD))
    if match is None:
        raise ResourceError(f"'{program}' names no interpreter; name it in 'python'")
    return Command(match[1]).locate()


class AnsibleProcess:
    """A running helper; ``call`` ends it when it fails to answer."""

    def __init__(self, python: str) -> None:
        """Start the helper in an interpreter that has Ansible; it serves many calls, because its start is slow.

        Raise ``CommandError`` where other users can change its code, ``ResourceError`` if it cannot be started.
        """
        prefix = os.path.dirname(os.path.dirname(python))  # noqa: PTH120 - text in, text out
        # Only the directories of the modules: to check all 10,000 files would take longer than to run a module.
        modules = glob.glob(f"{glob.escape(prefix)}/lib/python3*/site-packages/ansible/modules")  # noqa: PTH207 - the same
        Command(python).check_code(places=modules)
        self._python = python
        #: The beginning of an unfinished line of its stdout.
        self._unfinished = b""
        #: The last lines of its stderr, for an error.
        self._tail: deque[str] = deque(maxlen=LINES)
        #: The end of the time limit of the present call, in seconds of ``time.monotonic``.
        self._until = 0.0
        settings = {"ANSIBLE_DEPRECATION_WARNINGS": "False", "ANSIBLE_NOCOLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        variables = program_checks.environment("ansible", settings)
        source, self._requests = os.pipe2(os.O_CLOEXEC)
        try:
            # ``reading`` lets it be killed with this process; the end of its stdin then ends the module too.
            self._process = Process(Invocation(python, ("-c", BOOT, PROGRAM), variables, stdin=source, reading=True))
        except OSError as error:
            os.close(self._requests)
            raise ResourceError(f"'{python}' cannot be started: {error.strerror}") from None
        finally:
            os.close(source)
        self._chunks = self._process.chunks(self._seconds_left)

    def call(self, context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request; return the helper's answer.

        If the helper does not answer in time, or ends, close it and raise ``ResourceError``: the caller starts another
        one for the next request.
        """
        self._until = time.monotonic() + LIMIT if context.deadline is None else context.deadline
        data = json.dumps(request).encode() + b"\n"
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._requests, data) :]
        for line in self._lines(context):  # the first line is the answer; there is none if the helper ends
            return dict(json.loads(line))
        self.close()
        ended = "was stopped" if self._process.stopped else describe_exit(self._process.exit_code or 0)
        last = "; ".join(self._tail)
        raise ResourceError(f"'{self._python}' {ended}{last and ': '}{last}")

    def _lines(self, context: Context) -> Iterator[bytes]:
        """Yield the lines of the helper's stdout; log those of its stderr, and store the last of them for an error."""
        for stream, chunk in self._chunks:
            if stream == STDOUT:
                self._unfinished += chunk
                if b"\n" in self._unfinished:
                    line, _, self._unfinished = self._unfinished.partition(b"\n")
                    yield line
            else:
                lines = [line for line in chunk.decode("utf-8", "replace").splitlines() if line.strip()]
                self._tail.extend(lines)
                for text in lines:
                    context.debug(text)

    def _seconds_left(self) -> float:
        """Return the seconds that the present call may still take.

        After its time limit, kill the process and raise ``ResourceError``: a module that hangs would never end the run.
        """
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            self.close()
            raise ResourceError("timed out: its time is over, and it was killed")
        return remaining

    @property
    def has_ended(self) -> bool:
        """Whether it cannot be called any more."""
        return self._requests < 0 or self._process.has_ended()

    def close(self) -> None:
        """End the process, and with it the module that runs: no module must go on without a run that waits for it.

        Do nothing after the first call.
        """
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1
            self._process.__exit__(None, None, None)
