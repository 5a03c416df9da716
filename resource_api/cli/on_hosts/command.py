"""A command with `--on`: it selects hosts, prepares what they are to do, and runs over them."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final

from resource_api.cli import exit_codes
from resource_api.cli.on_hosts import selected_hosts, work
from resource_api.cli.on_hosts.hosted_run import HostedRun
from resource_api.fleet import merge, payload
from resource_api.fleet.job import CHANGING
from resource_api.fleet.ledger import Ledger
from resource_api.model.report import Summary
from resource_api.model.values.errors import UsageError
from resource_api.plugins.module_path import BUNDLED
from resource_api.render.fleet import hosts_of
from resource_api.render.text import destroy_question
from resource_api.runtime import saved_plan
from resource_api.state.open_store import open_store
from resource_api.system.filesystem import directories
from resource_api.system.state_directory import state_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.cli.session import Session

#: The counts of a destruction that its question is about.
_COUNTED: Final = ("deleted", "forgotten", "updated")


def carry(session: Session, command: str, manifest: str | None = None, **special: Any) -> int:
    """Carry out a command on the selected hosts, show what has become of each, and return the exit code.

    ``special``: what only this command has, by name; ``confirm`` of ``destroy`` is called with a question about its
    plan, and returns whether to go on.
    """
    out, confirm = special.pop("out", None), special.pop("confirm", None)
    settings = session.settings
    _check_options(settings)
    if out is not None:
        special["save"] = True
        _make_directory(out)
    with ExitStack() as stack:
        ledger: Ledger | None = None
        if (command in CHANGING and not settings.get("noop")) or settings.get("rerun"):
            ledger = stack.enter_context(closing(Ledger(_directory())))
        earlier = ledger.find(settings["rerun"]) if ledger is not None and settings.get("rerun") else None
        hosts = selected_hosts.select(session, manifest, earlier)
        wanted = work.prepare(session, command, manifest, hosts, special)
        archive, modules = _archives(session)
        key = ledger.key if ledger else b""
        digest = work.digest(session, wanted, modules.digest if modules else "", key)
        if earlier is not None:
            work.check_earlier(earlier, wanted, digest, key)
        run = HostedRun(session, archive, modules)
        if confirm is not None:
            shown = ShownPlans()
            empty = wanted._replace(command="plan", options={**wanted.options, "empty": True})
            code = run.go(empty, on_result=shown.add)
            if not (exit_codes.is_planned(code) and shown.summary.changed):
                return code
            if not confirm(shown.question(session.settings["stack"])):
                return 1
            # A host that has shown no plan, because it does not matter that it is unreachable, is left alone.
            hosts = {name: inventory for name, inventory in wanted.hosts.items() if name in shown.confirmed}
            wanted = wanted._replace(hosts=hosts, confirmed=shown.confirmed)
        return run.go(wanted, (ledger, digest) if ledger is not None and command in CHANGING else None, out)


class ShownPlans:
    """The plans of a destruction that hosts have sent: what they would do, and by what each is known again."""

    def __init__(self) -> None:
        """Begin with none."""
        self.confirmed: dict[str, Mapping[str, Any]] = {}
        self.summary = Summary()
        self._projects: dict[str, None] = {}
        self._acting = 0

    def add(self, host: str, plan: Any) -> None:
        """Take the plan of a host; what it has sent may be anything."""
        if not isinstance(plan, dict):
            return
        self.confirmed[host] = saved_plan.confirmation(plan)
        counts = plan.get("summary")
        found = {name: merge.count(counts.get(name)) for name in _COUNTED} if isinstance(counts, dict) else {}
        self._acting += any(found.values())
        self.summary = self.summary._replace(**{n: getattr(self.summary, n) + count for n, count in found.items()})
        if isinstance(project := plan.get("project"), str):
            self._projects[project] = None

    def question(self, stack: str) -> str:
        """Return the question whether all this is to be done."""
        return destroy_question(self.summary, ", ".join(self._projects), stack, f", on {hosts_of(self._acting)}")


def _check_options(settings: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for options that contradict each other, that nobody could answer, or no host could use."""
    if settings.get("state") is not None:
        open_store(settings["state"])
    if settings["pause"] and settings["between"]:
        msg = "--pause and --between exclude each other"
        raise UsageError(msg)
    if settings["pause"] and not sys.stdin.isatty():
        msg = "--pause asks on a terminal, and standard input is none; --between runs a command instead"
        raise UsageError(msg)


def _make_directory(path: str) -> None:
    """Make a directory that nobody else can open; one that exists stays as it is. Raise ``UsageError``."""
    try:
        os.stat(os.path.dirname(os.path.abspath(path)))
        directories.make_directory(path)
    except OSError as error:
        msg = f"-o {path}: with --on this is a directory of plans: {error.strerror}"
        raise UsageError(msg) from error


def _archives(session: Session) -> tuple[payload.Archive, payload.Archive | None]:
    """Return the archives of this package and of the user's modules."""
    package = payload.package(f"{_directory()}/payloads")
    modules = [each for each in session.registry.directories if each != BUNDLED]
    return package, payload.modules(modules, session.registry.trust.read)


def _directory() -> str:
    """Return where the ledger and what is sent to hosts are kept. Raise ``UsageError``."""
    return os.environ.get("RESOURCE_API_FLEET") or state_directory(os.environ)
