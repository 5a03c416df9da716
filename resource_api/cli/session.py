"""One call of a command: its settings, registry and runtime, and the exit code of its result or error."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import cached_property, wraps
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from resource_api.cli import console as consoles
from resource_api.cli import exit_codes, options, reporting, tracing
from resource_api.cli.command_inputs import CommandInputs, environment_inputs
from resource_api.cli.output import Output
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.document import MAX_BYTES, manifest_error
from resource_api.model.values.errors import (
    DefinitionError,
    ManifestError,
    Problem,
    ProviderError,
    ResourceAPIError,
    StateDamaged,
    StateNotEncrypted,
    UnknownType,
    UsageError,
    diagnostic_code,
    reason,
    unexpected,
)
from resource_api.model.values.reference import TYPE_NAME, capitalize_type
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext
from resource_api.render import describe
from resource_api.runtime.signals import Interrupts, exit_despite_threads
from resource_api.runtime.single_resource import ResourceReader
from resource_api.system.process import core_dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.declaration import Manifest
    from resource_api.model.options import Settings
    from resource_api.model.report import RunReport
    from resource_api.plugins.implementations import Suitability
    from resource_api.render.describe import Definition
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime

    D = TypeVar("D")
    Decorator = Callable[[Callable[..., int | None]], click.Command]

#: The variables that can name a receiver of traces.
_TRACES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


class Session:
    """One call of a command: the parts that all commands share, and the way from every error to an exit code."""

    def __init__(self, settings: Settings, *, runs: bool = False) -> None:
        """Use the parameters of a command by name, as click has parsed them.

        ``runs``: the command may change resources. Its JSON is then a stream of events, and it keeps its exit code
        whether its output and reports can be written or not.
        """
        self.settings = settings
        self._began = time()
        self._runs = runs
        #: The problems that have ended the command, for the document of reporters.
        self._problems: Sequence[Problem] = ()
        # With --on, JSON is a stream of the hosts' events; only ``resource`` prints one document of all hosts.
        hosted = bool(settings.get("on") or settings.get("rerun")) and "type_name" not in settings
        self.output = Output(settings, streams=runs or hosted)
        self.log = self.output.log
        self.log.mask.on_secret = self._protect_secret
        secret_options = ("given", "input_files", "key", "inputs_key", "config")
        # The options may contain secrets, which a core dump of this process would have, too.
        if any(map(settings.get, secret_options)) or any(environment_inputs()):
            core_dumps.forbid()
        # Only a run or a plan has a trace: the commands that have the option --report.
        is_traced = "reports" in settings and any(map(os.environ.get, _TRACES))
        #: The trace of the command, or None.
        self.tracing = tracing.tracing(os.environ) if is_traced else None
        targets = (*(settings.get("reports") or ()), *(settings.get("metrics") or ()))
        #: The reporters of ``--report`` and ``--metrics``, or None.
        self.reporting = reporting.Reporting(targets) if targets or self.tracing is not None else None
        # Types may stand beside a manifest; one on stdin has no directory.
        file = settings.get("manifest")
        module_path = ModulePath.resolve(settings.get("module_path") or (), None if file == "-" else file)
        self.registry = Registry(module_path, settings.get("trust_path") or ())
        self.inputs = CommandInputs(settings, self.registry.trust, self._warn_of_writers)
        self.run = RunContext(self.log)
        self.run.isolate = bool(settings.get("isolate")) or None  # None: as each provider declares it
        self.reader = ResourceReader(self.registry, self.run)
        self.interrupts = Interrupts(self.run, lambda: self._end_progress(wait=False))
        if not settings.get("quiet"):
            self.run.progress = lambda: self.console.progress

    @property
    def json(self) -> bool:
        """Whether the command writes JSON."""
        return self.output.json

    @cached_property
    def console(self) -> consoles.Console:
        """The results, problems and progress of the command, loaded with the first of them."""
        return consoles.Console(self.output, self.run, self.settings, self.registry.attributes_of, self._began)

    def _end_progress(self, *, wait: bool = True) -> None:
        """Erase the display of running calls, which only a loaded console can have; ``wait`` for its thread."""
        if "console" in self.__dict__:
            self.console.end_progress(wait=wait)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime, with this session's settings, state and events.

        It is imported at its first use, because commands that only read resources or types start faster without it.
        """
        from resource_api.runtime.runtime import Runtime, state_settings

        runtime = Runtime(
            self.registry,
            **state_settings(self.settings),
            on_event=self.console.receive,
            step_events=self.output.streams,
            run=self.run,
        )
        runtime.input_files = self.inputs.files
        if self.reporting is not None:
            runtime.on_document = self.set_document
        return runtime

    def source(self, manifest: str) -> Source:
        """Return the source that ``MANIFEST`` of the command line means: a path, or for ``-`` the manifest on stdin.

        Also warn of files of inputs that other users can change. A manifest on stdin has no file whose name could be
        that of the project: raise ``UsageError`` if neither it nor ``--project`` names one. Raise ``ManifestError``.
        """
        self.warn_of_inputs()
        if manifest != "-":
            return manifest
        source = self.stdin_manifest()
        if not (source.problems or source.has_project or self.settings.get("project")):
            option = ", or give --project NAME" if "project" in self.settings else ""
            raise UsageError(f"a manifest on standard input needs a project: write 'project: NAME' into it{option}")
        return source

    def warn_of_inputs(self) -> None:
        """Warn of files of inputs that other users can change."""
        for path in self.inputs.files:
            self._warn_of_writers(path)

    def _warn_of_writers(self, path: str) -> None:
        """Warn if other users can change a file of inputs: they control this command then, often as root."""
        if writers := self.registry.trust.who_can_change(path):
            problem = Problem(None, f"others can change these inputs: {writers}", "warning", file=path)
            self.console.emit_problem(problem._replace(code="untrusted_manifest"))

    def stdin_manifest(self) -> Manifest:
        """Return the manifest on stdin. Raise ``ManifestError``.

        The console keeps its text, which cannot be read again, for the source lines under problems.
        """
        from resource_api.manifest.read import STDIN, read_stdin

        try:
            # One byte more than allowed, so that a larger manifest is refused below.
            self.console.stdin = sys.stdin.buffer.read(MAX_BYTES + 1)
        except OSError as error:
            raise manifest_error(STDIN, (0, 0), "unreadable", f"cannot be read: {error.strerror}") from error
        return read_stdin(self.console.stdin)

    @property
    def use_cache(self) -> bool:
        """Whether the no-change cache may leave out resources in sync, of which neither JSON nor the log has lines."""
        return not (self.json or self.log.enabled("info") or self.settings.get("uncached"))

    def suitability(self, definition: Definition) -> Sequence[Suitability]:
        """Return the providers of a type, each with its suitability on this machine; () for a type with a single one.

        A broken type is a warning here, because a list goes on with the other types. The providers are loaded for it,
        which takes time: call it only for output that shows them.
        """
        name = definition.name
        try:
            return self.reader.suitability(name) if isinstance(definition, TypeDefinition) else ()
        except DefinitionError as error:
            self.log.write("warning", name, str(error), name)
            return ()

    def definitions(self, manifest: str | None = None) -> list[Definition]:
        """Return every type and component on the module path, sorted by name; warn of broken ones.

        With a ``manifest`` also the types of its Terraform providers.
        """
        definitions, broken = describe.types_list(self.registry)
        for name, error in broken.items():
            self.log.write("warning", name, error, name)
        with self.providers_of(manifest):
            return [*definitions, *self.registry.family_definitions()]

    @contextmanager
    def providers_of(self, manifest: str | None) -> Iterator[None]:
        """Add the types of a manifest's Terraform providers to the registry, so that a command can list or read them.

        Only the programs of the providers know these types, and run until the block ends. For None nothing is added.
        Raise ``ManifestError``.
        """
        if manifest is None:
            yield
            return
        with ProviderPool(self.registry, self.runtime.run) as providers:
            self.runtime.compiler.read(self.source(manifest), {}, providers)
            yield

    def find_definition(self, find: Callable[[str], D], type_name: str) -> D:
        """Return the definition that ``find`` returns for the name of a type, which the user may write as ``File``.

        Raise ``UsageError`` with advice for an unknown one.
        """
        name = type_name.lower()
        try:
            return find(name)
        except UnknownType as error:
            raise UsageError(_module_path_advice(name) or str(error)) from error

    def exit_code(self, report: RunReport) -> int:
        """Return the exit code of a run, by its outcome, the signals and ``--detailed-exitcodes``."""
        return exit_codes.of_run(report, self.interrupts, self.settings)

    def show_report(self, report: RunReport) -> int:
        """Print the summary of a run, unless its plan has been shown instead, and return its exit code."""
        code = self.exit_code(report)
        self.console.show_report(report, code, interrupted=self.interrupts.came)
        return code

    def set_document(self, document: Mapping[str, object]) -> None:
        """Set the document of the command's run or plan, which reporters, if there are any, receive at the end."""
        if self.reporting is not None:
            self.reporting.document = document

    def execute(self, command: Callable[[], int | None]) -> int:
        """Run a command, show the error that ends it, if any, and send the reports; return the exit code.

        Every exception has an exit code here, and reports are sent after a failure too.
        """
        try:
            code = self._interruptible(command)
        except ManifestError as error:
            problems = ManifestError(map(self.inputs.locate, error.problems)).problems
            code = self._fail(error, problems, error.exit_code)
        except ResourceAPIError as error:
            code = self._fail(error, [self._problem(error)], error.exit_code)
        except Exception as error:  # noqa: BLE001 - the last resort
            problem, code = unexpected(error)
            code = self._fail(error, [problem], code)
        except BaseException as error:  # noqa: BLE001 - a signal, or an exception that only a provider can have raised
            message = "interrupted" if self.interrupts.came else f"a provider ended the run: {reason(error)}"
            code = self._fail(error, [Problem(None, message, code="interrupted")], self.interrupts.exit_code)
            if self._runs and not self.json:
                self.console.show_empty_report()
        code = self._report(code)
        self.output.flush()
        if self.output.write_error:
            # A run keeps its exit code, whether its output can be written or not.
            severity = "warning" if self._runs else "error"
            self.output.problem(Problem(None, f"cannot write: {self.output.write_error}", severity=severity))
            code = code if self._runs else code or 1
        # Threads that a provider has left running must not keep this process from its end.
        exit_despite_threads(code)
        return code

    def _interruptible(self, command: Callable[[], int | None]) -> int:
        """Run a command, which a signal ends in an orderly way, and return its exit code.

        First raise ``UsageError`` if a report would replace a file that the command reads, such as its manifest.
        """
        with self.interrupts:
            try:
                if self.reporting is not None:
                    self.reporting.check((self.settings["manifest"], *(self.settings.get("input_files") or ())))
                return command() or 0
            finally:
                self._end_progress()

    def _problem(self, error: ResourceAPIError) -> Problem:
        """Return the problem that shows an error to the user.

        The error of a damaged or unencrypted state advises a command, which gets the options ``--state`` and ``--key``
        of this one. The error of a provider has its position in the manifest.
        """
        message = str(error)
        if isinstance(error, (StateDamaged, StateNotEncrypted)):
            message = error.with_options(self._store_options())
        problem = Problem(error.attribute, message, code=diagnostic_code(error))
        if isinstance(error, ProviderError):
            file, line, column = error.position
            problem = problem._replace(file=file, line=line, column=column)
        return problem

    def _fail(self, error: BaseException, problems: Sequence[Problem], code: int) -> int:
        """Show the problems that end the command, end its JSON, and return the exit ``code``.

        ``error``: the exception that they are made of. If it is unexpected, ``--debug`` shows its traceback. If it is
        the error of a type's definition, the source line under a problem is from the type's file.
        """
        self._problems = problems
        if self.settings.get("debug") and not isinstance(error, ResourceAPIError):
            import traceback

            self.output.error_text("".join(traceback.format_exception(error)).rstrip("\n"))
        for problem in problems:
            self.console.emit_problem(problem, error)
        if self.json:
            self.console.end_json(problems, code)
        return code

    def _store_options(self) -> str:
        """Return ``--state`` and ``--key`` of this command, for the text of an error that advises another command.

        Without them the user, who copies that command, would access another state.
        """
        from resource_api.state.open_store import command_options

        url, store_key = self.settings.get("state"), self.settings.get("key")
        return command_options((("--state", url), ("--key", store_key.url if store_key is not None else None)))

    def _report(self, code: int) -> int:
        """Send the document to the reporters, and the trace to its receiver; return the exit code.

        If a reporter fails, a run keeps its code, which is about the machine; any other successful command gets 1.
        """
        if self.reporting is None:
            return code
        failed = list(self.reporting.send(lambda: self._failure_document(code)))
        for problem in failed:
            self.output.problem(problem)
        if self.tracing is not None and not self.reporting.detached:
            document = self.reporting.document or self._failure_document(code)
            if text := self.tracing.send(document, self._began, code, self.log.mask):
                self.output.problem(Problem(None, text, severity="warning"))
        return code if self._runs or not failed else code or 1

    def _failure_document(self, code: int) -> Mapping[str, object]:
        """Return a document, without secrets, for the reporters of a command that failed before it had one."""
        command = click.get_current_context().info_name or ""
        document = reporting.failure_document(self.settings, command, self._began, code, self._problems)
        masked: Mapping[str, object] = self.log.mask.document(document)
        return masked

    def _protect_secret(self, secret: str, declared: bool) -> None:  # noqa: FBT001 - as the mask calls it
        """Keep a new secret out of core dumps and child processes' output; ``declared``: the value of an input."""
        core_dumps.forbid()
        self.output.mask_descriptors(secret, declared=declared)


def with_session(function: Callable[..., int | None], *, runs: bool = False) -> Callable[..., int]:
    """Return a function that click calls with a command's parameters: it calls ``function`` with a new ``Session``.

    The session shows the errors of ``function`` and returns the exit code. ``runs``: the command may change resources.
    """

    @wraps(function)
    def in_session(**settings: object) -> int:
        # A plan that is only saved, with --out, is no run.
        session = Session(settings, runs=runs and settings.get("out") is None)
        return session.execute(lambda: function(session, **settings))

    return in_session


def command(name: str | None = None, *, runs: bool = False, **settings: Any) -> Decorator:
    """Return a decorator that makes a function a command with a session and the common options."""
    return lambda function: options.command(name, **settings)(options.common(with_session(function, runs=runs)))


def subcommand(group: click.Group, name: str, **settings: Any) -> Decorator:
    """Return a decorator that makes a function a command of a group, with a session and the common options."""
    return lambda function: group.command(name, **settings)(options.common(with_session(function)))


def _module_path_advice(name: str) -> str:
    """Return the message that an unknown type is in the working directory, off the module path; or ""."""
    for file in (f"types/{name}.py", f"components/{name}.py"):
        if TYPE_NAME.match(name) and os.path.exists(file):
            advice = f"{file} is here, but this directory is not on the module path; give --module-path ."
            return f"unknown type '{capitalize_type(name)}'; {advice}"
    return ""
