"""One call of a command: its registry and runtime, its output, and the exit code of whatever ends it.

What the commands do is in ``commands/``.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import cached_property, wraps
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.cli import options
from resource_api.cli.given_inputs import environment_inputs
from resource_api.cli.given_inputs import files as files_of_inputs
from resource_api.cli.output import Output
from resource_api.model.event import Diagnosed
from resource_api.model.values.errors import (
    DefinitionError,
    ManifestError,
    Problem,
    ResourceAPIError,
    StateDamaged,
    UnknownType,
    UsageError,
    diagnostic_code,
    reason,
    unexpected,
)
from resource_api.model.values.reference import TYPE_NAME, capitalize_type
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext
from resource_api.runtime.resource_access import ResourceReader
from resource_api.runtime.signals import Interrupts, exit_despite_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.cli.progress import ProgressDisplay
    from resource_api.cli.source_lines import SourceLines
    from resource_api.model.declaration import Manifest
    from resource_api.model.event import Event
    from resource_api.model.report import Report, Summary
    from resource_api.plan.planner import Plan
    from resource_api.plugins.implementations import Suitability
    from resource_api.render.describe import Definition
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.reporters import Target
    from resource_api.runtime.runtime import Runtime

    D = TypeVar("D")


#: From so many lines of the log after the first failure on, a recap names the failures.
_RECAP: Final = 20


class Session:
    """One call of a command."""

    def __init__(self, settings: Mapping[str, Any], *, runs: bool = False) -> None:
        """Use the parameters of a command by name; ``runs``: it may change resources, and streams its JSON."""
        self.settings = settings
        self.json = bool(settings.get("json"))
        self._began = time()
        #: When the manifest was read (seconds since the epoch): of a file that changed later no line is shown.
        self.source_time = self._began
        self._runs = runs
        self._streams = runs and self.json
        #: Where the document of the run goes, see ``reporters``; the document, as soon as there is one; why it failed.
        self._targets: Sequence[Target] = (*(settings.get("reports") or ()), *(settings.get("metrics") or ()))
        self._document: Mapping[str, Any] | None = None
        self._problems: Sequence[Problem] = ()
        #: The warnings that have been shown about the manifest and its resources.
        self._warnings: list[Problem] = []
        #: What has been read from standard input.
        self._stdin = b""
        self.output = Output(settings, stream=self._streams)
        self.log = self.output.log
        self.log.mask.on_secret = self._on_secret
        if any(settings.get(option) for option in ("given", "input_files", "key", "config")) or any(
            environment_inputs()
        ):
            _forbid_core_dumps()
        file = settings.get("manifest")
        module_path = ModulePath.resolve(settings.get("module_path") or (), None if file == "-" else file)
        self.registry = Registry(module_path, settings.get("trust_path") or ())
        self.run = RunContext(self.log)
        self.run.isolate = bool(settings.get("isolate")) or None
        self.reader = ResourceReader(self.registry, self.run)
        self.interrupts = Interrupts(self.run, self._erase_progress)
        if not settings.get("quiet"):
            self.run.progress = lambda: self._progress

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime, made at its first use: commands that only read resources or types do not import it."""
        from resource_api.runtime.runtime import Runtime, state_settings

        runtime = Runtime(
            self.registry,
            **state_settings(self.settings),
            on_event=self._on_event,
            step_events=self._streams,
            run=self.run,
        )
        runtime.input_files = list(files_of_inputs(self.settings))
        if self._targets:
            runtime.on_document = self.reported
        return runtime

    @cached_property
    def _progress(self) -> ProgressDisplay:
        """What shows the running calls of a run; made with the first of them."""
        from resource_api.cli.progress import ProgressDisplay

        return ProgressDisplay(None if self._streams else self.output.live_lines(), self.log.mask)

    def _erase_progress(self) -> None:
        if "_progress" in self.__dict__:
            self._progress.erase()

    @contextmanager
    def _progress_closed(self) -> Iterator[None]:
        """End what shows the running calls when the block ends."""
        try:
            yield
        finally:
            if "_progress" in self.__dict__:
                self._progress.close()

    def source(self, manifest: str) -> Source:
        """Return what ``MANIFEST`` of the command line means: the path of a file, or for ``-`` what stdin holds.

        Raise ``ManifestError`` for what stdin holds, ``UsageError`` where neither it nor an option names the project.
        """
        self.warn_of_inputs()
        if manifest != "-":
            return manifest
        found = self.stdin_manifest()
        if not (found.problems or found.project_given or self.settings.get("project")):
            option = ", or give --project NAME" if "project" in self.settings else ""
            msg = f"a manifest on standard input needs a project: write 'project: NAME' into it{option}"
            raise UsageError(msg)
        return found

    def warn_of_inputs(self) -> None:
        """Warn of files of inputs that others can change."""
        for path in files_of_inputs(self.settings):
            if why := self.registry.trust.who_can_change(path):
                problem = Problem(None, f"others can change these inputs: {why}", "warning", file=path)
                self.announce(problem._replace(code="untrusted_manifest"))

    def stdin_manifest(self) -> Manifest:
        """Return the manifest on stdin. Raise ``ManifestError``."""
        from resource_api.manifest.read import STDIN, read_stdin
        from resource_api.model.values.document import MAX_BYTES, manifest_error

        try:
            self._stdin = sys.stdin.buffer.read(MAX_BYTES + 1)
        except OSError as error:
            raise manifest_error(STDIN, (0, 0), "unreadable", f"cannot be read: {error.strerror}") from error
        return read_stdin(self._stdin)

    @property
    def use_cache(self) -> bool:
        """Whether unchanged resources may be left out: neither JSON nor log lines are about them."""
        return not (self.json or self.log.enabled("info") or self.settings.get("uncached"))

    def suitability(self, type_name: str) -> Sequence[Suitability]:
        """Return for each of several providers of a type whether it is suitable here; empty if it has one, or none."""
        try:
            return self.reader.suitability(type_name)
        except DefinitionError as error:
            self.log.write("warning", type_name, str(error), type_name)
            return ()

    def carried(self, command: str, manifest: str | None = None, **special: Any) -> int | None:
        """Carry out a command that is for other hosts, and return the exit code; None: it is for this machine.

        The arguments are those of ``on_hosts.command.carry``.
        """
        if not options.is_hosted(self.settings):
            return None
        from resource_api.cli.hosted_run import carry

        return carry(self, command, manifest, **special)

    def definitions(self) -> list[Definition]:
        """Return every type and component on the module path, sorted by name; that one is broken is a warning."""
        from resource_api.render.describe import types_list

        found, broken = types_list(self.registry)
        for name, why in broken.items():
            self.log.write("warning", name, why, name)
        return found

    def find_definition(self, find: Callable[[str], D], type_name: str) -> D:
        """Return what ``find`` has for a type's name on the command line. Raise ``UsageError`` for an unknown one."""
        name = type_name.lower()
        try:
            return find(name)
        except UnknownType as error:
            raise UsageError(_not_on_the_module_path(name) or str(error)) from error

    def report_problem(self, problem: Problem, cause: ResourceAPIError | None = None) -> None:
        """Write a problem to stderr, with its source line under it where the output is for people.

        The line is the problem's own, or that of a definition's file which is its ``cause``.
        """
        from resource_api.manifest.sections import MAPPING

        located = problem
        if isinstance(cause, DefinitionError):
            file, line, column = cause.place
            located = problem._replace(file=file, line=line, column=column)
        placed = located.line or located.attribute is not None
        shown = placed and not self.json and self.settings.get("log_format") != "json"
        source = self._source_lines.under(located) if shown else ()
        if source and problem.paste:
            problem = problem._replace(hint="; ".join(filter(None, [problem.hint, f"write {problem.paste}"])))
        if problem.file == MAPPING:
            # A command has made it of its arguments: it is no file that anybody could open.
            problem = problem._replace(file="", line=0, column=0)
        self.output.problem(problem, source)

    @cached_property
    def _source_lines(self) -> SourceLines:
        from resource_api.cli.source_lines import SourceLines

        return SourceLines(self.settings, self.registry.attributes_of, self.log, self.source_time, self._stdin)

    def show(self, document: Callable[[], Any], lines: Callable[[], str | Iterable[str]]) -> None:
        """Print the result of a command: what ``document`` returns with ``--json``, what ``lines`` returns without."""
        if self.json:
            self.output.print_json(document())
        else:
            self.output.print(lines())

    def show_list(self, document: Callable[[], Any], lines: Callable[[], Iterable[str]], empty: str) -> None:
        """Print a list as ``show`` does; of one without lines, people at a terminal are told what is ``empty``."""
        if self.json:
            self.output.print_json(document())
            return
        shown = list(lines())
        self.output.print(shown)
        if not shown and self.output.stdout.isatty():
            self.log.write("notice", "", empty)

    def plan_lines(self, planned: Plan) -> Iterable[str]:
        """Return the text of a plan; with ``--explain`` of the resources that it names, and why they are in it."""
        if explained := self.settings.get("explain"):
            from resource_api.render import explain

            return explain.lines(planned, explained, self.output.style)
        from resource_api.render import plan

        return plan.lines(planned, self.output.style, verbose=self.settings.get("verbose", False))

    def show_noop(self, planned: Plan) -> None:
        """Print the plan of a noop run, which is all that it says on stdout; with ``--json`` its events do."""
        if not self.json:
            self.run.plan_is_shown = True
            self.output.print(self.plan_lines(planned))
            self.log_plan_errors(planned)

    def log_plan_errors(self, planned: Plan) -> None:
        """Log which resources cannot be planned, unless people have seen that in the plan, where they see the log."""
        for step in planned.steps:
            if step.decision.error and (self.json or not self.output.on_one_terminal):
                reference, name = str(step.reference), step.definition.name
                text = step.entry.declaration.place().after(step.decision.error)
                self.log.write("err", reference, text, name, step.log_fields, status="failed")

    def show_report(self, report: Report) -> int:
        """Print the summary of a run and return its exit code."""
        code = self.exit_code(report)
        if self.json:
            from resource_api.render import json as documents

            self.output.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        elif not self.run.plan_is_shown or self.interrupts.came:
            if self.output.lines_after_failure >= _RECAP and not self.settings.get("quiet"):
                from resource_api.render.text import repeated_failures

                self.output.print(repeated_failures(report, self.output.style))
            self.output.print(str(report))
        return code

    def end_failed(self, report: Report, code: int) -> None:
        """With ``--json``, write the only document of a command whose change has failed; the log has the reasons."""
        if self.json:
            failed = [step for step in report.steps if step.error]
            problems = [Problem(None, step.error, reference=step.reference, code="resource") for step in failed]
            self._end_json(problems, code)

    def exit_code(self, report: Report) -> int:
        """Return the documented code of a run."""
        from resource_api.cli import exit_codes

        return exit_codes.of_run(report, self.interrupts, self.settings)

    def execute(self, command: Callable[[], int | None]) -> int:
        """Run a command and return its exit code, 0 for None; every error is shown and becomes a documented code."""
        try:
            with self.interrupts, self._progress_closed():
                self._check_targets()
                code = command() or 0
        except ManifestError as error:
            code = self._fail(ManifestError(map(self._source_lines.locate, error.problems)).problems, error.exit_code)
        except ResourceAPIError as error:
            text = error.with_options(self._store_options()) if isinstance(error, StateDamaged) else str(error)
            problem = Problem(error.attribute, text, code=diagnostic_code(error))
            code = self._fail([problem], error.exit_code, cause=error)
        except Exception as error:  # noqa: BLE001 - the last resort
            problem, code = unexpected(error)
            code = self._fail([problem], code, error)
        except BaseException as error:  # noqa: BLE001 - a signal, or what only a provider can have raised
            text = "interrupted" if self.interrupts.came else f"a provider ended the run: {reason(error)}"
            code = self._fail([Problem(None, text, code="interrupted")], self.interrupts.exit_code, error)
            self._print_empty_report(code)
        code = self._report(code)
        self.output.flush()
        if self.output.write_error:
            # A run keeps its exit code, whether its output can be written or not.
            severity = "warning" if self._runs else "error"
            self.output.problem(Problem(None, f"cannot write: {self.output.write_error}", severity=severity))
            code = code if self._runs else code or 1
        exit_despite_threads(code)
        return code

    def _store_options(self) -> str:
        """Return the options of this call that select the store, as they are written after a command."""
        from shlex import quote

        url, key = self.settings.get("state"), self.settings.get("key")
        given = (("--state", url), ("--key", key.url if key is not None else None))
        return "".join(f" {option} {quote(value)}" for option, value in given if value)

    def reported(self, document: Mapping[str, Any]) -> None:
        """Keep the document of what this command has done, for the reporters."""
        self._document = document

    @property
    def has_reporters(self) -> bool:
        """Whether a document of what this command does is wanted."""
        return bool(self._targets)

    def take_targets(self) -> Sequence[Target]:
        """Return the targets of reports, to which this session reports nothing from now on."""
        targets, self._targets = self._targets, ()
        return targets

    def _check_targets(self) -> None:
        if self._targets:
            from resource_api.runtime import reporters

            # What is wrong with a target is not reported to it.
            targets = self.take_targets()
            reporters.check(targets, (self.settings["manifest"], *(self.settings.get("input_files") or ())))
            self._targets = targets

    def _report(self, code: int) -> int:
        """Give the document to the reporters; return the exit code, which a run keeps if one of them fails."""
        for target in self._targets:
            try:
                target.reporter(self._document or self._failure_document(code))
            except Exception as error:  # noqa: BLE001 - a reporter of others may raise anything
                why = error.strerror if isinstance(error, OSError) and error.strerror else reason(error)
                self.output.problem(Problem(None, f"no report to {target.text}: {why}"))
                code = code if self._runs else code or 1
        return code

    def _failure_document(self, code: int) -> dict[str, Any]:
        """Return the document of a run that was ended before there was one."""
        from resource_api.render import json as documents
        from resource_api.render import run_document

        settings = self.settings
        run = {"project": settings.get("project"), "stack": settings.get("stack"), "run": "", "command": self._command}
        summary = {**self._empty_summary()._asdict(), "exit_code": code}
        found = run_document.history_document({**run, "started": self._began, "ended": time(), "summary": summary})
        problems = list(map(documents.problem, self._problems))
        masked: dict[str, Any] = self.log.mask.document({**found, "problems": problems})
        return masked

    @property
    def _command(self) -> str:
        import click

        return click.get_current_context().info_name or ""

    def _fail(
        self,
        problems: Sequence[Problem],
        code: int,
        error: BaseException | None = None,
        cause: ResourceAPIError | None = None,
    ) -> int:
        self._problems = problems
        if error is not None and self.settings.get("debug"):
            import traceback

            self.output.error_text("".join(traceback.format_exception(error)).rstrip("\n"))
        for problem in problems:
            self.announce(problem, cause)
        if self.json:
            self._end_json(problems, code)
        return code

    def announce(self, problem: Problem, cause: ResourceAPIError | None = None) -> None:
        """Write a problem to stderr as ``report_problem`` does, and to the JSON of a run."""
        if self._streams:
            from resource_api.render import json as documents

            self.output.emit(documents.line("diagnostic", documents.problem(problem)))
        self.report_problem(problem, cause)

    def _end_json(self, problems: Sequence[Problem], code: int) -> None:
        """Write the last line of a stream, or the only document of a command that has failed."""
        from resource_api.render import json as documents

        if self._streams:
            self.output.emit(documents.line("summary", documents.summary(self._empty_summary(), code)))
        else:
            diagnostics = [documents.problem(problem) for problem in problems]
            self.output.print_json({"diagnostics": diagnostics, "exit_code": code})

    def warnings(self) -> list[dict[str, Any]]:
        """Return the diagnostics of the warnings that have been shown about the manifest and its resources."""
        from resource_api.render import json as documents

        return list(map(documents.problem, self._warnings))

    def _print_empty_report(self, code: int) -> None:
        """Print the summary of a run that was ended before it had one."""
        if self._runs and not self.json:
            from resource_api.model.report import Report
            from resource_api.render.text import report

            self.output.print(report(Report((), self._empty_summary(), code)))

    def _empty_summary(self) -> Summary:
        from resource_api.model.report import Summary

        return Summary(noop=bool(self.settings.get("noop")))

    def _on_secret(self, secret: str, declared: bool) -> None:  # noqa: FBT001 - as the mask calls it
        _forbid_core_dumps()
        self.output.mask_descriptors(secret, declared=declared)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Diagnosed):
            self._warnings.append(event.problem)
            self.report_problem(event.problem)
        if self._streams:
            from resource_api.render import json as documents

            if (document := documents.event_line(event)) is not None:
                self.output.emit(document)


def with_session(*, runs: bool = False) -> Callable[[Callable[..., int | None]], Callable[..., int]]:
    """Return a decorator that gives a command's function a ``Session`` as its first argument, and its exit code.

    ``runs``: the command may change resources.
    """

    def decorate(function: Callable[..., int | None]) -> Callable[..., int]:
        @wraps(function)
        def command(**settings: Any) -> int:
            # What is only planned, to be saved, is no run.
            session = Session(settings, runs=runs and settings.get("out") is None)
            return session.execute(lambda: function(session, **settings))

        return command

    return decorate


def _forbid_core_dumps() -> None:
    from resource_api.system.process import core_dumps

    core_dumps.forbid()


def _not_on_the_module_path(name: str) -> str:
    """Return a message about an unknown type or component that the working directory has; empty if it has none."""
    kinds = ("types", "components") if TYPE_NAME.match(name) else ()
    found = next((file for kind in kinds if os.path.exists(file := f"{kind}/{name}.py")), "")
    where = f"{found} is here, but this directory is not on the module path; give --module-path ."
    return f"unknown type '{capitalize_type(name)}'; {where}" if found else ""
