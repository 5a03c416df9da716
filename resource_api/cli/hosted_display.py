"""The display of a run over many hosts: folded groups after each batch, one line of progress, or JSON objects.

A group is of hosts with equal results, which are shown once below their names; "folded" names are ``web[1:50]``. The
overviews of ``report --since`` are shown together at the end, as a table or as one page.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, Self, cast

from resource_api.fleet import host_names
from resource_api.fleet.merge import COUNTS, EVENTS, NO_HOST, SUCCEEDED, UNEXPECTED, describe_unexpected
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.version import __version__
from resource_api.render import fleet as text
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from resource_api.render import run_text, table
from resource_api.render.changes import BOLD
from resource_api.render.html import overview as overview_page
from resource_api.render.run_text import HostOverview
from resource_api.runtime import saved_plan
from resource_api.system import document_schema
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.cli.hosted_work import Work
    from resource_api.cli.progress import LiveLines
    from resource_api.cli.session import Session
    from resource_api.fleet.connections import Host
    from resource_api.fleet.merge import HostGroup, HostReport, Merge
    from resource_api.fleet.run import BatchReport, BatchStart
    from resource_api.model.json_documents import FleetJson, HostGroupJson, OverviewJson
    from resource_api.plugins.registry import Registry
    from resource_api.render.changes import Style

#: Seconds between two changes of the line of progress, and between two notices where there is no terminal.
_TICK: Final = 0.1
_NOTICE: Final = 30.0
#: The effect of the user's first, second and third interrupt.
_INTERRUPTED: Final = (
    "interrupted: no further host is started; press Ctrl-C again to have the running ones end after their step",
    "interrupted: the running hosts end after their step; press Ctrl-C again to leave them",
    "interrupted: the running hosts are left; they end by themselves",
)


class Display:
    """Shows a run over hosts as it goes on: ``FleetRun``, whose observer it is, calls its methods at each event."""

    def __init__(
        self,
        session: Session,
        work: Work,
        run: str,
        merge: Merge,
        out: str | None,
        *,
        on_result: Callable[[str, object], None] | None = None,
        answers: Overviews | None = None,
    ) -> None:
        """Show the run of ``work`` with the id ``run``; ``merge`` groups the results of its hosts.

        ``out``: the directory into which plans are saved, or None. ``on_result`` receives each host with the document
        of its answer. ``answers``: collects these documents and shows them at the end; not used with ``--json``.
        """
        self._session = session
        self._work = work
        self._run = run
        self._merge = merge
        self._out = out
        self._answers = None if session.json else answers
        self._on_result = on_result if self._answers is None else self._answers.add
        #: Whether the run is shown as JSON objects; the resources of ``resource`` are one document at the end.
        self._json = session.json and work.command != "resource"
        #: Whether lines are shown as they come, and not in groups of hosts.
        self._every_line = not session.json and session.log.enabled("info")
        #: The number of groups that have been shown, and the names of failed hosts.
        self._shown, self._failed = 0, list[str]()
        #: When the run began, and when the line of progress and the notice without a terminal are due.
        self._began = self._next = time.monotonic()
        self._notice = self._began + _NOTICE
        self._live: LiveLines | None = None
        #: Whether a question waits for its answer; a signal handler that raises ``InterruptedError`` ends the wait.
        self.question_open = False

    def __enter__(self) -> Self:
        """Begin to show progress on a terminal, unless with ``--json`` or ``--quiet``; it ends with the block."""
        if not (self._session.json or self._session.settings.get("quiet")):
            self._live = self._session.output.live_lines()
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the line of progress."""
        if self._live is not None:
            self._live.close()

    def host_started(self, host: Host, batch: int) -> None:
        """Begin the span of a host in the trace, as its job was sent; with ``--json`` emit the start."""
        if self._session.tracing is not None:
            self._session.tracing.host_started(host.name)
        if self._json:
            self._emit("host_start", {"host": host.name, "batch": batch})

    def host_event(self, host: str, document: Mapping[str, object]) -> None:
        """Receive a document that a host has sent, such as a step or the result, and show it at once where demanded.

        With ``--json`` it is emitted, with ``--verbose`` its lines are shown. Of a result, the answer is saved as the
        host's plan for ``-o``, and passed to ``on_result``. The trace gets a span of each step.
        """
        kind = document["type"]
        if self._session.tracing is not None:
            self._session.tracing.host_event(host, document)
        if kind == "result":
            answer = document.get("document")
            if self._out is not None:
                saved_plan.write_document(f"{self._out}/{host}.json", answer)
            if self._on_result is not None:
                self._on_result(host, answer)
        if self._json and kind in EVENTS:
            received = datetime.now(UTC).isoformat()
            self._session.output.emit({"timestamp": received, **document, "host": host, "received": received})
        elif self._every_line:
            for line in text.prefixed(host, lines_of(self._session, self._work, document)):
                self._session.output.error_text(line)

    def host_ended(self, report: HostReport) -> None:
        """Receive the outcome of a host; with ``--json`` emit it, with ``--verbose`` show its error at once.

        A failed host is named in the line of progress from now on. The host's span in the trace ends.
        """
        if not report.succeeded:
            self._failed.append(report.name)
        if self._session.tracing is not None:
            self._session.tracing.host_ended(report)
        if self._json:
            body: dict[str, object] = {"host": report.name, "status": report.status, "summary": report.summary}
            body |= {"error": report.error or None, "seconds": round(report.seconds, 6), "batch": report.batch}
            self._emit("host_end", {**body, "exit_code": report.code} if self._work.command == "run" else body)
        elif self._every_line and report.error and report.status != "untouched":
            for line in text.prefixed(report.name, [text.error(report.error)]):
                self._session.output.error_text(line)

    def batch_ended(self, batch: BatchReport) -> None:
        """Show the results of a batch that no earlier batch had, and its counts if another batch follows.

        Overviews and the resources of ``resource`` are left out: they are one table at the end. With ``--verbose`` the
        lines of results were shown when they came.
        """
        if self._json:
            self._emit("batch_end", _batch(batch))
        groups = self._merge.in_order(self._merge.groups[self._shown :])
        self._shown = len(self._merge.groups)
        if self._session.json or self._answers is not None or self._work.command == "resource":
            return
        if not self._every_line:
            self._session.output.print(self._group_lines(groups))
        if batch.of > 1 and batch.remaining:
            following = 0 if batch.last else batch.remaining  # after too many failures no host follows
            counts = text.shown_counts(self._work.command, batch.counts)
            self._session.output.print(text.batch(batch.number, batch.of, counts, following))

    def next_batch(self, batch: BatchReport) -> str:
        """Return the reason not to begin the next batch, which ends the run, or "".

        ``--between`` runs a command of the user, whose failure is a reason. ``--pause`` asks the user, whose no is one.
        """
        settings = self._session.settings
        if not (settings.get("between") or settings.get("pause")):
            return ""
        self._release_terminal()
        if settings["between"]:
            outcomes = {"names": list(batch.outcomes), "outcomes": dict(batch.outcomes)}
            return self._run_hook("between", "batch_end", {**_batch(batch), **outcomes})
        self.question_open = True
        try:
            verb = "follows" if batch.remaining == 1 else "follow"
            go_on = self._session.output.confirmed(f"{text.hosts_of(batch.remaining)} {verb}. Go on?", short=True)
        except InterruptedError:
            return "interrupted"
        finally:
            self.question_open = False
        return "" if go_on else "the answer was no"

    def before_batch(self, batch: BatchStart) -> str:
        """Return the reason not to begin a batch, or "": a failure of the command ``--before``, which ends the run."""
        if not self._session.settings.get("before"):
            return ""
        self._release_terminal()
        body = {"batch": batch.number, "batches": batch.of, "names": list(batch.names), "left": batch.remaining}
        return self._run_hook("before", "batch_start", body)

    def _release_terminal(self) -> None:
        """Erase the line of progress, and write the output so far, before a question or a command of the user.

        Otherwise their text would be mixed with that line, or stand above earlier results.
        """
        if self._live is not None:
            self._live.show(())
        self._session.output.flush()

    def _run_hook(self, option: str, kind: str, body: Mapping[str, object]) -> str:
        """Run the command of ``--before`` or ``--between`` with a JSON document on stdin; return its failure, or ""."""
        document = documents.line(kind, {"run": self._run, **body})
        code = interactive.shell(self._session.settings[option], f"{json.dumps(document)}\n")
        return f"--{option} has ended with exit code {code}" if code else ""

    def interrupted(self, times: int) -> None:
        """Log the effect of an interrupt, the ``times``-th one, and that of the next one."""
        self._session.log.write("warning", "", _INTERRUPTED[min(times, len(_INTERRUPTED)) - 1])

    def running(self, started: int, ended: int, failed: int, slowest: Mapping[str, float]) -> None:
        """Show the progress: on a terminal ten times a second, elsewhere as a notice every 30 s.

        ``FleetRun`` calls it more often. ``slowest``: running host → its seconds so far, for the hosts to be named.
        """
        if (time_now := time.monotonic()) < self._next:
            return
        self._next = time_now + _TICK
        counts = text.progress(len(self._work.hosts), started, ended, failed, time_now - self._began)
        line = counts + text.hosts_in_progress(host_names.fold(self._failed), slowest)
        if self._live is not None:
            self._live.show([line[: self._live.size[0] - 1]])
        elif time_now >= self._notice and not self._session.json:
            self._notice = time_now + _NOTICE
            self._session.log.write("notice", "", line)

    def finish(self, reports: Sequence[HostReport], stop: str, code: int, *, can_rerun: bool) -> None:
        """Show the end of a run: the overviews, the table of resources, or the outputs and counts.

        ``stop``: the reason for an early end, or "". ``can_rerun``: the run was recorded, so that after failures the
        last line advises ``--rerun``.
        """
        seconds = time.monotonic() - self._began
        if self._json:
            body = {**self._total_counts(reports), "exit_code": code, "run": self._run, "hosts": self._merge.counts()}
            self._emit("summary", {**body, "stop": stop or None, "seconds": round(seconds, 6)})
        elif self._answers is not None:
            self._answers.show(reports)
        elif self._work.command == "resource":
            self._show_table(reports)
        else:
            if stop:
                self._session.log.write("warning", "", f"stopped: {stop}")
            self._session.output.print(self._output_lines())
            self._session.output.print(self._summary_line(seconds, can_rerun=can_rerun))

    def _summary_line(self, seconds: float, *, can_rerun: bool) -> str:
        """Return the last line of a run: the counts of hosts by status, and advice to do the rest by ``--rerun``.

        The advice stands only after a failure, and if the run is recorded (``can_rerun``).
        """
        counts, subcommand = self._merge.counts(), self._work.options.get("subcommand")
        command = f"{self._work.command} {subcommand}" if subcommand else self._work.command
        noop = bool(self._session.settings.get("noop"))
        line = text.summary(command, text.shown_counts(self._work.command, counts), seconds, noop=noop)
        if can_rerun and any(count for status, count in counts.items() if status not in SUCCEEDED):
            line += f" Run {self._run}; --rerun {self._run} does the rest."
        return line

    def document(self, reports: Sequence[HostReport], started: float, stop: str, code: int) -> FleetJson:
        """Return the document of the run for reporters, without secrets; ``stop``: the reason that it ended early."""
        ended = time.time()
        document = {
            "kind": "fleet",
            "format_version": 1,
            "tool_version": __version__,
            "command": self._work.command,
            "run": self._run,
            "started": started,
            "ended": ended,
            "seconds": round(ended - started, 6),
            "stop": stop or None,
            "summary": {**self._total_counts(reports), "exit_code": code},
            "project": self._work.shown_project,
            "stack": self._session.settings.get("stack"),
            "counts": self._merge.counts(),
            "groups": [self._group_document(group) for group in self._merge.groups],
            "hosts": [report._asdict() for report in reports],
        }
        return cast("FleetJson", self._session.log.mask.document(document))

    def _group_document(self, group: HostGroup) -> HostGroupJson:
        """Return a group of hosts with equal results, for the document of the run, with the first lines only."""
        return {"status": group.status, "hosts": host_names.fold(group.hosts), "count": len(group.hosts),
                "error": group.reason() or None, "lines": self._lines(group), "more": group.more}  # fmt: skip

    def _total_counts(self, reports: Iterable[HostReport]) -> dict[str, object]:
        """Return the counts of resources of all hosts together, and whether the run was ``noop``."""
        sums = dict.fromkeys(COUNTS, 0)
        for report in reports:
            for name, count in (report.summary or {}).items():
                sums[name] += count
        return {**sums, "noop": bool(self._session.settings.get("noop"))}

    def _group_lines(self, groups: Sequence[HostGroup]) -> Iterator[str]:
        """Yield the lines of groups of hosts: the names of the hosts, and below them their equal results, once."""
        style = self._session.output.style
        for group in sorted(groups, key=lambda group: text.ORDER.index(group.status)):
            lines = self._lines(group, color=style.color)
            if group.more:
                lines.append(f"… {group.more} more")
            if reason := group.reason():
                lines.append(text.error(reason, style))
            if lines:
                yield from text.group(host_names.fold(group.hosts), len(group.hosts), lines, style)

    def _output_lines(self) -> Iterator[str]:
        """Yield the lines of the outputs of the hosts' stacks, equal ones once under the names of their hosts."""
        style = self._session.output.style
        for number, group in enumerate(self._merge.in_order(self._merge.outputs)):
            lines = [line for values in group.documents() for line in text.outputs(values)]
            if group.more:
                lines.append("… too many to be shown: resource-api output")
            if number == 0:
                yield style.paint("Outputs:", BOLD)
            yield from text.group(host_names.fold(group.hosts), len(group.hosts), lines, style)

    def _lines(self, group: HostGroup, *, color: bool = False) -> list[str]:
        """Return the lines of the common result of a group of hosts."""
        lines = (lines_of(self._session, self._work, document, color=color) for document in group.documents())
        return list(chain.from_iterable(lines))

    def _show_table(self, reports: Sequence[HostReport]) -> None:
        """Show the resources of all hosts as one table, with equal rows folded; errors go to stderr.

        JSON is not folded, so that a program finds one row for each host and resource.
        """
        output, groups = self._session.output, self._merge.in_order(self._merge.groups)
        if self._session.json:
            hosts = ((group, name) for group in groups for name in group.hosts)
            output.print_json([_of_host(name, row) for group, name in hosts for row in _rows(group, name)])
        else:
            rows = _folded((group.hosts, row) for group in groups for row in _rows(group))
            if self._session.settings.get("form") == "csv":
                output.print(table.comma_separated(rows, terminal=output.stdout.isatty()))
            else:
                output.print(table.table(rows, output.columns))
        for report in reports:
            if not report.succeeded:
                output.error_text(text.error(f"{report.name}: {report.error or report.status}"))

    def _emit(self, kind: str, body: Mapping[str, object]) -> None:
        """Write an object of the run's JSON, with its type and the present time."""
        self._session.output.emit(documents.line(kind, body))


def lines_of(session: Session, work: Work, document: Mapping[str, object], *, color: bool = False) -> list[str]:
    """Return the lines that show a document from a host.

    Hosts are not trusted and may send any document: one that cannot be shown becomes the line of an error.
    """
    try:
        if document["type"] == "result":
            return list(_answer_lines(session, work, document.get("document")))
        return list(text.document_lines(document, color=color))
    except (*UNEXPECTED, OSError) as error:  # OSError: a time in the document that the system cannot convert
        return [text.error(f"it sent what cannot be shown: {describe_unexpected(error)}")]


def _answer_lines(session: Session, work: Work, result: object) -> Iterable[str]:
    """Return the lines of a host's result, as the same command shows it on this machine.

    The result is data, because a host does not know the style of this terminal.
    """
    style = session.output.style
    if work.command == "plan" and isinstance(result, dict):
        return plan_lines(result, session.registry, style)
    if work.command == "refresh" and isinstance(result, dict):
        return plan_text.refreshed_lines(*saved_plan.refreshed(result), style, noop=bool(session.settings.get("noop")))
    if work.command == "agent" and isinstance(result, dict):
        return text.agent_lines(result)
    if work.command == "facts":
        return text.fact_lines(result, str(work.options.get("name") or ""))
    return text.result_lines(work.command, result)


def plan_lines(document: Mapping[str, object], registry: Registry, style: Style) -> Iterable[str]:
    """Return the lines of a plan that a host has sent, or an error for a document of another form."""
    try:
        # A merged plan lacks the fields that differ from host to host.
        plan = saved_plan.validated({**NO_HOST, **document}, "plan")
        return list(plan_text.document_lines(saved_plan.show(plan, "plan", registry), style))
    except ManifestError as error:
        return [text.error(str(error))]


def _rows(group: HostGroup, host: str = "") -> Iterator[Mapping[str, object]]:
    """Yield the resources in the equal answers of a group of hosts, for the table or the JSON of ``resource``.

    Answers are equal if they differ only in the host's own name and address. For a ``host`` they are as that host has
    sent them; for "" a placeholder such as ``${host.name}`` is in them where hosts differ.
    """
    for document in group.documents(host):
        rows = document.get("document") if document["type"] == "result" else None
        if isinstance(rows, list):  # hosts may send anything
            yield from (row for row in rows if isinstance(row, dict))


def _batch(batch: BatchReport) -> dict[str, object]:
    """Return the common fields of the JSON about a finished batch."""
    return {"batch": batch.number, "batches": batch.of, "hosts": dict(batch.counts), "left": batch.remaining}


class Overviews:
    """The overviews of hosts, as they arrive, and their display."""

    def __init__(self, session: Session, seconds: float, form: str) -> None:
        """Collect overviews that hosts make of their last ``seconds``.

        ``form``: the option ``--format``; ``html`` shows them as one page, any other as a table.
        """
        self._session = session
        self._seconds = seconds
        self._form = form
        #: Host → its overview.
        self._documents: dict[str, OverviewJson] = {}

    def add(self, host: str, document: object) -> None:
        """Add the answer of a host; one of another form is left out."""
        if document_schema.accepts(document_schema.load("overview"), document):
            self._documents[host] = cast("OverviewJson", document)

    def show(self, reports: Sequence[HostReport]) -> None:
        """Print the overviews of all hosts together, as a page or a table, in the order of the selection.

        The errors of hosts without an answer go to stderr, so that the page on stdout stays whole.
        """
        hosts = [self._host(report) for report in reports]
        output = self._session.output
        if self._form == "html":
            output.print(overviews_page(hosts, self._seconds))
        else:
            rows = _folded(([host.name], run_text.overview_row(host)) for host in hosts)
            output.print(table.table(rows, output.columns))
            output.print(f"{text.hosts_of(len(hosts))}: {run_text.counts_text(run_text.status_counts(hosts))}")
        for host in hosts:
            if host.status in run_text.UNKNOWN:
                output.error_text(text.error(f"{host.name}: {host.error}"))

    def _host(self, report: HostReport) -> HostOverview:
        """Return a host with its overview, for the table or page of all hosts.

        A host that failed, or sent a document of another form, has the reason instead.
        """
        if not report.succeeded:
            status = report.status if report.status in run_text.STATUSES else "failed"
            return HostOverview(report.name, status, report.error or report.status)
        if (overview := self._documents.get(report.name)) is None:
            return HostOverview(report.name, "failed", "it sent an overview of another form")
        return HostOverview(report.name, overview["status"], overview=overview)


def overviews_page(hosts: Sequence[HostOverview], seconds: float) -> str:
    """Return the HTML page of machines; the modules of pages are loaded for it alone."""
    return overview_page.page(hosts, host_names.fold, time.time(), seconds, __version__).rstrip("\n")


def _folded(rows: Iterable[tuple[Iterable[str], Mapping[str, object]]]) -> list[dict[str, object]]:
    """Return the rows of a table of many hosts: equal rows once, with the names of their hosts, as ``web[1:50]``."""
    #: Row as text → the row, and the hosts that have it.
    equal: dict[str, tuple[Mapping[str, object], list[str]]] = {}
    for names, row in rows:
        _, hosts = equal.setdefault(json.dumps(row, sort_keys=True), (row, []))
        hosts.extend(names)
    return [_of_host(",".join(host_names.fold(names)), row) for row, names in equal.values()]


def _of_host(host: str, row: Mapping[str, object]) -> dict[str, object]:
    """Return a row with the name of its hosts as its first column, even if it has a field ``host`` of its own."""
    return {"host": host} | dict(row) | {"host": host}
