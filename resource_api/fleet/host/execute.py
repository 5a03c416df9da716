"""Read a job from standard input, run its command on this host, and send its events: the last part of ``fleet/boot``.

The run does not depend on the controller's process: when the channel breaks, events are dropped and the run goes on. An
interrupt arrives as a frame. Each command takes a ``HostRun``, sends its documents and returns the exit code without
``--detailed-exitcodes``, which the machine of the command derives from the documents.
"""

from __future__ import annotations

import json
import os
import signal
import site
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.fleet import job as jobs
from resource_api.fleet.host.journal import JobReport, Journal
from resource_api.manifest.sections import project_name
from resource_api.model.options import EXECUTION, RUN_OPTIONS, run_option_names
from resource_api.model.report import StepStart
from resource_api.model.values.errors import (
    BUG,
    NOTHING_DONE,
    ManifestError,
    Problem,
    ResourceAPIError,
    StateDamaged,
    UsageError,
    diagnostic_code,
    reason,
    unexpected,
)
from resource_api.model.values.version import __version__
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker import protocol
from resource_api.provider.context import RunContext, current
from resource_api.render import json as documents
from resource_api.runtime import agent_status, commands, import_resources, resource_selection, saved_plan, state_refresh
from resource_api.runtime.runtime import Runtime, state_settings
from resource_api.runtime.signals import Interrupts, exit_despite_threads
from resource_api.state.open_store import command_options, default_path
from resource_api.state.store import StackName
from resource_api.system.facts import Facts
from resource_api.system.filesystem import asset_contents
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.log import ForwardedLog, line_stream
from resource_api.system.process import child, core_dumps, process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.fleet.job import HostJob
    from resource_api.model.declaration import Manifest
    from resource_api.model.json_documents import ProblemJson
    from resource_api.model.report import Event, RunReport
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.planning import Plan


#: The types of documents in a job's report.
_REPORTED: Final = frozenset({"diagnostic", "outputs", "resource_drift", "result", "step_end", "summary"})
_SHELL: Final = "/bin/sh"
#: Bytes of the end of each stream of a program that are kept.
_STREAM_TAIL: Final = 64 * 1024
#: Seconds between two looks whether the run was interrupted.
_TICK: Final = 0.2
#: The exit code of a program that signal N ended is this and N, as in a shell.
_SIGNALLED: Final = 128


class _JobOptions(dict[str, Any]):
    """A job's options by name. A missing one is the controller's mistake, and no bug on this host."""

    def __missing__(self, name: str) -> Any:
        raise UsageError(f"the job lacks the option '{name}'")


class HostRun:
    """A job with its runtime, log and interrupts."""

    def __init__(self, job: HostJob, sender: Sender, cache: str, archives: Sequence[str]) -> None:
        """Prepare the run of a job, whose documents ``sender`` sends to the controller.

        ``cache``: the directory of unpacked archives, ``archives``: those with modules in it. From now on all output of
        this process is logged as events, and secrets are masked.
        """
        self.job = job
        self.options = _JobOptions(job.options)
        self._sender = sender
        #: Whether the host may have been changed: an error is then no refusal.
        self.began = False
        #: The documents that the journal stores, to send them again if the same job is delivered twice.
        self.report_documents: list[Mapping[str, object]] = []
        self.log = ForwardedLog(
            str(self.options.get("log_level") or "notice"), lambda event: self.emit(documents.log(event))
        )
        # Once there is a secret, no crash may write the memory to the disk.
        self.log.mask.on_secret = lambda _secret, _declared: core_dumps.forbid()
        sys.stdout, sys.stderr = (line_stream(self._printed, number, self.log.mask) for number in (1, 2))
        self.context = RunContext(self.log)
        self.context.isolate = bool(self.options.get("isolate")) or None  # None: as each type declares
        self.interrupts = Interrupts(self.context, again="")  # the user is at the controller
        self._module_path: list[str] = []
        for archive in archives:
            # An archive has the directories of a module path as 0, 1, 2 ...
            numbers = sorted(filter(str.isdigit, os.listdir(archive)), key=int)
            self._module_path += [f"{archive}/{number}" for number in numbers]
        trusted = [cache, *self.options.get("trust_path", ())]
        self.registry = Registry(ModulePath([*self._module_path, BUNDLED], distributions=False), trusted)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime that executes the job, with the state that its options select.

        Assets and templates of the manifest are read from the files that were sent with the job.
        """
        return Runtime(
            self.registry,
            **state_settings(self.options),
            on_event=self._on_event,
            run=self.context,
            facts=Facts(self.job.host),
            contents=asset_contents.SentReader(self.registry.trust, self.job.files, self._module_path),
        )

    @property
    def name(self) -> str:
        """The name by which the host was selected."""
        return str(self.job.host.get("name", ""))

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the manifest by name, each text with the class of its source again."""
        return jobs.decoded_inputs(self.job)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the job, assembled from its documents; a Python manifest is executed on this host.

        Raise ``ManifestError``.
        """
        return jobs.read_manifest(
            self.job.documents, lambda raw, file: self.runtime.compiler.read_python(raw, file, self.inputs)
        )

    def selected(self, *names: str) -> dict[str, Any]:
        """Return the job's options among ``names``; absent ones keep the defaults of the called function."""
        return {name: self.options[name] for name in names if name in self.options}

    def exit_code(self, code: int) -> int:
        """Return the exit code of an interrupt that came, else ``code``."""
        return self.interrupts.exit_code if self.interrupts.came else code

    def report(self, report: RunReport) -> int:
        """Send the summary of a run, by which the controller reports this host, and return the run's exit code."""
        code = self.exit_code(report.exit_code)
        self.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        return code

    def emit(self, document: Mapping[str, object]) -> None:
        """Send a document with its secrets masked, and keep it as ``send_masked`` does."""
        self.send_masked(self.log.mask.document(document))

    def send_masked(self, document: Mapping[str, object]) -> None:
        """Send a document in which secrets are masked already, and keep it if the job's report contains its type.

        The journal stores the report, to send it again if the same job is delivered twice.
        """
        if document["type"] in _REPORTED:
            self.report_documents.append(document)
        if document["type"] == "result":
            self._sender.result(document)
        else:
            self._sender.event(document)

    def result(self, value: object, *, reveal: bool = False) -> None:
        """Send the document of a command, such as a plan or the resources that it has read.

        ``reveal``: it contains secrets in clear, so it is not kept for the journal.
        """
        document = documents.line("result", {"document": value})
        if reveal:
            self._sender.result(document)
        else:
            self.emit(document)

    @property
    def reader(self) -> Runtime:
        """The reader of resources for the command ``resource``, here the runtime itself."""
        return self.runtime

    def find_type(self, name: str) -> TypeDefinition:
        """Return the type of a name of the command line. Raise ``UsageError`` for an unknown one."""
        return resource_selection.find_type(self.runtime, name)

    def select(self, definition: TypeDefinition) -> SelectedProvider | None:
        """Return the configured provider for the command ``resource``, selected by ``--provider`` or the manifest.

        None if nothing selects one and the type needs no configuration. Raise ``UsageError``, also for ``--config``:
        its values may be secret, and hosts get secrets only in manifests.
        """
        if self.options.get("config"):
            msg = (
                "--config cannot be given to other hosts; declare the provider in a manifest, and name it with"
                " --manifest"
            )
            raise UsageError(msg)
        manifest, provider = self.manifest if self.job.documents else None, self.options.get("provider")
        return self.runtime.select(definition.name, provider=provider, manifest=manifest, inputs=self.inputs or None)

    def secret(self, attribute: str, text: str) -> NoReturn:
        """Refuse the value of a sensitive attribute on the command line: hosts get secrets in manifests alone.

        Raise ``UsageError``, whose message does not contain ``text``, the secret.
        """
        del text
        msg = f"{attribute} is sensitive and cannot be given to other hosts like this; make it an input of a manifest"
        raise UsageError(msg)

    def warnings(self) -> Sequence[ProblemJson]:
        """Return nothing, as ``commands.Call`` allows: each warning was sent as an event."""
        return []

    def journal(self) -> Journal | None:
        """Return the journal of the stack, by which a job that is delivered twice runs once.

        None for a job that changes nothing, and for a remote state: the journal is a file beside the state's file.
        """
        from resource_api.state.sqlite.store import SqliteStore  # many jobs need no state

        options = self.options
        if self.job.command not in jobs.CHANGING or options.get("noop"):
            return None
        store = self.runtime.store
        if not isinstance(store, SqliteStore):
            return None
        # The names of project and stack: from the saved plan, the options or the manifest.
        names = options.get("saved_plan") or options
        project = names.get("project") or project_name(self.manifest)
        return Journal(store.path, StackName(project, names.get("stack") or "default").checked())

    def _printed(self, text: str) -> None:
        """Log a line that code in this process printed, for the type whose provider is running."""
        context = current.get()
        self.log.show("notice", context.type.name if context else "", text)

    def _on_event(self, event: Event) -> None:
        """Send an event of the run, and record that the host may have been changed from the first step on.

        An error after that is no refusal.
        """
        self.began = self.began or isinstance(event, StepStart)
        if (document := documents.event_line(event)) is not None:
            self.emit(document)


#: The options of ``destroy`` and ``plan --destroy``, which use no declarations.
_DESTROYING: Final = run_option_names("execution", "strictness", "selection")


def run_job(run: HostRun) -> int:
    """Run the command of a job and return its exit code; a job that ended before is answered from the journal.

    Its sender may have lost the connection before the answer came. Raise as ``Runtime`` does, ``Superseded`` for an
    earlier job, ``StateLocked`` while another job runs.
    """
    _check_libraries(run.options.get("libraries", ()))
    command = _COMMANDS.get(run.job.command, _read)
    journal = run.journal()
    if journal is None:
        return command(run)
    holder = f"{run.job.command} of {run.job.operator or 'another machine'}"
    with journal.held(holder, run.options.get("lock_timeout") or 0.0):
        report = journal.begin(run.job)
        if report is not None:
            for document in report.documents:
                run.send_masked(document)
            return report.code
        code = command(run)
        if not run.interrupts.came:  # an interrupted job has no report: delivered again, it goes on
            journal.finish(JobReport(code, run.report_documents))
        return code


def _check_libraries(names: Iterable[str]) -> None:
    """Raise ``ManifestError`` for Python libraries among ``names`` that this host lacks.

    The controller has sent the libraries that are installed there, so these are installed on neither machine. The error
    comes before the first change, not in the middle of the run.
    """
    if missing := [name for name in names if find_spec(name) is None]:
        advice = "install it there, or beside the program that sends the manifest"
        message = f"the manifest needs the Python library {', '.join(missing)}, which this host lacks; {advice}"
        raise ManifestError([Problem(None, message, code="library")])


def _check_plan(plan: Plan) -> None:
    """Raise ``ManifestError``, before any change, for Python libraries that a plan's types need and this host lacks."""
    _check_libraries(jobs.libraries_of(step.entry.type for step in plan.steps))


def _apply(run: HostRun) -> int:
    """Apply the manifest, or the saved plan in the job's options, and return the exit code.

    A plan that this host cannot carry out ends the run before its first change.
    """
    if (document := run.options.get("saved_plan")) is not None:
        plan = saved_plan.SavedPlan(document, str(run.options["file"]), run.runtime.key, run.name)
        return run.report(run.runtime.apply_saved(plan, run.selected(*EXECUTION), _check_plan))
    return run.report(run.runtime.apply(run.manifest, run.inputs, on_plan=_check_plan, **run.selected(*RUN_OPTIONS)))


def _destroy(run: HostRun) -> int:
    """Delete the recorded resources, and return the exit code.

    If the user has confirmed the plan of an earlier job, a different plan is refused before any change.
    """
    confirmed = run.options.get("confirmed")

    def on_plan(plan: Plan) -> None:
        _check_plan(plan)
        if confirmed is not None:
            saved_plan.check_confirmation(confirmed, run.log.mask.document(plan.to_dict()), run.manifest.file)

    return run.report(run.runtime.destroy(run.manifest, run.inputs, on_plan=on_plan, **run.selected(*_DESTROYING)))


def _plan(run: HostRun) -> int:
    """Send the plan, or with the option ``empty`` that of ``destroy``; return 1 if it has failed steps or problems.

    ``save``: send a saved plan, which a later job applies.
    """
    if run.options.get("empty"):
        plan = run.runtime.plan_destroy(run.manifest, run.inputs, **run.selected(*_DESTROYING))
    else:
        plan = run.runtime.plan(run.manifest, run.inputs, **run.selected(*RUN_OPTIONS))
    _check_plan(plan)
    run.result(saved_plan.document(plan, run.runtime.key, host=run.name) if run.options.get("save") else plan.to_dict())
    for problem in plan.problems:
        run.emit(documents.line("diagnostic", documents.problem(problem)))
    return 1 if plan.summary.failed or plan.problems else 0


def _refresh(run: HostRun) -> int:
    """Read all recorded resources again, record their values unless the job has ``noop``, and send the differences."""
    run.began = not run.options.get("noop")  # the state may change from here on: an error is no refusal
    run.result(state_refresh.document(run))
    return 0


def _import(run: HostRun) -> int:
    """Record existing resources of the manifest in the state, so that they are managed; send the result.

    Return its exit code.
    """
    document = import_resources.import_document(run)
    run.result(document)
    return int(document["summary"]["exit_code"])


def _read(run: HostRun) -> int:
    """Send the document of a command that only reads, such as ``show``. Raise ``UsageError`` for another command."""
    name = " ".join(filter(None, (run.job.command, run.options.get("subcommand"))))
    if (read := commands.DOCUMENTS.get(name)) is None:
        raise UsageError(f"'{name}' cannot be asked of other hosts")
    run.result(read(run), reveal=bool(run.options.get("reveal")))
    return 0


def _resource(run: HostRun) -> int:
    """Carry out the command ``resource``: send the resources that a name and filters select.

    Where the job has changes, the one resource is changed before it is sent.
    """
    resources = resource_selection.find_resources(run)
    if resources.listed is not None:  # None after a failed change, whose events were sent
        run.result(resource_selection.documents(resources.listed))
    return resources.code


def _run(run: HostRun) -> int:
    """Run the program of the job (the command ``run``), and send its exit code and output; no lock is held.

    Return 1 if the program failed: the controller reads the program's own code from the document.
    """
    run.began = True  # nothing is known of the program: an error after its start is no refusal
    result = _run_program(run.options["words"], lambda: run.interrupts.came)
    run.result(result)
    return 1 if result["exit_code"] else 0


def _run_program(words: Sequence[str], interrupted: Callable[[], bool]) -> dict[str, Any]:
    """Run a program without input, until its end or an interrupt; return its exit code and the ends of its output.

    A single word is a line for ``sh``. The variables are those of the login. Raise ``InterruptedError``.
    """
    # Several words are a program and its arguments, which ``sh`` must not interpret: they are its ``$1``, ``$2``...,
    # and ``exec "$@"`` replaces ``sh`` by the program. The word "sh" is its name in messages.
    arguments = ("-c", *words) if len(words) == 1 else ("-c", 'exec "$@"', "sh", *words)

    def timeout() -> float:
        """Return the seconds to wait for output. Raise ``InterruptedError`` after an interrupt: it ends the program."""
        if interrupted():
            raise InterruptedError
        return _TICK

    sizes, ends = {process.STDOUT: 0, process.STDERR: 0}, {process.STDOUT: b"", process.STDERR: b""}
    with process.Process(child.Invocation(_SHELL, arguments, dict(os.environ), os.getcwd())) as program:
        for stream, chunk in program.chunks(timeout):
            sizes[stream] += len(chunk)
            ends[stream] = (ends[stream] + chunk)[-_STREAM_TAIL:]  # a program may print without limit
    code = program.exit_code or 0
    stdout, stderr = (_stream_text(ends[stream], sizes[stream]) for stream in (process.STDOUT, process.STDERR))
    return {"exit_code": code if code >= 0 else _SIGNALLED - code, "stdout": stdout, "stderr": stderr}


def _stream_text(end: bytes, size: int) -> str:
    """Return the end of a stream of ``size`` bytes as text, after the number of the bytes before it, if any."""
    text, dropped = end.decode("utf-8", "replace"), size - len(end)
    return f"… ({dropped} bytes before this)\n{text}" if dropped else text


def _agent(run: HostRun) -> int:
    """Send the status of this host's agent, and return its exit code: healthy, drifted or failing."""
    directory = run.options.get("directory") or f"{os.path.dirname(default_path(os.environ))}/agent"
    document = agent_status.status(str(directory), time.time())
    run.result(document)
    return int(document["code"])


_COMMANDS: Final[Mapping[str, Callable[[HostRun], int]]] = {
    "agent": _agent,
    "apply": _apply,
    "destroy": _destroy,
    "import": _import,
    "plan": _plan,
    "refresh": _refresh,
    "resource": _resource,
    "run": _run,
}


# State needs it, some Pythons lack it, and its import takes milliseconds: checked before the job, imported later.
if find_spec("_sqlite3") is None:
    raise ModuleNotFoundError("No module named 'sqlite3'", name="sqlite3")

_READ: Final = 64 * 1024
#: Characters of a text and members of a list or mapping in a document that is too large: fewer until it is not.
_CUT_LIMITS: Final = ((1000, 1000), (100, 100), (100, 10), (100, 1))


class Sender:
    """Sends documents until the channel breaks, then drops them."""

    def __init__(self, descriptor: int) -> None:
        """Send to the controller through ``descriptor``, a copy of the process's standard output.

        Standard output itself belongs to programs of the run from now on.
        """
        self._descriptor = descriptor
        #: Held by the thread that writes; a signal handler in the same thread may take it again.
        self._lock = threading.RLock()
        #: The frames to write. While one is written, a signal handler only adds its own.
        self._unsent: deque[bytes] = deque()
        self._writing = False
        #: Whether the controller has gone.
        self._closed = False

    def event(self, document: Mapping[str, object]) -> None:
        """Send a document of a run, such as the end of a step.

        The controller refuses documents above a limit: long parts are cut, more and more until the document fits.
        """
        raw = protocol.encode_plain("event", {"document": document})
        for limits in _CUT_LIMITS:
            if len(raw) <= jobs.MAX_EVENT:
                break
            cut = {name: _cut(value, *limits) for name, value in document.items()}
            raw = protocol.encode_plain("event", {"document": cut})
        self._send(raw)

    def result(self, document: Mapping[str, object]) -> None:
        """Send the document of a command that reads. Raise ``ResourceAPIError`` if it is larger than allowed.

        It is not cut as an event is, because a part of a plan or of the resources would be misleading.
        """
        raw = protocol.encode_plain("result", {"document": document})
        if len(raw) > jobs.MAX_RESULT:
            raise ResourceAPIError(f"the answer is larger than {jobs.MAX_RESULT >> 20} MiB; ask for less at once")
        self._send(raw)

    def end(self, code: int) -> None:
        """Send the exit code."""
        self._send(protocol.encode_plain("end", {"code": code}))

    def _send(self, frame: bytes) -> None:
        """Write a frame to the controller, never between the bytes of another frame.

        A signal handler that interrupts this loop in the same thread only queues its frame; the loop then writes it.
        """
        with self._lock:
            self._unsent.append(frame)
            if self._writing:
                return
            self._writing = True
            try:
                while self._unsent:
                    self._write(self._unsent.popleft())
            finally:
                self._writing = False

    def _write(self, frame: bytes) -> None:
        """Write the bytes of a frame; drop them after the end of the channel, as the run goes on without it."""
        unsent = memoryview(frame)
        while unsent and not self._closed:
            try:
                unsent = unsent[os.write(self._descriptor, unsent) :]
            except OSError:
                self._closed = True


def _cut(value: Any, characters: int, members: int) -> object:
    """Return JSON data without long parts, so that a document that is too large can be sent.

    A long text ends with its length; a list or mapping with many members becomes such a text.
    """
    if isinstance(value, (dict, list, tuple)):
        if len(value) > members:
            return _cut(json.dumps(value, ensure_ascii=False), characters, members)
        if isinstance(value, dict):
            return {key: _cut(member, characters, members) for key, member in value.items()}
        return [_cut(member, characters, members) for member in value]
    too_long = isinstance(value, str) and len(value) > characters
    return f"{value[:characters]}… ({len(value)} characters)" if too_long else value


def main(cache: str, archives: Sequence[str]) -> None:
    """Run the job on standard input and end this process with the command's exit code.

    ``cache``: the directory of unpacked archives; ``archives``: those of modules in it. Standard input and output carry
    only frames of the controller, so programs of the run get an empty input, and their output goes to standard error.
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
    if (first := next(frames, None)) is None:  # the controller has gone before it sent the job
        sys.exit(1)
    listener = threading.Thread(target=_await_interrupts, args=(frames,), daemon=True)
    job = jobs.decode(first)
    if job.traceparent is not None:
        os.environ["TRACEPARENT"] = job.traceparent
    # Interrupts are awaited as soon as there is a run that they can reach.
    code = execute(HostRun(job, sender, cache, archives), sender, cache, listener.start)
    sender.end(code)
    exit_despite_threads(code)  # begins a timer only
    sys.exit(code)


def execute(run: HostRun, sender: Sender, cache: str, listen: Callable[[], None]) -> int:
    """Run a job, send its events, and return the command's exit code.

    Each exception becomes a document with its reason and an exit code, which the controller needs to report the host.
    ``cache``: the directory whose free space is reported. ``listen`` is called as soon as interrupts can be handled.
    """
    try:
        with run.interrupts:
            listen()
            sender.event(hello(cache))
            return run.exit_code(run_job(run))
    except ManifestError as error:
        return _fail(run, error.problems, error.exit_code)
    except ResourceAPIError as error:
        message = error.with_options(_recovery_options(run.job)) if isinstance(error, StateDamaged) else str(error)
        return _fail(run, [Problem(error.attribute, message, code=diagnostic_code(error))], error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort
        problem, code = unexpected(error)
        return _fail(run, [problem._replace(hint="")], code)
    except BaseException as error:  # noqa: BLE001 - an interrupt, or an exit of a provider
        text = "interrupted" if run.interrupts.came else f"a provider ended the run: {reason(error)}"
        return _fail(run, [Problem(None, text, code="interrupted")], run.interrupts.exit_code)


def _recovery_options(job: HostJob) -> str:
    """Return the options of a command on the controller that select the state of this host."""
    pairs = ((f"--{name}", job.options.get(name)) for name in ("state", "key"))
    return command_options((("--on", job.host.get("name")), *pairs))


def hello(cache: str) -> dict[str, object]:
    """Return the first document of a host, which shows that a job begins and the environment in which it runs.

    It contains the versions of Python and of this package, the user id, and the free space on the disk of ``cache``.
    """
    free = os.statvfs(cache)
    fields = {"python": ".".join(map(str, sys.version_info[:3])), "version": __version__, "uid": os.geteuid()}
    return documents.line("hello", {**fields, "free_bytes": free.f_bavail * free.f_frsize})


def _frames(requests: int, decoder: protocol.Decoder) -> Iterator[protocol.Frame]:
    """Yield the frames that arrive, until the channel ends."""
    while data := os.read(requests, _READ):
        yield from decoder.feed(data)


def _await_interrupts(frames: Iterator[protocol.Frame]) -> None:
    """Turn each frame ``interrupt`` into a SIGINT, which the run in the main thread handles like one of a terminal.

    This thread ends with the channel.
    """
    with suppress(OSError, ValueError):
        for frame in frames:
            if frame.kind == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)


def _fail(run: HostRun, problems: Sequence[Problem], code: int) -> int:
    """Send the problems that ended a command, and return its exit ``code``.

    If nothing began that could change the host, they are sent as a refusal, and the controller reports the host as
    refused instead of failed. After the first step, or with the exit code of a run, they are sent as diagnostics.
    """
    rendered = [documents.problem(problem) for problem in problems]
    if not run.began and code in {*NOTHING_DONE, BUG}:
        run.emit(documents.line("refused", {"exit_code": code, "problems": rendered}))
    else:
        for problem in rendered:
            run.emit(documents.line("diagnostic", problem))
    return code


def use_installed_libraries() -> None:
    """Let types import libraries that are installed for this interpreter, unless other users can change them.

    The first program runs without ``site``, which would execute files of the host. So only the directories of libraries
    are added here, at the end of the search path, and files that ``site`` would execute are not read.
    """
    # Without ``site``, ``sys.prefix`` is not that of a virtual environment.
    environment = os.path.dirname(os.path.dirname(sys.executable))
    prefixes = [environment] if os.path.exists(f"{environment}/pyvenv.cfg") else None
    trust = CodeTrust()
    for directory in site.getsitepackages(prefixes):
        with suppress(OSError):
            if os.path.isdir(directory) and not trust.check_tree(directory):
                sys.path.append(directory)
