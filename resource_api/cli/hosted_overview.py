"""The answers of ``report --since`` from many hosts: one table, or one page."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, cast

from resource_api.fleet import host_names
from resource_api.model.values.version import __version__
from resource_api.render import run_text
from resource_api.render.fleet import error, hosts_of
from resource_api.render.html import overview as overview_page
from resource_api.render.run_text import HostOverview
from resource_api.render.table import table
from resource_api.system import document_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.merge import HostReport
    from resource_api.model.json_documents import OverviewJson

_WRONG_ANSWER: Final = "it sent an overview of another form"


class Overviews:
    """The overviews of hosts, as they arrive, and their display."""

    def __init__(self, session: Session, seconds: float, form: str) -> None:
        """Begin with none; ``form``: ``html`` for a page, otherwise a table."""
        self._session = session
        self._seconds = seconds
        self._form = form
        self._documents: dict[str, OverviewJson] = {}

    def add(self, host: str, document: object) -> None:
        """Add the answer of a host; one of another form is left out."""
        if document_schema.accepts(document_schema.load("overview"), document):
            self._documents[host] = cast("OverviewJson", document)

    def show(self, reports: Sequence[HostReport]) -> None:
        """Print all hosts in the order of the selection, and the errors of those without an answer."""
        hosts = [self._host(report) for report in reports]
        output = self._session.output
        if self._form == "html":
            output.print(page(hosts, self._seconds))
        else:
            output.print(table(list(_folded(hosts)), output.columns))
            output.print(f"{hosts_of(len(hosts))}: {run_text.counts_text(run_text.status_counts(hosts))}")
        for host in hosts:
            if host.status in run_text.UNKNOWN:
                output.error_text(error(f"{host.name}: {host.error}"))

    def _host(self, report: HostReport) -> HostOverview:
        """Return a host with its overview, or with the reason that it has none."""
        if not report.succeeded:
            status = report.status if report.status in run_text.STATUSES else "failed"
            return HostOverview(report.name, status, report.error or report.status)
        if (overview := self._documents.get(report.name)) is None:
            return HostOverview(report.name, "failed", _WRONG_ANSWER)
        return HostOverview(report.name, overview["status"], overview=overview)


def of_this_machine(overview: OverviewJson) -> HostOverview:
    """Return this machine with its overview, under its own name, for the page that hosts have too."""
    return HostOverview(os.uname().nodename, overview["status"], overview=overview)


def page(hosts: Sequence[HostOverview], seconds: float) -> str:
    """Return the HTML page of machines; the modules of pages are loaded for it alone."""
    return overview_page.page(hosts, host_names.fold, time.time(), seconds, __version__).rstrip("\n")


def _folded(hosts: Iterable[HostOverview]) -> Iterable[dict[str, object]]:
    """Return the rows of the table; hosts with equal rows are one."""
    names: dict[tuple[tuple[str, object], ...], list[str]] = {}
    for host in hosts:
        _, *cells = run_text.overview_row(host).items()  # the first is the name
        names.setdefault(tuple(cells), []).append(host.name)
    return ({"host": ",".join(host_names.fold(equal)), **dict(cells)} for cells, equal in names.items())
