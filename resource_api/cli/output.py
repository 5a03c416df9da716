"""The command's streams: results on stdout, log lines and errors on stderr, secrets masked in both.

Prints of a provider go to stderr as log lines. So does text that child processes write directly to descriptors, on a
terminal, and elsewhere from the first secret on. A closed pipe or a full log never stops a run.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
from contextlib import nullcontext, suppress
from threading import RLock
from typing import TYPE_CHECKING, Final, TextIO

from resource_api.cli import progress
from resource_api.model.report import LogEvent
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceAPIError
from resource_api.model.values.start_up import regex
from resource_api.model.values.text import escape, escape_json, escape_lines
from resource_api.provider.context import current
from resource_api.render import changes
from resource_api.render import json as documents
from resource_api.render.columns import width
from resource_api.system import log as logs
from resource_api.system import process_guard
from resource_api.system.process import descriptor_filter, interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.cli.progress import LiveLines
    from resource_api.model.options import Settings
    from resource_api.model.values.errors import Problem
    from resource_api.system.log import EventDict, Level, Processor
    from resource_api.system.process.descriptor_filter import DescriptorFilter

#: Seconds between two looks for an answer.
_WAIT: Final = 0.2
#: The longest problem in one line, in characters.
_LONGEST_PROBLEM: Final = 4000
#: The most lines of a program's output that an error quotes.
_QUOTED: Final = 5
#: The end of an error: where its resource is declared.
_POSITION: Final = regex(r" \([^()]*:[0-9]+(?:, …)?\)\Z")
#: The codes of problems whose message may have several lines.
_SEVERAL_LINES: Final = frozenset({"definition", "provider", "resource", "type"})


class _OwnStream(io.TextIOWrapper):
    """A stream for a copy of a standard descriptor; each write waits until earlier text of child processes is written.

    The streams below are the interpreter's own: a signal may interrupt Python code there after a write, which would
    then be repeated.
    """

    def __init__(
        self, number: int, drain: Callable[[], None], cleared: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Write to a copy of the descriptor ``number``, for the command's own text.

        ``drain`` waits for earlier text of child processes; ``cleared`` returns a context without the live lines of
        the terminal, into which text must not be written.
        """
        descriptor = io.FileIO(os.dup(number), "w")
        super().__init__(io.BufferedWriter(descriptor), encoding="utf-8", errors="backslashreplace")
        self._drain = drain
        self._cleared = cleared if self.isatty() else nullcontext

    def write(self, text: str, /) -> int:
        """Write and flush, so that results and log lines stay in order where stdout and stderr are the same file."""
        self._drain()
        with self._cleared():
            length = super().write(text)
            super().flush()
        return length


class Output:
    """The streams of one command; from its creation on, stdout belongs to the command alone."""

    def __init__(self, settings: Settings, *, streams: bool) -> None:
        """Use the options about output; JSON that ``streams`` is one object per line, with the log lines."""
        self.json = bool(settings.get("json"))
        #: Whether the JSON is one object per line.
        self.streams = streams and self.json
        open_closed_streams()
        #: Masks the output of child processes, once started; and the replaced lines on stderr, once there are any.
        self._filter: DescriptorFilter | None = None
        self._live: LiveLines | None = None
        self.stdout, self.stderr = self._own_stream(1), self._own_stream(2)
        os.dup2(2, 1)  # the prints of child processes are no result of the command, and go to stderr
        if os.isatty(2):
            process_guard.before_provider_code(self._start_filter)  # the filter escapes the controls of a terminal
        #: The error of a write to stdout, or empty; a reader that has closed it is none.
        self.write_error = ""
        #: Log lines come from any thread of a provider.
        self._lock = RLock()
        self._json_log = settings.get("log_format") == "json"
        self._color = _colored(settings.get("color", "auto"), self.stdout)
        self._diff = settings.get("diff") or "short"
        #: Whether the log has shown a failure, and the number of lines since.
        self._failed, self.lines_after_failure = False, 0
        #: The subject of the last warnings in a row, and their texts.
        self._warned: tuple[str, list[str]] = ("", [])
        #: The subject of the last diff in the log, and the number of lines of its diffs.
        self._diffs = ("", 0)
        self._log_color = _colored(settings.get("color", "auto"), self.stderr)
        terse = not (self._json_log or self.streams)  # only JSON has the fields of events
        # Where the events are on stdout too, both streams may be one file.
        lines = logs.StreamLogger(self.stderr, 1) if self.streams else logs.StreamLogger(self.stderr)
        self.log = logs.Log(threshold(settings), self._processors, lines, terse=terse, step_lines=True)
        #: Shows lines on stderr alone, at any level.
        self._stderr_log = logs.Log("debug", self._stderr_processors, lines, terse=terse)
        self._stderr_log.mask = self.log.mask
        sys.stdout, sys.stderr = (logs.line_stream(self._log_print, descriptor, self.log.mask) for descriptor in (1, 2))

    def _processors(self) -> Sequence[Processor]:
        """Return the steps of a log event: to the JSON of a run, then to a line on stderr."""
        steps = self._stderr_processors()
        return [self._emit_event, *steps] if self.streams else steps

    def _stderr_processors(self) -> Sequence[Processor]:
        """Return the steps that make an event a line on stderr, for structlog: JSON, or text without repetitions."""
        return logs.json_processors() if self._json_log else [self._without_repetition, self._render]

    def _emit_event(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Write a log event to the JSON of a run; return it unchanged, for the next step makes the line on stderr."""
        self.emit(documents.log(logs.log_event(event)))
        return event

    def _render(self, logger: object, method: str, event: EventDict) -> str:
        """Return the line of a log event, and below it the diff of a changed text, if the event has one.

        All diffs of one resource in a row together get at most the lines of one screen, so that the log stays readable.
        """
        if event.get("change") is None:
            return logs.render_line(logger, method, event, color=self._log_color)
        subject, diff_lines = self._diffs
        diff_lines = diff_lines if subject == event["subject"] else 0
        style = self.style._replace(color=self._log_color)
        lines = changes.log_lines(logs.log_event(event), style, max(0, changes.SCREEN - diff_lines))
        self._diffs = event["subject"], diff_lines + lines.count("\n")
        return lines

    def _without_repetition(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Return a log event; from an error remove a program's output that warnings have shown right before it.

        Also count the lines since the first failure: if there are many, the end of the run shows the failures again.
        """
        self.lines_after_failure += self._failed
        subject, lines = self._warned
        warned = lines if subject == event["subject"] else []
        if event["level"] == "warning":
            # Errors quote the output of programs without indentation and empty lines.
            self._warned = event["subject"], [line for line in (*warned, event["event"].strip()) if line][-_QUOTED:]
        elif event["level"] == "err":
            self._failed, self._warned = True, ("", [])
            event["event"] = _without_output(event["event"], warned)
        return event

    @property
    def on_one_terminal(self) -> bool:
        """Whether stdout and stderr are terminals, so that the log need not repeat the result."""
        return not self._json_log and self.stdout.isatty() and self.stderr.isatty()

    @property
    def style(self) -> changes.Style:
        """The style of changes on stdout: its colours, ``--diff``, and the mask of secrets."""
        return changes.Style(self._color, self._diff, self.log.mask)

    def _own_stream(self, number: int) -> TextIO:
        """Return a stream for a copy of descriptor 1 or 2, for the command's own text.

        The descriptor itself remains for the prints of providers, which are not mixed into that text.
        """
        with suppress(OSError):
            (sys.stdout if number == 1 else sys.stderr).flush()
        return _OwnStream(number, self._drain, self._cleared)

    def live_lines(self) -> progress.LiveLines | None:
        """Return the lines of progress at the bottom of stderr, or None if they cannot be replaced there.

        That is so without a terminal, on one without features (``TERM=dumb``), in CI, and with a log in JSON.
        """
        if not (self._json_log or _is_dumb() or os.environ.get("CI")) and self.stderr.isatty():
            self._live = progress.LiveLines(self.stderr.fileno())
        return self._live

    def _cleared(self) -> AbstractContextManager[None]:
        """Return a context in which the live lines are hidden."""
        return nullcontext() if self._live is None else self._live.hidden()

    @property
    def columns(self) -> int | None:
        """The width of the terminal of stdout, or None without one or where its size is unknown."""
        return os.get_terminal_size(self.stdout.fileno()).columns or None if self.stdout.isatty() else None

    def confirmed(self, question: str, *, short: bool = False) -> bool:
        """Ask a question on the terminal, and return whether the answer is ``yes``; the end of the input means no.

        ``short``: ``y`` means yes too, in upper or lower case, for a question without grave consequences.
        """
        accepted = "'y' or 'yes'" if short else "Only 'yes' is accepted"
        self.stderr.write(f"{question} {accepted} [no]: ")
        self.flush()
        answer = b""
        try:
            # A signal that comes right before a read does not end it: its handler runs when the read has ended.
            while not select.select([sys.stdin], [], [], _WAIT)[0]:
                pass
            # click.confirm cannot tell an interrupt from the end of the input, and fails on bytes that are no text.
            answer = sys.stdin.buffer.readline()
        finally:
            if not answer.endswith(b"\n"):
                self.stderr.write("\n")
        answer = answer.strip()
        return answer.lower() in {b"y", b"yes"} if short else answer == b"yes"

    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors of present output, the filter's too: a rehearsal keeps them open."""
        more = () if self._filter is None else self._filter.descriptors
        return (self.stdout.fileno(), self.stderr.fileno(), *more)

    def mask_descriptors(self, secret: str, *, declared: bool) -> None:
        """Mask a new secret in the output of child processes, which write to descriptors without this process.

        The first secret starts the filter, a process through which that output then goes. ``declared``: the secret is
        the value of an input, so that its lines and short words are masked too. Raise ``ResourceAPIError`` if the
        filter cannot be started.
        """
        with self._lock:
            if self._filter is not None:
                self._filter.learn(secret, declared=declared)
            else:
                self._start_filter()  # with the mask, which has the new secret already

    def _start_filter(self) -> None:
        """Start, once, the process that masks secrets and escapes controls in the output of child processes.

        The start takes time, so callers start it only for a secret or a terminal. Raise ``ResourceAPIError``.
        """
        with self._lock:
            if self._filter is not None:
                return
            failure = "cannot start the process that masks secrets in what programs print: "
            with errors_as(ResourceAPIError, OSError, failure):
                self._foreign_line("")  # imports here what the filter's process needs
                self._filter = descriptor_filter.DescriptorFilter(self.log.mask, self._foreign_line)

    def _foreign_line(self, text: str) -> str:
        """Return the log line for a child process's line, which is masked already; for the filter."""
        event = LogEvent("notice", "", text)
        return escape_json(json.dumps(logs.document(event))) if self._json_log else logs.line(event)

    def _drain(self) -> None:
        """Wait until the filter has written earlier text of child processes, so that output stays in order."""
        if self._filter is not None:
            self._filter.drain()

    def print(self, lines: str | Iterable[str]) -> None:
        """Write lines to stdout; nothing where there are none."""
        text = lines if isinstance(lines, str) else "\n".join(lines)
        self._write(self.log.mask(text) + "\n" if text else "")

    def print_paged(self, lines: Sequence[str]) -> None:
        """Write lines to stdout; in the pager where stdout is a terminal that does not hold them at once."""
        if self.stdout.isatty() and (command := _pager()) and not _fits(lines, self.stdout):
            self.flush()
            if interactive.page(self.log.mask("\n".join(lines)) + "\n", command, self.stdout.fileno()):
                return
        self.print(lines)

    def print_json(self, document: object) -> None:
        """Write the only document of a command with ``--json``."""
        self._write(self._json(document, indent=2))

    def emit(self, document: Mapping[str, object]) -> None:
        """Write one object of a run's JSON, on one line, with secrets masked."""
        self._write(self._json(document))

    def _json(self, document: object, indent: int | None = None) -> str:
        """Return a document as JSON text with a line end, secrets masked and terminal controls escaped."""

        def text_of(value: object) -> str:
            return self.log.mask(str(value))

        masked = self.log.mask.document(document)
        return escape_json(json.dumps(masked, indent=indent, ensure_ascii=False, default=text_of)) + "\n"

    def _write(self, text: str) -> None:
        """Write to stdout; a failed write is kept in ``write_error``, and nothing more is written: a run must go on."""
        try:
            with self._lock:
                self.stdout.write(text)
        except (OSError, ValueError) as error:
            self._keep_error(error)
            # Its buffer cannot be written; closed later, since Python 3.13 it would say so on stderr.
            with suppress(OSError, ValueError):
                self.stdout.close()
            self.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends

    def _keep_error(self, error: Exception) -> None:
        """Keep the error of a write to stdout in ``write_error``, unless its reader has closed it."""
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            self.write_error = f"{error.strerror}"

    def problem(self, problem: Problem, source: Sequence[str] = ()) -> None:
        """Write an error or a warning to stderr, as JSON or text like the log, for users and programs that read that.

        ``source``: the lines below the text, such as the line of the manifest with the mistake. JSON has none.
        """
        if self._json_log:
            pairs = (("reference", problem.reference), ("attribute", problem.attribute))
            fields = {name: value for name, value in pairs if value}
            level = "err" if problem.severity == "error" else "warning"
            self._stderr_log.show(level, problem.reference, str(problem), **fields)
            return
        text = problem.labelled if problem.code in _SEVERAL_LINES else self._one_line(problem.labelled)
        self.error_text("\n".join([text, *source]))

    def _one_line(self, text: str) -> str:
        """Return a problem on one line of limited length, masked before: a part of a secret would not be masked."""
        line = self.log.mask(escape(text))
        return line if len(line) <= _LONGEST_PROBLEM else f"{line[:_LONGEST_PROBLEM]}… ({len(line)} characters)"

    def error_text(self, text: str) -> None:
        """Write text to stderr, known secrets masked and control characters escaped; a failed write is ignored."""
        with suppress(OSError, ValueError):
            self.stderr.write(escape_lines(self.log.mask(text)) + "\n")

    def _log_print(self, text: str) -> None:
        """Log a line that Python code has printed, with the type of the running provider.

        It goes to stderr, because stdout is for the command's own result, which programs parse.
        """
        context = current.get()
        if context is None and not self._json_log:
            self.error_text(text)  # of the interpreter, as with -X importtime
        else:
            self._stderr_log.show("notice", context.type.name if context else "", text)

    def restore_stdout(self) -> None:
        """Make descriptor 1, since the creation a copy of 2, stdout again: for another command of this process."""
        self.flush()
        os.dup2(self.stdout.fileno(), 1)

    def flush(self) -> None:
        """Flush all streams, the prints of providers first, before other text follows or the command ends.

        A failing stream is redirected to /dev/null; the error of stdout is recorded for the exit code.
        """
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        self._drain()
        for ours in (self.stdout, self.stderr):
            try:
                ours.flush()
            except (OSError, ValueError) as error:
                if ours is self.stdout:
                    self._keep_error(error)
                # Otherwise the interpreter fails on the rest of the buffer at its end, with exit code 120.
                os.dup2(os.open(os.devnull, os.O_WRONLY), ours.fileno())


def _without_output(error: str, warned: Sequence[str]) -> str:
    """Return the text of an error without the lines at its end that warnings have shown.

    After the warnings "a" and "b" of "failed: a; b (site.yaml:4)" remains "failed (site.yaml:4)".
    """
    match = _POSITION.search(error)
    position = match[0] if match else ""
    reason = error.removesuffix(position)
    for first in range(len(warned)):
        output = ": " + "; ".join(warned[first:])
        if reason.endswith(output):
            return reason.removesuffix(output) + position
    return error


def open_closed_streams() -> None:
    """Open /dev/null for each closed standard stream: the next opened file would get its number, and our output.

    Also make stdout and stderr blocking, so that no text is lost when their reader is slow: another program that uses
    the same terminal may have made them non-blocking.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if number:
            os.set_blocking(number, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - open until the process ends
            setattr(sys, name, stream)


def _pager() -> str:
    """Return the command of the pager, by ``$PAGER`` or ``less``; "" for no pager.

    There is none on a terminal without features, where it could not go back, and for ``cat``, which shows all at once.
    """
    if _is_dumb():
        return ""
    command = os.environ.get("PAGER", "less").strip()
    return "" if command == "cat" else command


def _fits(lines: Iterable[str], stream: TextIO) -> bool:
    """Return whether a terminal, if its size is known, holds the lines and the next prompt: no pager is needed."""
    columns, rows = os.get_terminal_size(stream.fileno())
    return not rows or not columns or sum(max(1, -(-width(line) // columns)) for line in lines) < rows


def _colored(choice: str, stream: TextIO) -> bool:
    """Return whether a stream has colours, for a value of ``--color``: ``auto`` asks the terminal and ``$NO_COLOR``."""
    if choice == "auto":
        return stream.isatty() and not (os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR"))
    return choice == "always"


def _is_dumb() -> bool:
    """Return whether the terminal may support only lines and colours, and so neither progress nor a pager."""
    return os.environ.get("TERM", "dumb") in {"", "dumb"}


def threshold(settings: Settings) -> Level:
    """Return the lowest level of log lines by ``--debug``, ``--verbose`` or ``--quiet``."""
    if settings.get("debug"):
        return "debug"
    if settings.get("verbose"):
        return "info"
    return "err" if settings.get("quiet") else "notice"
