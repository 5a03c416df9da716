"""The results, problems and progress of one command, for people or as JSON; ``output`` has its streams."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.cli import progress, source_lines
from resource_api.manifest.sections import MAPPING
from resource_api.model.report import Diagnosed, RunReport, Summary
from resource_api.model.values.errors import DefinitionError, Problem
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from resource_api.render import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from resource_api.cli.output import Output
    from resource_api.model.attribute import AttributeSet
    from resource_api.model.json_documents import ProblemJson
    from resource_api.model.options import Settings
    from resource_api.model.report import Event
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import RunContext

#: The number of log lines after the first failure from which on the end of a run names the failures again.
_RECAP: Final = 20


class Console:
    """Shows the results, problems and progress of one command by its streams."""

    def __init__(
        self,
        output: Output,
        run: RunContext,
        settings: Settings,
        attributes_of: Callable[[str], AttributeSet | None],
        began: float,
    ) -> None:
        """Write to ``output``. ``attributes_of`` returns a type's attributes: a source line of a secret is not shown.

        ``began``: when the command began (seconds since the epoch).
        """
        self._output = output
        self._run = run
        self._settings = settings
        self._attributes_of = attributes_of
        #: When the manifest was read (seconds since the epoch): no line of a file that changed later is shown.
        self.source_time = began
        #: The content of standard input, if it was read.
        self.stdin = b""
        self._warnings: list[Problem] = []

    def show(
        self,
        document: Callable[[], object],
        lines: Callable[[], str | Iterable[str]],
        empty: Callable[[], str] | str = "",
    ) -> None:
        """Print the result of a command: with ``--json`` the ``document``, otherwise the ``lines``.

        Only the printed form is made. ``empty``: the notice on a terminal for a list without lines.
        """
        if self._output.json:
            self._output.print_json(document())
            return
        result = lines()
        printed = result if isinstance(result, str) else list(result)
        self._output.print(printed)
        if empty and not printed and self._output.stdout.isatty():
            self._output.log.write("notice", "", empty if isinstance(empty, str) else empty())

    def plan_lines(self, plan: ExecutionPlan) -> Iterable[str]:
        """Return the text of a plan; with ``--explain`` only of its named resources, with the reasons of each step."""
        if references := self._settings.get("explain"):
            return plan_text.explanation_lines(plan, references, self._output.style)
        return plan_text.lines(plan, self._output.style, verbose=self._settings.get("verbose", False))

    def show_noop(self, plan: ExecutionPlan) -> None:
        """Print the plan of a noop run as text, in place of its log and summary; with ``--json`` its events suffice."""
        if not self._output.json:
            self._run.plan_is_shown = True
            self._output.print(self.plan_lines(plan))
            self.log_plan_errors(plan)

    def log_plan_errors(self, plan: ExecutionPlan) -> None:
        """Log the resources that cannot be planned, with their errors.

        Nothing is logged if the user sees the same errors in the printed plan on the same terminal.
        """
        for step in plan.steps:
            if step.decision.error and (self._output.json or not self._output.on_one_terminal):
                reference, name = str(step.reference), step.definition.name
                message = step.entry.declaration.located(step.decision.error)
                self._output.log.write("err", reference, message, name, step.log_fields, status="failed")

    def show_report(self, report: RunReport, code: int, *, interrupted: bool) -> None:
        """Print the summary of a run, and above it once more the failures that a long log has scrolled off the screen.

        A noop run has shown its plan, which ends with a summary of its own; it gets this one only if ``interrupted``.
        """
        if self._output.json:
            self._output.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        elif not self._run.plan_is_shown or interrupted:
            if self._output.lines_after_failure >= _RECAP and not self._settings.get("quiet"):
                self._output.print(text.repeated_failures(report, self._output.style))
            self._output.print(str(report))

    def show_empty_report(self) -> None:
        """Print the summary of a run that ended before it had one."""
        self._output.print(text.report(RunReport((), self._empty_summary(), 0)))

    def _empty_summary(self) -> Summary:
        """Return the counts of a run that did nothing."""
        return Summary(noop=bool(self._settings.get("noop")))

    def show_problem(self, problem: Problem, cause: BaseException | None = None) -> None:
        """Write a problem to stderr, and below it the line of the file with the mistake, unless the output is JSON.

        If the ``cause`` is the error of a type's definition, that line is in the type's file. The corrected line
        ``problem.paste`` may repeat a secret of the line, so the hint has it only where the line itself is shown.
        """
        located = problem
        if isinstance(cause, DefinitionError):
            file, line, column = cause.position
            located = problem._replace(file=file, line=line, column=column)
        has_position = located.line or located.attribute is not None
        for_people = not self._output.json and self._settings.get("log_format") != "json"
        source = self.source_lines.under(located) if has_position and for_people else ()
        if source and problem.paste:
            problem = problem._replace(hint="; ".join(filter(None, [problem.hint, f"write {problem.paste}"])))
        if problem.file == MAPPING:
            # The manifest is a mapping that a command has made of its arguments: there is no file to open.
            problem = problem._replace(file="", line=0, column=0)
        self._output.problem(problem, source)

    def emit_problem(self, problem: Problem, cause: BaseException | None = None) -> None:
        """Write a problem to stderr as ``show_problem`` does, and as an event to JSON that is a stream of events.

        JSON that is one document has its problems at the end of the command.
        """
        if self._output.streams:
            self._output.emit(documents.line("diagnostic", documents.problem(problem)))
        self.show_problem(problem, cause)

    @cached_property
    def source_lines(self) -> source_lines.SourceLines:
        """The lines of files that problems are about, loaded with the first problem that has a position."""
        return source_lines.SourceLines(
            self._settings, self._attributes_of, self._output.log, self.source_time, self.stdin
        )

    def end_json(self, problems: Sequence[Problem], code: int) -> None:
        """End the JSON of a failed command, so that programs that read it see the failure and the exit code.

        A stream of events ends with a summary, since its problems were events. Otherwise one document has the problems.
        """
        if self._output.streams:
            self._output.emit(documents.line("summary", documents.summary(self._empty_summary(), code)))
        else:
            diagnostics = [documents.problem(problem) for problem in problems]
            self._output.print_json({"diagnostics": diagnostics, "exit_code": code})

    def end_failed(self, report: RunReport, code: int) -> None:
        """With ``--json``, write the only document of ``resource`` after a failed change: the errors of its resources.

        As text nothing is printed, because the log has shown these errors.
        """
        if self._output.json:
            failed = [step for step in report.steps if step.error]
            problems = [Problem(None, step.error, reference=step.reference, code="resource") for step in failed]
            self.end_json(problems, code)

    def receive(self, event: Event) -> None:
        """Receive an event of the runtime: write it to the JSON of a run, which is a stream of events.

        A warning is also shown to the user, and kept for the document of ``validate``.
        """
        if isinstance(event, Diagnosed):
            self._warnings.append(event.problem)
            self.show_problem(event.problem)
        if self._output.streams and (document := documents.event_line(event)) is not None:
            self._output.emit(document)

    def warnings(self) -> list[ProblemJson]:
        """Return the diagnostics of the warnings that were shown about the manifest and its resources."""
        return list(map(documents.problem, self._warnings))

    @cached_property
    def progress(self) -> progress.ProgressDisplay:
        """The display of the running calls of a run, loaded with the first of them."""
        lines = None if self._output.streams else self._output.live_lines()
        return progress.ProgressDisplay(lines, self._output.log.mask)

    def end_progress(self, *, wait: bool = True) -> None:
        """Erase the display of running calls, if any, before other output ends up in it.

        ``wait``: until the thread that draws has ended; not in a signal handler, which must not wait.
        """
        if "progress" not in self.__dict__:
            return
        if wait:
            self.progress.close()
        else:
            self.progress.erase()
