"""What every subcommand shares: the registry, the runtime, the streams, and how errors end a command.

Log lines go to stderr, what the command is for goes to stdout; whatever a provider prints goes to stderr. A closed
pipe or a full log never stops a run. What the commands do is theirs.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from resource_api.contract.registry import Registry
from resource_api.faces import documents
from resource_api.faces.interrupts import Interrupts
from resource_api.faces.runtime import Runtime
from resource_api.hands.loader import BUNDLED, Finder
from resource_api.hands.log import Log, console, json_lines
from resource_api.nouns.errors import ManifestError, Problem, ResourceAPIError, reason
from resource_api.nouns.step import Summary
from resource_api.nouns.text import escape_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.nouns.event import Event


class Session:
    """One call of a subcommand."""

    def __init__(self, settings: Mapping[str, Any], *, manifest: str | None = None, stream: bool = False) -> None:
        """Take the options that the subcommand was given; ``stream``: with ``--json``, one object per line."""
        self.settings = settings
        self.json = bool(settings.get("json"))
        self.stream = stream and self.json
        self.out = _private_stdout()
        self.color = _colored(settings.get("color", "auto"), self.out)
        self.log = _log(settings)
        if self.stream:
            self.log.sinks.append(lambda line: self.emit(documents.log(line)))
        self.registry = Registry(Finder(_places(settings.get("module_path") or (), manifest)))
        self.runtime = Runtime(
            self.registry,
            state=settings.get("state") or "memory:",
            stack=settings.get("stack") or "default",
            log=self.log,
            tell=self._told if self.stream else self._diagnosed,
        )
        self.interrupts = Interrupts(self.runtime.run)

    def carry(self, work: Callable[[], int]) -> int:
        """Do a command's work; gives its exit code, also for every error, each shown as people or programs need it."""
        try:
            with self.interrupts:
                code = work()
        except ManifestError as error:
            code = self._fail(error.problems, error.exit_code)
        except ResourceAPIError as error:
            code = self._fail([Problem(None, str(error), code=_code(error))], error.exit_code)
        except KeyboardInterrupt:
            code = self._fail([Problem(None, "interrupted", code="interrupted")], self.interrupts.exit_code)
        except Exception as error:  # noqa: BLE001 - the last resort
            if self.settings.get("debug"):
                traceback.print_exc()
            text = f"this is a bug in resource-api, please report it: {type(error).__name__}: {reason(error)}"
            code = self._fail([Problem(None, text, code="bug", hint="-d shows where")], 70)
        self._flush()
        return code

    def _fail(self, problems: Sequence[Problem], code: int) -> int:
        for problem in problems:
            if self.stream:
                self.emit(documents.line("diagnostic", documents.problem(problem)))
            self._say(f"{'Error' if problem.severity == 'error' else 'Warning'}: ", problem)
        if self.stream:
            self.emit(documents.line("summary", documents.summary(Summary(), code)))
        elif self.json:
            self.print_json({"diagnostics": [documents.problem(problem) for problem in problems], "exit_code": code})
        return code

    def _say(self, word: str, problem: Problem) -> None:
        word = "" if problem.file else word
        try:
            sys.stderr.write(word + escape_lines(self.log.mask(str(problem))) + "\n")
        except (OSError, ValueError):
            return

    def _told(self, event: Event) -> None:
        self._diagnosed(event)
        if (document := documents.told(event)) is not None:
            self.emit(document)

    def _diagnosed(self, event: Event) -> None:
        from resource_api.nouns.event import Diagnosed  # noqa: PLC0415 - with the first event

        if isinstance(event, Diagnosed):
            self._say("Warning: ", event.problem)

    # Output

    def print(self, lines: str | Iterable[str]) -> None:
        """Write lines to stdout, known secrets masked; a reader that has gone away is no error."""
        text = lines if isinstance(lines, str) else "\n".join(lines)
        self._write(self.log.mask(text) + "\n" if text else "")

    def print_json(self, document: Any) -> None:
        """Write the one document of a command with ``--json``."""
        self._write(self.log.mask(json.dumps(document, indent=2, ensure_ascii=False, default=str)) + "\n")

    def emit(self, document: Mapping[str, Any]) -> None:
        """Write one object of a stream, on one line."""
        self._write(self.log.mask(json.dumps(document, ensure_ascii=False, default=str)) + "\n")

    def _write(self, text: str) -> None:
        try:
            self.out.write(text)
        except (OSError, ValueError):
            self.out = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process

    def _flush(self) -> None:
        try:
            self.out.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())


def _code(error: ResourceAPIError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def _private_stdout() -> TextIO:
    """Keep stdout for ourselves: what a provider or its children print goes to stderr (P-09)."""
    try:
        sys.stdout.flush()
        ours = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    sys.stdout = sys.stderr
    return os.fdopen(ours, "w", encoding="utf-8", errors="backslashreplace", buffering=1 if os.isatty(ours) else -1)


def _colored(wish: str, stream: TextIO) -> bool:
    if wish == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return wish == "always"


def _log(settings: Mapping[str, Any]) -> Log:
    threshold = "notice"
    if settings.get("debug"):
        threshold = "debug"
    elif settings.get("verbose"):
        threshold = "info"
    elif settings.get("quiet"):
        threshold = "err"
    if settings.get("log_format") == "json":
        return Log(threshold, json_lines(sys.stderr))
    return Log(threshold, console(sys.stderr, color=_colored(settings.get("color", "auto"), sys.stderr)))


def _places(module_path: Sequence[str], manifest: str | None) -> list[Path]:
    """Give the module path: what was named, the manifest's own directory, what is bundled."""
    places = [Path(directory).resolve() for directory in module_path]
    if manifest is not None:
        places.append(Path(manifest).resolve().parent)
    return [*places, BUNDLED]
