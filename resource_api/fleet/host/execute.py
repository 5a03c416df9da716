"""Read a job from standard input, run it on this host, and send its events: the last part of ``fleet/boot``.

The run does not depend on the controller's process: when the channel breaks, events are dropped and the run goes on. An
interrupt arrives as a frame.
"""

from __future__ import annotations

import os
import signal
import site
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet.host.commands import run_job
from resource_api.fleet.host.run import HostRun
from resource_api.model.values.errors import (
    BUG,
    NOTHING_DONE,
    ManifestError,
    Problem,
    ResourceAPIError,
    diagnostic_code,
    reason,
    unexpected,
)
from resource_api.model.values.values import map_leaves
from resource_api.model.values.version import __version__
from resource_api.plugins.worker import protocol
from resource_api.render import json as documents
from resource_api.runtime.signals import exit_despite_threads
from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.fleet.job import HostJob

# State needs it, some Pythons lack it, and its import takes milliseconds: checked before the job, imported later.
if find_spec("_sqlite3") is None:
    msg = "No module named 'sqlite3'"
    raise ModuleNotFoundError(msg, name="sqlite3")

_READ: Final = 64 * 1024
#: Characters of a text in a document that is too large.
_LONGEST: Final = 1000


class Sender:
    """Sends documents until the channel breaks, then drops them."""

    def __init__(self, descriptor: int) -> None:
        """Write to the descriptor of a pipe."""
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._closed = False

    def event(self, document: Mapping[str, Any]) -> None:
        """Send a document of a run; long texts are cut where the document is too large."""
        raw = protocol.encode_plain("event", {"document": document})
        if len(raw) > jobs.MAX_EVENT:
            raw = protocol.encode_plain("event", {"document": map_leaves(document, _cut)})
        self._send(raw)

    def result(self, document: Mapping[str, Any]) -> None:
        """Send the document of a command that reads. Raise ``ResourceAPIError`` if it is too large."""
        raw = protocol.encode_plain("result", {"document": document})
        if len(raw) > jobs.MAX_RESULT:
            msg = f"the answer is larger than {jobs.MAX_RESULT >> 20} MiB; ask for less at once"
            raise ResourceAPIError(msg)
        self._send(raw)

    def end(self, code: int) -> None:
        """Send the exit code."""
        self._send(protocol.encode_plain("end", {"code": code}))

    def _send(self, frame: bytes) -> None:
        unsent = memoryview(frame)
        with self._lock:
            while unsent and not self._closed:
                try:
                    unsent = unsent[os.write(self._descriptor, unsent) :]
                except OSError:
                    self._closed = True


def _cut(leaf: Any) -> Any:
    """Return a leaf of JSON data; a long text is cut."""
    too_long = isinstance(leaf, str) and len(leaf) > _LONGEST
    return f"{leaf[:_LONGEST]}… ({len(leaf)} characters)" if too_long else leaf


def main(cache: str, directories: Sequence[str]) -> None:
    """Run the job on standard input and end this process with the command's exit code.

    ``cache``: the directory of unpacked archives; ``directories``: the archives of modules in it.
    """
    use_installed_libraries()
    # The end of the connection must not end the run.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    requests, sender = os.dup(0), Sender(os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The output of programs must not come between the frames.
    os.dup2(2, 1)
    frames = _frames(requests, protocol.Decoder())
    if (first := next(frames, None)) is None:
        sys.exit(1)
    listener = threading.Thread(target=_await_interrupts, args=(frames,), daemon=True)
    code = execute(jobs.decode(first), sender, [cache, *directories], listener.start)
    sender.end(code)
    exit_despite_threads(code)
    sys.exit(code)


def execute(job: HostJob, sender: Sender, directories: Sequence[str], listen: Callable[[], None]) -> int:
    """Run a job, send its events, and return the command's exit code.

    ``directories``: the cache, whose code is trusted, and the archives of modules in it. ``listen`` is called as soon
    as interrupts can be handled.
    """
    run = HostRun(job, sender.event, sender.result, directories)
    interrupts = run.interrupts
    try:
        with interrupts:
            listen()
            sender.event(hello(directories[0]))
            return run.exit_code(run_job(run))
    except ManifestError as error:
        return _fail(run, error.problems, error.exit_code)
    except ResourceAPIError as error:
        return _fail(run, [Problem(error.attribute, str(error), code=diagnostic_code(error))], error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort
        problem, code = unexpected(error)
        return _fail(run, [problem._replace(hint="")], code)
    except BaseException as error:  # noqa: BLE001 - an interrupt, or an exit of a provider
        text = "interrupted" if interrupts.came else f"a provider ended the run: {reason(error)}"
        return _fail(run, [Problem(None, text, code="interrupted")], interrupts.exit_code)


def hello(cache: str) -> dict[str, Any]:
    """Return the first document of a host: its Python, this package's version, the user and the free space."""
    free = os.statvfs(cache)
    fields = {"python": ".".join(map(str, sys.version_info[:3])), "version": __version__, "uid": os.geteuid()}
    return documents.line("hello", {**fields, "free_bytes": free.f_bavail * free.f_frsize})


def _frames(requests: int, decoder: protocol.Decoder) -> Iterator[protocol.Frame]:
    """Yield the frames that arrive, until the channel ends."""
    while data := os.read(requests, _READ):
        yield from decoder.feed(data)


def _await_interrupts(frames: Iterator[protocol.Frame]) -> None:
    """Turn the frames ``interrupt`` into signals, which the run handles, until the channel ends."""
    with suppress(OSError, ValueError):
        for frame in frames:
            if frame.kind == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)


def _fail(run: HostRun, problems: Sequence[Problem], code: int) -> int:
    """Send the problems that ended a command, as a refusal if the host was not changed; return the exit code."""
    rendered = [documents.problem(problem) for problem in problems]
    if not run.began and code in {*NOTHING_DONE, BUG}:
        run.emit(documents.line("refused", {"exit_code": code, "problems": rendered}))
    else:
        for problem in rendered:
            run.emit(documents.line("diagnostic", problem))
    return code


def use_installed_libraries() -> None:
    """Let types import libraries that are installed for this interpreter, unless other users can change them.

    They are searched last. The first program runs without ``site``, so that nothing of the host is executed unasked:
    the directories are added, and no file in them that ``site`` would execute is read.
    """
    sys.path += _library_directories()


def _library_directories() -> Iterator[str]:
    environment = os.path.dirname(os.path.dirname(sys.executable))
    prefixes = [environment] if os.path.exists(f"{environment}/pyvenv.cfg") else None
    trust = CodeTrust()
    for directory in site.getsitepackages(prefixes):
        with suppress(OSError):
            if os.path.isdir(directory) and not trust.check_tree(directory):
                yield directory
