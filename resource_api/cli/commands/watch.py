"""``watch``: plan again whenever a file of the manifest changes.

The files of a plan are recorded as they are opened, by an audit hook that stays until the process ends, and are polled
later: that needs no library and no descriptors, and notices replaced, vanished and new files on every file system.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from resource_api.cli import options
from resource_api.cli.commands.plan import plan
from resource_api.plugins.module_path import BUNDLED, OWN
from resource_api.system.log import bound_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import FrameType

    #: Path → time of the last change, size and inode, as JSON has them; None: there is no such file.
    Signatures = dict[str, list[int] | None]


_SIGNALS: Final[dict[int, Any]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: Phases of a run that read the machine, not the manifest.
_MACHINE: Final = frozenset(("observe", "plan"))
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class _Stopped(BaseException):
    """A signal that ends the command; no ``Exception``, so that nothing on the way out handles it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@options.command(
    examples=("resource-api watch site.yaml", "resource-api watch site.yaml --target 'File[*]' --diff full")
)
def watch(manifest: str, **settings: object) -> int:
    """Plan MANIFEST, and again whenever one of its files changes; change nothing. Ctrl-C ends it.

    Its files are also the included ones, inputs, types, providers, components, policies, assets and templates.
    """
    if manifest == "-":
        msg = "watch needs a manifest in a file; standard input cannot be read again"
        raise click.UsageError(msg)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    base = os.getcwd()
    path = os.path.join(base, manifest)
    signatures: Signatures = {path: signature(path)}
    try:
        while True:
            signatures = _plan({**settings, "manifest": manifest}, base, signatures)
            wait_for_change(signatures)
            if not settings["json"]:
                _separate(manifest)
    except _Stopped as stopped:
        return 128 + stopped.number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


#: Its arguments and options are those of ``plan``, whatever these are, but it saves nothing and stays here.
watch.params = [parameter for parameter in plan.params if parameter.name not in {"out", "on", *options.HOSTED}]


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal by ending the command, wherever it waits."""
    raise _Stopped(number)


def _plan(settings: dict[str, object], base: str, before: Signatures) -> Signatures:
    """Make one plan in a new process; return the files that the next change may come from."""
    with open(os.memfd_create("watched files"), "r+", encoding="utf-8") as report:
        if (pid := os.fork()) == 0:
            _plan_and_exit(settings, base, report.fileno())
        try:
            _, status = os.waitpid(pid, 0)
        except _Stopped as stopped:
            with suppress(ChildProcessError, ProcessLookupError):  # it has just ended
                if stopped.number != signal.SIGINT:  # which a terminal sends to all
                    os.kill(pid, stopped.number)
                os.waitpid(pid, 0)
            raise
        report.seek(0)
        read_files: Signatures = json.loads(report.read() or "{}")
    if os.waitstatus_to_exitcode(status) in {0, 2}:  # a plan in which nothing fails
        return read_files
    # The plan may have ended before it came to the rest of its files.
    return {**{path: signature(path) for path in before}, **read_files}


def _plan_and_exit(settings: dict[str, Any], base: str, report: int) -> NoReturn:
    """Make one plan, write the files that it has read to the descriptor ``report``, and end the process."""
    code = 70  # of an error that no session has reported
    try:
        for number, handler in _SIGNALS.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
        with suppress(OSError):
            os.chdir(base)  # which may have been removed and made again
        files = record_files(lambda: bound_fields.get().get("phase") not in _MACHINE, base)
        code = plan.callback(**settings, out=None, uncached=True) if plan.callback is not None else code
        if code not in {0, 2}:
            files |= directories(files, settings["module_path"])
        with open(report, "w", encoding="utf-8", closefd=False) as file:
            json.dump(files, file)
    finally:
        os._exit(code)


def _separate(manifest: str) -> None:
    """Clear the terminal for the next plan; elsewhere write a line before it."""
    sys.stdout.write(_CLEAR if sys.stdout.isatty() else f"--- {manifest} has changed ---\n")
    sys.stdout.flush()


#: Files that are not the user's: the program, the interpreter with its libraries, the kernel's file systems.
_FOREIGN: Final = tuple(f"{directory}/" for directory in ("/proc", "/sys", "/dev", sys.prefix, sys.base_prefix, *OWN))
_EVENTS: Final = frozenset(("open", "os.listdir", "os.scandir"))
_KINDS: Final = ("types", "providers", "components", "policies", "lib")
#: Seconds between two reads of the signatures, and after a change until the files count as complete.
_INTERVAL: Final = 0.5
_PAUSE: Final = 0.05


def record_files(relevant: Callable[[], bool], base: str) -> Signatures:
    """Return a mapping that receives every file that this process opens for reading from now on while ``relevant()``.

    Each signature is that of the moment before the file is opened first. ``base`` is the working directory.
    """
    signatures: Signatures = {}

    def note(event: str, arguments: Any) -> None:
        """Record the signature of a file that the interpreter opens for reading, once, and before it can change."""
        if event not in _EVENTS or not isinstance(arguments[0], (str, bytes)):
            return
        if (event != "open" or arguments[2] & os.O_ACCMODE == os.O_RDONLY) and relevant():
            path = os.path.join(base, os.fsdecode(arguments[0]))
            if path not in signatures and not path.startswith(_FOREIGN) and not path.endswith(".pyc"):
                signatures[path] = signature(path)

    sys.addaudithook(note)
    return signatures


def directories(files: Iterable[str], module_path: Iterable[str]) -> Signatures:
    """Return the directories where a missing file may appear: those of ``files``, and those of types and components."""
    paths = {os.path.dirname(path) for path in files}
    roots = [os.path.abspath(root) for root in module_path if root != BUNDLED]
    return {path: signature(path) for path in (*paths, *(f"{root}/{kind}" for root in roots for kind in _KINDS))}


def signature(path: str) -> list[int] | None:
    """Return values that differ after a change of a file or of a directory's entries, or None without either."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def wait_for_change(signatures: Mapping[str, object]) -> None:
    """Wait until a file has another signature, and is no longer being written."""
    while (before := {path: signature(path) for path in signatures}) == signatures:
        time.sleep(_INTERVAL)
    while (current := {path: signature(path) for path in signatures}) != before:
        before = current
        time.sleep(_PAUSE)
