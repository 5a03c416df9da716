"""Reporters of ``--report`` and ``--metrics``, which receive the document of a finished run or plan.

A reporter is a function of one document, which ``report --format json`` prints. Those of this program write a file; any
other is given as ``MODULE:FUNCTION``. Imported only where one is given.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.model.report import Summary
from resource_api.model.values.errors import Problem, UsageError, reason
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape_json
from resource_api.render import json as documents
from resource_api.render import junit_and_metrics, run_document
from resource_api.render.fleet import as_run
from resource_api.render.html import pages
from resource_api.system.filesystem import files, private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import FleetJson, PlanJson, RunJson
    from resource_api.model.options import Settings

    Document = Mapping[str, Any]
    Reporter = Callable[[Document], object]

_FUNCTION: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
#: The number of reports that a directory keeps.
KEPT: Final = 100
#: The name of a report in a directory; other files there are never removed.
_REPORT: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-\w+\.json")


class Target(NamedTuple):
    """One use of ``--report`` or ``--metrics``: its text, the reporter, and the file it writes, or an empty text."""

    text: str
    reporter: Reporter
    path: str = ""


class Reporting:
    """The targets of one command, and the document that they receive at its end, whether it succeeds or fails."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """Collect the document of a run for ``targets``, to which it is sent at the end."""
        self.targets = targets
        #: The document of the run or plan, or None until there is one.
        self.document: Mapping[str, object] | None = None
        #: Whether a command within this one, as in ``watch`` and the agent, reports the run in place of this one.
        self.detached = False

    def check(self, sources: Collection[str]) -> None:
        """Raise ``UsageError`` if a report would replace a file that the command reads, such as its manifest.

        No target is left then, so that the report of this error replaces none either.
        """
        targets, self.targets = self.targets, ()
        for target in targets:
            if target.path and any(_is_same_file(target.path, source) for source in sources):
                raise UsageError(f"{target.text}: the report would replace a file that this command reads")
        self.targets = targets

    def detach(self) -> Sequence[Target]:
        """Return the targets for a command that is called within this one, as ``apply`` by the agent.

        That command reports the run to them, so this one sends them nothing from now on.
        """
        self.detached = True
        targets, self.targets = self.targets, ()
        return targets

    def send(self, failure: Callable[[], Document]) -> Iterator[Problem]:
        """Send the command's document to all targets; yield a problem for each target that fails.

        The other targets get the document all the same. A command without a document sends that of ``failure``.
        """
        for target in self.targets:
            try:
                target.reporter(self.document or failure())
            except Exception as error:  # noqa: BLE001 - a foreign reporter may raise anything
                cause = error.strerror if isinstance(error, OSError) and error.strerror else reason(error)
                yield Problem(None, f"no report to {target.text}: {cause}")


def _is_same_file(path: str, other: str) -> bool:
    """Return whether a report at ``path`` would replace the file ``other``: both are one existing file, also by a link.

    ``Path`` drops a slash at the end: the system would find no file at ``site.yaml/``, but the report would replace it.
    """
    with suppress(OSError):
        return Path(path).samefile(Path(other))
    return False


def failure_document(
    settings: Settings, command: str, began: float, code: int, problems: Iterable[Problem]
) -> dict[str, object]:
    """Return the document, for reporters, of a run that failed before it had one: its errors and exit code."""
    run = {"project": settings.get("project"), "stack": settings.get("stack"), "run": "", "command": command}
    summary = {**Summary(noop=bool(settings.get("noop")))._asdict(), "exit_code": code}
    document = run_document.history_document({**run, "started": began, "ended": time.time(), "summary": summary})
    return {**document, "problems": list(map(documents.problem, problems))}


def report(text: str) -> Target:
    """Return the target of ``--report``, by its form: MODULE:FUNCTION, a directory, or a file. Raise ``UsageError``."""
    if match := _FUNCTION.fullmatch(text):
        return Target(text, _import_reporter(*match.groups()))
    if os.path.isdir(text):
        _check_writable(text, text)
        return report_directory(text)
    for suffix, form in _FORMS.items():
        if text.endswith(suffix):
            return _file_target(text, form, 0o600)  # private: a report contains the contents of files
    raise UsageError(f"'{text}' ends in none of {', '.join(_FORMS)}, and is neither a directory nor MODULE:FUNCTION")


def _check_writable(target: str, *paths: str) -> None:
    """Raise ``UsageError`` unless the caller may write into one of the ``paths``."""
    if not any(os.access(path, os.W_OK) for path in paths):
        raise UsageError(f"{target}: cannot be written")


def report_directory(path: str) -> Target:
    """Return a target that writes a file of its own for each run into a directory, which is made if it is missing."""
    return Target(path, partial(_add_to_directory, Path(path)))


def metrics(text: str) -> Target:
    """Return the target of ``--metrics``. Raise ``UsageError`` for a file that cannot be made."""
    # The collector runs as another user; only numbers are in it.
    return _file_target(text, _metrics, 0o644)


def _add_to_directory(directory: Path, document: Document) -> None:
    """Write a document into a new file of a directory, named by the run's time and id. Raise ``OSError``.

    Only the newest ``KEPT`` reports stay, so that those of an agent do not fill the disk.
    """
    make_directory(str(directory))
    began = document.get("started") or time.time()
    stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(began))}.{int(began % 1 * 1000):03}Z"
    _write(directory / f"{stamp}-{document.get('run') or secrets.token_hex(8)}.json", _json, 0o600, document)
    for name in private_files.oldest_first(filter(_REPORT.fullmatch, os.listdir(directory)))[:-KEPT]:
        with suppress(FileNotFoundError), files.Batch() as batch:  # another run removes it too
            batch.remove(os.path.abspath(directory / name))


def _import_reporter(module: str, name: str) -> Reporter:
    """Import the module that ``--report`` names, and return its function. Raise ``UsageError``."""
    try:
        reporter = getattr(import_module(module), name)
    except Exception as error:  # a foreign module may raise anything
        raise UsageError(f"{module}:{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(reporter):
        raise UsageError(f"{module}:{name} is no function")
    return reporter  # type: ignore[no-any-return] # it is called as a reporter


def _file_target(path: str, form: Callable[[Document], str], mode: int) -> Target:
    """Return a target that writes a document to a file, as the text that ``form`` returns.

    Raise ``UsageError`` if the file cannot be written: the user must know before the run, not after it.
    """
    file = Path(path)
    if os.path.isdir(file):
        raise UsageError(f"{path}: is a directory")
    if not os.path.isdir(file.parent):
        raise UsageError(f"{path}: there is no directory {file.parent}")
    _check_writable(path, str(file.parent), path)
    return Target(path, partial(_write, file, form, mode), path=path)


def _write(file: Path, form: Callable[[Document], str], mode: int, document: Document) -> None:
    """Write a document whole or not at all. Raise ``OSError``."""
    files.write_output(str(file), form(document).encode("utf-8", "backslashreplace"), mode)


def _json(document: Document) -> str:
    """Return a document as JSON, with terminal controls escaped."""
    return escape_json(json.dumps(document, indent=2, ensure_ascii=False, default=str)) + "\n"


def _xml(document: Document) -> str:
    """Return a document as JUnit XML, for CI systems; of a run over many hosts each host is a test case."""
    if document["kind"] == "fleet":
        document = as_run(cast("FleetJson", document))
    return junit_and_metrics.junit(document)


def _html(document: Document) -> str:
    """Return the page of a run, a plan, or a run over many hosts, which ``kind`` tells apart."""
    if document["kind"] == "fleet":
        return pages.fleet(cast("FleetJson", document))
    if document["kind"] == "plan":
        return pages.plan(cast("PlanJson", document))
    return pages.run(cast("RunJson", document))


def _metrics(document: Document) -> str:
    """Return a document as gauges, for the textfile collector of the node exporter."""
    # A plan has no time of its own.
    return junit_and_metrics.metrics({"ended": time.time(), **document})


_FORMS: Final[Mapping[str, Callable[[Document], str]]] = {".json": _json, ".xml": _xml, ".html": _html}
