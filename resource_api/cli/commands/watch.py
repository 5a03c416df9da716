"""``watch``: plan again whenever a file of the manifest changes.

Each plan is made by a process of its own, which is forked from this one: it loads types, providers and components as
they are then, and whatever it does to itself ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from resource_api.cli import options, watched_files
from resource_api.cli.commands.plan import plan
from resource_api.runtime import runtime as _preloaded  # noqa: F401 - for every process that makes a plan
from resource_api.system import log

if TYPE_CHECKING:
    from types import FrameType

    from resource_api.cli.watched_files import Signatures

_SIGNALS: Final[dict[int, Any]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: Phases of a run that read the machine, not the manifest.
_MACHINE: Final = frozenset(("observe", "plan"))
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class _Stopped(BaseException):
    """A signal that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@options.command(
    examples=("resource-api watch site.yaml", "resource-api watch site.yaml --target 'File[*]' --diff full")
)
def watch(manifest: str, **settings: Any) -> int:
    """Plan MANIFEST, and again whenever one of its files changes; change nothing. Ctrl-C ends it.

    Its files are also what it includes, inputs, types, providers, components, policies, assets and templates.
    """
    if manifest == "-":
        msg = "watch needs a manifest in a file; standard input cannot be read again"
        raise click.UsageError(msg)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    base = os.getcwd()
    path = os.path.join(base, manifest)
    known: Signatures = {path: watched_files.signature(path)}
    try:
        while True:
            known = _plan({**settings, "manifest": manifest}, base, known)
            watched_files.wait_for_change(known)
            if not settings["json"]:
                _separate(manifest)
    except _Stopped as stopped:
        return 128 + stopped.number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


#: Its arguments and options are those of ``plan``, whatever these are, but it saves nothing and stays here.
watch.params = [each for each in plan.params if each.name not in {"out", "on", *options.HOSTED}]


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped(number)


def _plan(settings: dict[str, Any], base: str, before: Signatures) -> Signatures:
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
        found: Signatures = json.loads(report.read() or "{}")
    if os.waitstatus_to_exitcode(status) in {0, 2}:
        return found
    # The plan may have ended before it came to the rest of its files.
    return {**{path: watched_files.signature(path) for path in before}, **found}


def _plan_and_exit(settings: dict[str, Any], base: str, report: int) -> NoReturn:
    """Make one plan, write the files that it has read to the descriptor ``report``, and end the process."""
    code = 70
    try:
        for number, handler in _SIGNALS.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
        with suppress(OSError):
            os.chdir(base)  # which may have been removed and made again
        files = watched_files.record(lambda: log.bound().get("phase") not in _MACHINE, base)
        code = plan.callback(**settings, out=None, uncached=True) if plan.callback is not None else code
        if code not in {0, 2}:
            files |= watched_files.directories(files, settings["module_path"])
        with open(report, "w", encoding="utf-8", closefd=False) as file:
            json.dump(files, file)
    finally:
        os._exit(code)


def _separate(manifest: str) -> None:
    """Clear the terminal for the next plan; elsewhere write a line before it."""
    sys.stdout.write(_CLEAR if sys.stdout.isatty() else f"--- {manifest} has changed ---\n")
    sys.stdout.flush()
