"""What every subcommand shares: the registry, the runtime, the streams, and how errors end a command.

Log lines go to stderr, what the command is for goes to stdout. What a provider prints goes to stderr too, masked and
escaped, what its children print as it is. A closed pipe or a full log never stops a run. What the commands do is
theirs.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from resource_api.cli.signals import Interrupts, leave_in_time
from resource_api.model.event import Diagnosed
from resource_api.model.values.errors import (
    DefinitionError,
    ManifestError,
    Problem,
    ResourceAPIError,
    UsageError,
    reason,
)
from resource_api.model.values.text import escape, escape_lines
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, current
from resource_api.render import json as documents
from resource_api.runtime.resource_reader import ResourceReader
from resource_api.system.log import Line, Log, console, json_lines, line_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.event import Event
    from resource_api.model.report import Report, Summary
    from resource_api.runtime.runtime import Runtime

    D = TypeVar("D")


#: The codes of problems whose message may have several lines of ours.
_LISTING: Final = frozenset({"definition", "provider", "resource", "type"})


class Session:
    """One call of a subcommand."""

    def __init__(self, settings: Mapping[str, Any], *, manifest: str | None = None, stream: bool = False) -> None:
        """Take the options that the subcommand was given; ``stream``: a run, with ``--json`` one object per line."""
        self.settings = settings
        self.json = bool(settings.get("json"))
        self.stream = stream and self.json
        #: A run is worth its exit code whether anybody can be told of it or not; what only tells is not.
        self._runs = stream
        self._unwritten = ""
        _complete_streams()
        self.err: TextIO = sys.stderr
        self.out = _private_stdout(by_line=self.stream)
        #: Events come from the run, log lines from any thread of a provider.
        self._writing = RLock()
        self.color = _colored(settings.get("color", "auto"), self.out)
        self.log = _log(settings, self.err)
        sys.stdout, sys.stderr = line_stream(self._printed, 1), line_stream(self._printed, 2)
        if self.stream:
            self.log.sinks.append(lambda line: self.emit(documents.log(line)))
        self.registry = Registry(ModulePath(_places(settings.get("module_path") or (), manifest)))
        self.run = RunContext(self.log)
        self.run.isolate = bool(settings.get("isolate"))
        self.reader = ResourceReader(self.registry, self.run)
        self.interrupts = Interrupts(self.run)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime, made when first asked for: looking at types and resources needs nothing that plans."""
        from resource_api.runtime.runtime import Runtime  # noqa: PLC0415 - see above
        from resource_api.state.store import NoStore  # noqa: PLC0415 - see above

        settings = self.settings
        return Runtime(
            self.registry,
            state=NoStore() if settings.get("state") == "memory:" else settings.get("state"),
            stack=settings.get("stack") or "default",
            project=settings.get("project"),
            key=settings.get("key"),
            lock_timeout=settings.get("lock_timeout") or 0.0,
            on_event=self._told if self.stream else self._diagnosed,
            step_events=self.stream,
            run=self.run,
        )

    def exit_code(self, report: Report, *, detailed: bool) -> int:
        """Give the documented code: 0, 1, or with details 0, 2, 4, 6; 130 and 143 after a signal."""
        if self.interrupts.came:
            return self.interrupts.exit_code
        if not detailed or report.exit_code not in {0, 1}:
            return report.exit_code
        return (2 if report.summary.changed else 0) + (4 if report.exit_code else 0)

    @property
    def use_cache(self) -> bool:
        """Whether nobody asks for what is in order: not even its place in a document, or what is said of it."""
        return not (self.json or self.log.enabled("info"))

    def carry(self, work: Callable[[], int]) -> int:
        """Do a command's work; gives its exit code, also for every error, each shown as people or programs need it."""
        try:
            with self.interrupts:
                code = work()
        except ManifestError as error:
            code = self._fail(error.problems, error.exit_code)
        except ResourceAPIError as error:
            code = self._fail([Problem(None, str(error), code=_code(error))], error.exit_code)
        except Exception as error:  # noqa: BLE001 - the last resort
            text = f"this is a bug in resource-api, please report it: {type(error).__name__}: {reason(error)}"
            code = self._fail([Problem(None, text, code="bug", hint="-d shows where")], 70, error)
        except BaseException as error:  # noqa: BLE001 - a signal, or what only a provider can have raised
            text = "interrupted" if self.interrupts.came else f"a provider ended the run: {reason(error)}"
            code = self._fail([Problem(None, text, code="interrupted")], self.interrupts.exit_code, error)
            self._sum_up(code)
        self.flush()
        if self._unwritten and not self._runs:
            self._say("Error: ", Problem(None, f"cannot write: {self._unwritten}"))
            code = code or 1
        leave_in_time(code)
        return code

    def _fail(self, problems: Sequence[Problem], code: int, error: BaseException | None = None) -> int:
        if error is not None and self.settings.get("debug"):
            import traceback  # noqa: PLC0415 - only for those who debug

            self._complain("".join(traceback.format_exception(error)).rstrip("\n"))
        for problem in problems:
            if self.stream:
                self.emit(documents.line("diagnostic", documents.problem(problem)))
            self._say(f"{'Error' if problem.severity == 'error' else 'Warning'}: ", problem)
        if self.stream:
            self.emit(documents.line("summary", documents.summary(self._nothing(), code)))
        elif self.json:
            self.print_json({"diagnostics": [documents.problem(problem) for problem in problems], "exit_code": code})
        return code

    def _sum_up(self, code: int) -> None:
        """Print the summary of a run that was ended before it had one."""
        if self._runs and not self.json:
            from resource_api.model.report import Report  # noqa: PLC0415 - what does not plan knows no steps
            from resource_api.render.text import report  # noqa: PLC0415 - only here

            self.print(report(Report((), self._nothing(), code)))

    def _nothing(self) -> Summary:
        from resource_api.model.report import Summary  # noqa: PLC0415 - as above

        return Summary(noop=bool(self.settings.get("noop")))

    def _say(self, word: str, problem: Problem) -> None:
        if self.settings.get("log_format") == "json":
            level = "err" if problem.severity == "error" else "warning"
            self.log.sinks[0](Line(level, problem.reference, self.log.mask(str(problem))))
            return
        # Of a file that breaks the contract all is told at once, one thing a line; whatever else is said is one.
        shown = str(problem) if problem.code in _LISTING else escape(str(problem))
        self._complain(("" if problem.file else word) + shown)

    def _complain(self, text: str) -> None:
        try:
            self.err.write(escape_lines(self.log.mask(text)) + "\n")
        except (OSError, ValueError):
            return

    def _printed(self, text: str) -> None:
        """Pass on to stderr what a provider has printed, in the form that log lines have there."""
        if self.settings.get("log_format") == "json":
            context = current.get()
            self.log.sinks[0](Line("notice", context.type.name if context else "", self.log.mask(text)))
        else:
            self._complain(text)

    def _told(self, event: Event) -> None:
        self._diagnosed(event)
        if (document := documents.told(event)) is not None:
            self.emit(document)

    def _diagnosed(self, event: Event) -> None:
        if isinstance(event, Diagnosed):
            self._say("Warning: ", event.problem)

    # Output

    def print(self, lines: str | Iterable[str]) -> None:
        """Write lines to stdout, known secrets masked; a reader that has gone away is no error."""
        text = lines if isinstance(lines, str) else "\n".join(lines)
        self._write(self.log.mask(text) + "\n" if text else "")

    def print_json(self, document: Any) -> None:
        """Write the one document of a command with ``--json``."""
        self._write(
            json.dumps(self.log.mask.document(document), indent=2, ensure_ascii=False, default=self._odd) + "\n"
        )

    def emit(self, document: Mapping[str, Any]) -> None:
        """Write one object of a stream, on one line."""
        self._write(json.dumps(self.log.mask.document(document), ensure_ascii=False, default=self._odd) + "\n")

    def _odd(self, value: Any) -> str:
        return self.log.mask(str(value))

    def _write(self, text: str) -> None:
        try:
            with self._writing:
                self.out.write(text)
        except (OSError, ValueError) as error:
            self._note(error)
            self.out = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process

    def _note(self, error: Exception) -> None:
        """Remember why nothing can be written, unless nobody reads any more."""
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            self._unwritten = f"{error.strerror}"

    def flush(self) -> None:
        """Hand on what was written; a reader that has gone away is no error."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        for ours in (self.out, self.err):
            try:
                ours.flush()
            except (OSError, ValueError) as error:
                if ours is self.out:
                    self._note(error)
                # What is still in the buffer would fail once more at the end, and change the exit code to 120.
                os.dup2(os.open(os.devnull, os.O_WRONLY), ours.fileno())


def named(find: Callable[[str], D], type_name: str) -> D:
    """Give what ``find`` has under a type's name of the command line; one that does not exist is wrong usage."""
    try:
        return find(type_name[:1].lower() + type_name[1:])
    except DefinitionError as error:
        if str(error).startswith("unknown type"):
            raise UsageError(str(error)) from error
        raise


def _code(error: ResourceAPIError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def _complete_streams() -> None:
    """Put /dev/null where a standard stream is closed: the next file opened would get its number, and our lines."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115 - lives as long as the process


def _private_stdout(*, by_line: bool) -> TextIO:
    """Keep stdout for ourselves: what a provider's children print goes to stderr."""
    with suppress(OSError):
        sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    buffering = 1 if by_line or os.isatty(ours) else -1
    return os.fdopen(ours, "w", encoding="utf-8", errors="backslashreplace", buffering=buffering)


def _colored(wish: str, stream: TextIO) -> bool:
    if wish == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return wish == "always"


def _log(settings: Mapping[str, Any], stream: TextIO) -> Log:
    threshold = "notice"
    if settings.get("debug"):
        threshold = "debug"
    elif settings.get("verbose"):
        threshold = "info"
    elif settings.get("quiet"):
        threshold = "err"
    if settings.get("log_format") == "json":
        return Log(threshold, json_lines(stream))
    return Log(threshold, console(stream, color=_colored(settings.get("color", "auto"), stream)))


def _places(module_path: Sequence[str], manifest: str | None) -> list[str]:
    """Give the module path: what was named, the manifest's own directory, what is bundled."""
    places = [os.path.realpath(directory) for directory in module_path]
    if manifest is not None:
        places.append(os.path.dirname(os.path.realpath(manifest)))  # noqa: PTH120 - text
    return [*places, BUNDLED]
