"""``plan``, ``show``, ``destroy``, ``watch``: make, save and show a plan, delete the recorded resources, plan again.

The files of a plan that ``watch`` waits for are recorded as they are opened, by an audit hook that stays until the
process ends, and are polled later: that needs no library and no descriptors, and notices replaced, vanished and new
files on every file system.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from resource_api.cli import exit_codes, options
from resource_api.cli.commands import DeclinedError, asker, run_on_hosts
from resource_api.cli.session import command
from resource_api.model.options import run_option_names
from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.plugins.module_path import BUNDLED, OWN
from resource_api.render.plan import document_lines
from resource_api.render.text import destroy_question, nothing_recorded
from resource_api.runtime import saved_plan
from resource_api.runtime.plan_notices import report_findings
from resource_api.system.log import bound_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import FrameType

    from resource_api.cli.session import Session
    from resource_api.model.options import Settings
    from resource_api.runtime.planning import Plan

    #: Path → time of the last change, size and inode, as JSON has them; None: there is no such file.
    Signatures = dict[str, list[int] | None]

#: A file, rather than the id of a run.
_FILE_NAME: Final = re.compile(r"-|.*[./].*", re.DOTALL)
#: The signals that end ``watch``, and their handlers in the process that makes one plan.
_SIGNALS: Final[dict[int, Any]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: Phases of a run that read the machine, not the manifest.
_MACHINE: Final = frozenset(("observe", "plan"))
#: Clears a terminal and its history before the next plan.
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
#: Files that are not the user's: the program, the interpreter with its libraries, the kernel's file systems.
_FOREIGN: Final = tuple(f"{directory}/" for directory in ("/proc", "/sys", "/dev", sys.prefix, sys.base_prefix, *OWN))
#: The audit events of reading files, and the subdirectories of a module path.
_EVENTS: Final = frozenset(("open", "os.listdir", "os.scandir"))
_KINDS: Final = ("types", "providers", "components", "policies", "lib")
#: Seconds between two reads of the signatures, and after a change until the files count as complete.
_INTERVAL: Final = 0.5
_PAUSE: Final = 0.05


def _check_out(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return the file of ``-o``. Raise ``BadParameter`` for Terraform's ``-out=FILE``, which is ``-o ut=FILE`` here."""
    if value and (value == "ut" or value.startswith("ut=")):
        file = value[3:] or "FILE"
        raise click.BadParameter(f"write -o {file} or --out {file}")
    return options.output_file(context, option, value)


_out = click.option(
    "-o",
    "--out",
    type=options.Path(),
    callback=_check_out,
    help="Save the plan, to be applied later; with --on into a directory.",
)


@command(examples=("resource-api plan site.yaml -o later.json", "resource-api plan site.yaml --destroy"))
@options.manifest
@_out
@options.rare("--destroy", is_flag=True, help="Show what destroy would do.")
@options.explain
@options.full_run
@options.hosted_reading
def plan(session: Session, manifest: str, out: str | None, *, destroy: bool, **_settings: object) -> int:
    """Show the changes that apply would make with MANIFEST; change nothing."""
    return show_plan(session, manifest, out, destroy=destroy)


def show_plan(session: Session, manifest: str, out: str | None, *, destroy: bool) -> int:
    """Show the plan of an apply, or of a destroy, and report it to the reporters; return the exit code.

    ``out``: the file to save it in, for a later ``apply``, or None.
    """
    settings = session.settings
    if destroy:
        _refuse_changes(settings)
    if (code := run_on_hosts(session, "plan", manifest, out=out, empty=destroy)) is not None:
        return code
    gc.disable()  # until the end: the values of a plan live that long, so that searching them frees nothing
    plan = _make_plan(session, manifest, destroy=destroy)
    if out is not None:
        sources = (document.file for document in plan.catalog.manifest.documents)
        saved_plan.check_target(out, (*sources, *settings["input_files"]))
    if session.reporting is not None:
        run = {"kind": "plan", "command": "plan", "ended": time.time()}
        session.set_document(session.log.mask.document({**run, **plan.to_dict()}))
    if out is not None:  # before the plan is shown: an error after it would be a second document
        saved_plan.write(plan, out, session.runtime.key)
    session.console.show(plan.to_dict, lambda: session.console.plan_lines(plan))
    report_findings(plan, session.log, session.runtime.store)
    session.console.log_plan_errors(plan)
    for problem in plan.problems:
        session.console.show_problem(problem)
    return exit_codes.of_plan(plan, detailed=settings["detailed_exitcodes"])


def _make_plan(session: Session, manifest: str, *, destroy: bool) -> Plan:
    """Return the plan of an apply, or of a destroy.

    A destroy has no options about declared resources, because its manifest counts as empty.
    """
    settings = session.settings
    inputs, source, run_options = session.inputs.values, session.source(manifest), options.run_options(settings)
    if destroy:
        for name in run_option_names("changes"):
            run_options.pop(name, None)
        return session.runtime.plan_destroy(source, inputs, **run_options)
    # A plan that is saved, explained or reported must have all resources; the cache leaves out those in sync.
    whole = settings.get("out") is not None or bool(settings.get("explain")) or session.reporting is not None
    return session.runtime.plan(source, inputs, use_cache=session.use_cache and not whole, **run_options)


def _refuse_changes(settings: Settings) -> None:
    """Raise ``UsageError`` for an option about declared resources, such as ``--prune``, beside ``--destroy``."""
    for name in run_option_names("changes"):
        if settings.get(name):
            msg = f"{options.flag(name)} does not go with --destroy, which deletes all that is recorded as ours"
            raise UsageError(msg)


@command(
    examples=(
        "resource-api destroy site.yaml --noop",
        "resource-api destroy site.yaml -o later.json",
        "resource-api destroy site.yaml --target 'File[/etc/motd]' --yes",
    ),
    runs=True,
)
@options.manifest
@click.option("--yes", is_flag=True, help="Do not ask.")
@_out
@options.noop
@options.manifest_inputs
@options.selection
@options.execution
@options.reports
@options.diff
@options.provider_calls
@options.hosted_recorded
def destroy(session: Session, manifest: str, out: str | None, *, yes: bool, noop: bool, **settings: object) -> int:
    """Delete the resources that state records as ours for the project of MANIFEST and its stack; forget the rest."""
    if out is not None:
        if yes:
            raise UsageError("-o saves the plan, and --yes is for carrying it out; apply does that with a saved plan")
        return show_plan(session, manifest, out, destroy=True)
    # Before anything is planned: without a terminal to ask on the command ends here.
    confirm = None if yes or noop else asker(session, "destroy", "Nothing is deleted")
    if (code := run_on_hosts(session, "destroy", manifest, confirm=confirm)) is not None:
        return code
    inputs, run_options = session.inputs.values, options.run_options({**settings, "noop": noop})

    def on_plan(planned: Plan) -> None:
        """Show the plan and ask. Raise ``DeclinedError`` for no, before anything is destroyed."""
        _show_destruction(session, planned, noop=noop, asks=not yes)
        question = destroy_question(planned.summary, *session.runtime.name(planned.catalog))
        if confirm is not None and planned.summary.changed and not confirm(question):
            raise DeclinedError

    try:
        report = session.runtime.destroy(session.source(manifest), inputs, on_plan=on_plan, **run_options)
    except DeclinedError:
        return 1
    return session.show_report(report)


def _show_destruction(session: Session, planned: Plan, *, noop: bool, asks: bool) -> None:
    """Show the plan of ``destroy``: with ``--noop`` as the result, without ``--yes`` (``asks``) above the question.

    If nothing is recorded, log that there is nothing to destroy. With ``--json`` stdout is for events only.
    """
    if noop:
        session.console.show_noop(planned)
    elif not session.json:
        if asks:
            session.output.print(session.console.plan_lines(planned))
        if not (planned.steps or planned.prior.state.records):
            session.log.write("notice", "", nothing_recorded(*session.runtime.name(planned.catalog)))


@command(examples=("resource-api show later.json", "resource-api show last"))
@click.argument("name", type=options.Path(), metavar="PLAN.json|RUN")
@options.diff
@options.state
def show(session: Session, name: str, **_settings: object) -> int:
    """Show a saved plan as it was planned, or a run: its id, last, or last-1; nothing of the machine is read.

    A warning says if state has changed since the plan, so that apply would refuse it.
    """
    is_file = os.path.exists(name)
    if name.endswith("]") and not is_file:
        msg = f"{name} is neither a saved plan nor a run; 'resource-api state show REF' shows the record of a resource"
        raise UsageError(msg)
    if is_file or _FILE_NAME.fullmatch(name):
        _show_saved(session, name)
        return 0
    from resource_api.cli.commands.history import show_recorded

    return show_recorded(session, name)


def _show_saved(session: Session, plan: str) -> None:
    """Show a saved plan, and warn if state has changed since, so that ``apply`` would refuse it."""
    document = saved_plan.load(plan)
    # The types of its resources may stand beside the plan or its manifest.
    for file in filter(None, (plan, saved_plan.manifest_path(document))):
        session.registry.add_manifest(file)
    shown_plan = saved_plan.show(document, plan, session.registry, verbose=session.settings.get("verbose", False))
    session.console.show(
        lambda: {name: value for name, value in document.items() if name != "manifest"},
        lambda: document_lines(shown_plan, session.output.style),
    )
    try:
        reason = saved_plan.find_stale(document, session.runtime.store)
    except ResourceAPIError as error:  # a warning, because the plan is shown: an error would be a second document
        session.log.write("warning", "", f"{plan}: whether the plan is stale is unknown: {error}")
        return
    if reason:
        session.log.write("warning", "", f"{plan}: the plan is stale: {reason}; plan again")


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
        raise click.UsageError("watch needs a manifest in a file; standard input cannot be read again")
    _handle_signals(dict.fromkeys(_SIGNALS, _stop))
    base = os.getcwd()
    path = os.path.join(base, manifest)
    # If the first plan fails before it opens a file, the manifest is watched at least.
    signatures = _signatures([path])
    try:
        while True:
            signatures = _plan_once({**settings, "manifest": manifest}, base, signatures)
            wait_for_change(signatures)
            if not settings["json"]:
                sys.stdout.write(_CLEAR if sys.stdout.isatty() else f"--- {manifest} has changed ---\n")
                sys.stdout.flush()
    except _Stopped as stopped:
        return 128 + stopped.number
    except BrokenPipeError:
        # The interpreter flushes stdout at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


#: Its arguments and options are those of ``plan``, whatever these are, but it saves nothing and stays here.
watch.params = [parameter for parameter in plan.params if parameter.name not in {"out", "on", *options.HOSTED}]


def _handle_signals(handlers: Mapping[int, Any]) -> None:
    """Install the handlers of signals: in ``watch`` one that ends it, in the process of a plan the default ones.

    A signal that the caller of the command ignores, as nohup(1) does, stays ignored.
    """
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal by ending the command, wherever it waits."""
    raise _Stopped(number)


def _plan_once(settings: dict[str, object], base: str, before: Signatures) -> Signatures:
    """Make one plan in a new process, which imports changed modules anew; return the files to watch next.

    The process reports the files that it has read through a file in memory. ``base``: the working directory of the
    command. ``before``: the files of the last plan; after a plan that failed early they are watched too.
    """
    with open(os.memfd_create("watched files"), "r+", encoding="utf-8") as report:
        if (pid := os.fork()) == 0:
            _plan_and_exit(settings, base, report.fileno())
        code = _wait_for(pid)
        report.seek(0)
        read_files: Signatures = json.loads(report.read() or "{}")
    if exit_codes.is_planned(code):
        return read_files
    # The plan may have ended before it came to the rest of its files.
    return {**_signatures(before), **read_files}


def _wait_for(pid: int) -> int:
    """Wait for the process of a plan, and return its exit code.

    A signal that ends ``watch`` meanwhile is passed on, so that the process does not outlive the command.
    """
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except _Stopped as stopped:
        with suppress(ChildProcessError, ProcessLookupError):  # the process has just ended
            if stopped.number != signal.SIGINT:  # the terminal has sent Ctrl-C to both processes
                os.kill(pid, stopped.number)
            os.waitpid(pid, 0)
        raise


def _plan_and_exit(settings: dict[str, Any], base: str, report: int) -> NoReturn:
    """Make one plan in this forked process, write the files to watch to the descriptor ``report``, and exit.

    These are the files that the plan reads, except in the phases ``_MACHINE``: there it reads the machine's own files,
    which change without an edit of the user.
    """
    code = 70  # the exit code of an error that the session of the plan could not report
    try:
        _handle_signals(_SIGNALS)
        with suppress(OSError):
            os.chdir(base)  # the directory may have been removed and made again
        files = record_files(lambda: bound_fields.get().get("phase") not in _MACHINE, base)
        code = plan.callback(**settings, out=None, uncached=True) if plan.callback is not None else code
        if not exit_codes.is_planned(code):
            files |= watched_directories(files, settings["module_path"])
        with open(report, "w", encoding="utf-8", closefd=False) as file:
            json.dump(files, file)
    finally:
        # Not sys.exit: the functions registered for the exit are copies of the parent's, which runs them itself.
        os._exit(code)


def record_files(relevant: Callable[[], bool], base: str) -> Signatures:
    """Return a mapping that receives every file that this process opens for reading from now on, with its signature.

    ``watch`` compares the signatures to see changes; each is made before the file is opened, so that no later change is
    missed. While ``relevant()`` is False, files belong to the machine, not to the plan, and are left out. ``base``: the
    working directory, for relative paths.
    """
    signatures: Signatures = {}

    def note(event: str, arguments: Any) -> None:
        """Record the signature of a file that is about to be read; Python calls this hook for each audited event.

        Files that the user does not edit, such as those of the interpreter and compiled modules, are left out.
        """
        if event not in _EVENTS or not isinstance(arguments[0], (str, bytes)):
            return
        is_read = event != "open" or arguments[2] & os.O_ACCMODE == os.O_RDONLY
        if is_read and relevant():
            path = os.path.join(base, os.fsdecode(arguments[0]))
            if path not in signatures and not path.startswith(_FOREIGN) and not path.endswith(".pyc"):
                signatures[path] = signature(path)

    sys.addaudithook(note)
    return signatures


def watched_directories(files: Iterable[str], module_path: Iterable[str]) -> Signatures:
    """Return the directories that ``watch`` must watch after a failed plan, with their signatures.

    The plan may have failed because a file is missing, which then appears beside its other ``files``, or among the
    types and components on the module path. The package's own directory is left out: nobody edits it.
    """
    paths = {os.path.dirname(path) for path in files}
    for root in module_path:
        if root != BUNDLED:
            paths.update(f"{os.path.abspath(root)}/{kind}" for kind in _KINDS)
    return _signatures(paths)


def _signatures(paths: Iterable[str]) -> Signatures:
    """Return the present signatures of files and directories."""
    return {path: signature(path) for path in paths}


def signature(path: str) -> list[int] | None:
    """Return values by which ``watch`` sees that a file or the entries of a directory have changed; None if missing.

    They are cheap to get: no content is read.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def wait_for_change(signatures: Mapping[str, object]) -> None:
    """Wait until a file's signature changes, so that the next plan is due, and then until no signature changes.

    The second wait is for an editor or a checkout that is still writing files: the plan must not read half of them.
    """
    while (before := _signatures(signatures)) == signatures:
        time.sleep(_INTERVAL)
    while (current := _signatures(signatures)) != before:
        before = current
        time.sleep(_PAUSE)
