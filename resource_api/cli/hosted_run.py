"""A command with ``--on``: one run over many hosts, its jobs, its connections, and the signals that end it."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.cli import exit_codes, hosted_work
from resource_api.cli.hosted_display import Display
from resource_api.cli.output import threshold
from resource_api.fleet import merge, payload, python_runtimes, rollout, sent_manifest
from resource_api.fleet.job import CHANGING, Job, for_host, with_id
from resource_api.fleet.ledger import Ledger, digest_of
from resource_api.fleet.merge import Merge
from resource_api.fleet.payload import Payloads
from resource_api.fleet.python_runtimes import Runtimes
from resource_api.fleet.run import FleetRun
from resource_api.model.report import Summary
from resource_api.model.values.errors import Problem, UsageError
from resource_api.plugins.module_path import BUNDLED
from resource_api.render.fleet import hosts_of
from resource_api.render.text import destroy_question
from resource_api.runtime import saved_plan
from resource_api.runtime.signals import SIGNALS
from resource_api.state.open_store import open_store
from resource_api.system.filesystem import directories
from resource_api.system.state_directory import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from resource_api.cli.hosted_work import Work
    from resource_api.cli.session import Session
    from resource_api.fleet.carriers.carrier import Carrier, Host
    from resource_api.fleet.payload import Archive
    from resource_api.fleet.rollout import Rollout

    V = TypeVar("V")


#: Which of the user's interrupts ends this process at once.
_LAST: Final = 4


def make_carrier(payloads: Payloads, settings: Mapping[str, Any], transports: Collection[str]) -> Carrier:
    """Return a carrier that uses these transports. Raise ``ResourceError`` where a library is not installed."""
    from resource_api.fleet.carriers import ssh_carrier

    runtimes = Runtimes(python_runtimes.directory(os.environ))
    return ssh_carrier.SshCarrier(
        payloads, connections=settings["at_once"], runtime=runtimes.find, transports=transports
    )


class HostedRun:
    """Runs over hosts, with one archive of this package."""

    def __init__(self, session: Session, package: Archive, modules: Archive | None) -> None:
        """Send the archives of this package and of the user's modules, None for none."""
        self._session = session
        self._package = package
        self._modules = modules

    def go(
        self,
        work: Work,
        record: tuple[Ledger, str] | None = None,
        out: str | None = None,
        on_result: Callable[[str, Any], None] | None = None,
    ) -> int:
        """Run over the hosts of ``work`` and return the exit code.

        ``record``: the ledger that the run is recorded in, with its digest. ``out``: the directory that saved plans are
        written into. ``on_result`` gets each host with the document that it has answered with.
        """
        session, settings = self._session, self._session.settings
        plan = _rollout(settings, len(work.hosts))
        generation = record[0].next_generation(work.project) if record else int(time.time() * 1000)
        run, key = self._begin(work, record)
        merge = Merge(threshold(settings), session.log.mask)
        shared = Job(
            work.command,
            generation,
            payload=self._package.digest,
            modules=self._modules.digest if self._modules is not None else None,
            documents=[sent_manifest.to_fields(each) for each in work.documents],
            files=work.files,
            options=work.options,
            traceparent=os.environ.get("TRACEPARENT"),
        )
        started = time.time()
        display = Display(session, work, run, merge, out, on_result=on_result)
        job_for = partial(self._job, work, with_id(shared, key), key)
        ignored = ("unreachable",) if settings["unreachable"] == "ignore" else ()
        transports = {inventory.transport(name) for name, inventory in work.hosts.items()}
        self._check_limit(min(settings["at_once"], len(work.hosts)), transports)
        with closing(make_carrier(Payloads(self._package, self._modules), settings, transports)) as carrier:
            gc.freeze()  # what is there now stays until the end: carriers free what hosts leave, and need not search it
            fleet = FleetRun(
                list(work.hosts),
                plan,
                carrier,
                job_for,
                merge=merge,
                observer=display,
                record=(record[0], run) if record else None,
                host_timeout=settings["host_timeout"],
                ignored=ignored,
            )
            with _interruptible(fleet, display) as signals, display:
                stop = fleet.run()
        reports = [merge.reports[name] for name in work.hosts]
        detailed = bool(settings.get("detailed_exitcodes"))
        code = exit_codes.of_hosts(work.command, reports, detailed=detailed, ignored=ignored, signals=signals)
        session.reported(display.document(reports, started, stop, code))
        display.finish(reports, stop, code, left=record is not None)
        return code

    def _begin(self, work: Work, record: tuple[Ledger, str] | None) -> tuple[str, bytes]:
        """Return the id of the run, and the key of digests."""
        if record is None:
            return secrets.token_hex(8), b""
        ledger, digest = record
        key, known = ledger.key, dict[int, bytes]()
        for each in work.inputs.values():
            if id(each) not in known:
                known[id(each)] = digest_of(each, key)
        about = {"on": list(self._session.settings["on"]) or [",".join(work.hosts)], "command": work.command}
        about["hosts_file"] = self._session.settings["hosts_file"]
        hosts = ((name, known[id(work.inputs[name])]) for name in work.hosts)
        return ledger.begin(about, digest, hosts), key

    def _check_limit(self, wanted: int, transports: Collection[str]) -> None:
        """Warn where fewer connections can be open than the number of hosts to work on in parallel."""
        from resource_api.fleet.carriers.ssh_carrier import connection_limit

        if (found := connection_limit(wanted, transports)) < wanted:
            text = f"only {found} hosts side by side: this process may not open more files; see ulimit -n"
            self._session.report_problem(Problem(None, text, "warning"))

    def _job(self, work: Work, shared: Job, key: bytes, name: str) -> tuple[Host, Job]:
        host = work.hosts[name].host(name)
        if (seconds := self._session.settings["connect_timeout"]) is not None:
            host = host._replace(connect_timeout=seconds)
        given = {"saved_plan": work.plans[name]} if work.plans else {}
        given |= {"confirmed": work.confirmed[name]} if work.confirmed else {}
        about = {"name": name, "groups": list(host.groups), "address": host.address or name}
        return host, for_host(shared, about, work.inputs[name], given, key)


def _rollout(settings: Mapping[str, Any], total: int) -> Rollout:
    """Return the rollout that the options describe. Raise ``UsageError``."""
    given = _parsed("--batches", settings["batches"], rollout.batches)
    bound = _parsed("--stop-after", settings["stop_after"], rollout.share)
    return rollout.rollout(total, settings["at_once"], given, bound)


def _parsed(option: str, text: str | None, parse: Callable[[str], V]) -> V | None:
    try:
        return parse(text) if text is not None else None
    except ValueError as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from error


@contextmanager
def _interruptible(run: FleetRun, display: Display) -> Iterator[list[int]]:
    """Have signals end a run in an orderly way; the value yielded has the signals that came."""
    came = list[int]()

    def handle(number: int, _frame: object) -> None:
        came.append(number)
        if len(came) >= _LAST:
            os._exit(128 + number)
        run.interrupt()
        if display.question_open:
            raise InterruptedError

    before: dict[int, Any] = {}
    for each in SIGNALS:
        if (handler := signal.getsignal(each)) is not signal.SIG_IGN:
            before[each] = handler
            signal.signal(each, handle)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        hosts = hosted_work.select_hosts(session, manifest, earlier)
        wanted = hosted_work.prepare(session, command, manifest, hosts, special)
        archive, modules = _archives(session)
        key = ledger.key if ledger else b""
        digest = hosted_work.digest(session, wanted, modules.digest if modules else "", key)
        if earlier is not None:
            hosted_work.check_earlier(earlier, wanted, digest, key)
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
