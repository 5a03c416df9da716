"""A command with ``--on``: one run over many hosts, its jobs, its connections, and the signals that end it."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
import time
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from resource_api.cli import exit_codes, hosted_work
from resource_api.cli.hosted_display import Display, lines_of
from resource_api.cli.output import threshold
from resource_api.fleet import archives, runtime_archives
from resource_api.fleet.archives import Archives
from resource_api.fleet.job import CHANGING, HostJob, document_fields, for_host, with_id
from resource_api.fleet.ledger import Ledger, digest_of
from resource_api.fleet.merge import Merge
from resource_api.fleet.run import FleetRun, make_rollout, parse_batches, parse_share
from resource_api.fleet.runtime_archives import PythonRuntimes
from resource_api.fleet.ssh_connections import SshConnections, connection_limit
from resource_api.model.report import Summary
from resource_api.model.trace import parse_traceparent
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.render.fleet import hosts_of
from resource_api.render.text import destroy_question
from resource_api.runtime import saved_plan
from resource_api.runtime.signals import SIGNALS
from resource_api.state.open_store import open_store
from resource_api.system.filesystem import directories
from resource_api.system.filesystem.directories import state_directory
from resource_api.system.filesystem.permissions import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from resource_api.cli.hosted_display import Overviews
    from resource_api.cli.hosted_work import Work
    from resource_api.cli.session import Session
    from resource_api.fleet.connections import Host, HostConnections
    from resource_api.fleet.ledger import RecordedRun
    from resource_api.fleet.run import Rollout
    from resource_api.model.options import Settings

    V = TypeVar("V")

#: The number of interrupts of the user that ends this process at once.
_LAST_INTERRUPT: Final = 4
#: The counts of a destruction that its question is about.
_COUNTED: Final = ("deleted", "forgotten", "updated")


def run(
    session: Session,
    command: str,
    manifest: str | None = None,
    *,
    out: str | None = None,
    confirm: Callable[[str], bool] | None = None,
    answers: Overviews | None = None,
    **arguments: object,
) -> int:
    """Run a command on the selected hosts, show the outcome of each, and return the exit code.

    With ``--rerun`` the hosts are those that a recorded run has left undone. ``confirm`` asks the question of
    ``destroy``, which runs twice: to show the plans of all hosts, and to carry out the confirmed ones. ``out``: the
    directory of saved plans. ``answers`` collects the answers of a reading command, to show them together.
    ``arguments``: those that only this command has.
    """
    settings = session.settings
    _check_options(settings)
    if out is not None:
        arguments["save"] = True
        _make_directory(out)
    is_recorded = command in CHANGING and not settings.get("noop")
    rerun = settings.get("rerun")
    with closing(Ledger(_fleet_directory())) if is_recorded or rerun else nullcontext() as ledger:
        earlier = ledger.find(rerun) if ledger is not None and rerun else None
        hosts = hosted_work.select_hosts(session, manifest, earlier)
        work = hosted_work.prepare(session, command, manifest, hosts, arguments)
        hosted_run = HostedRun(session, work, ledger.key if ledger else b"", earlier)
        if confirm is not None:
            confirmed, code = _confirmed_plans(hosted_run, work, settings["stack"], confirm)
            if not confirmed:
                return code
            # A host without a confirmed plan, because an unreachable one is ignored, is left alone.
            hosts = {name: inventory for name, inventory in work.hosts.items() if name in confirmed}
            work = work._replace(hosts=hosts, confirmed=confirmed)
        return hosted_run.run(work, ledger if is_recorded else None, out, answers=answers)


def _confirmed_plans(
    hosted_run: HostedRun, work: Work, stack: str, confirm: Callable[[str], bool]
) -> tuple[Mapping[str, Mapping[str, object]], int]:
    """Plan a destruction on all hosts, show the plans and ask; return the confirmed ones by host, and 0.

    A host plans again before it destroys anything and compares with the confirmed plan. Without a yes, or if nothing
    would be destroyed, return no plan and the exit code of the command.
    """
    plans = ShownPlans()
    # A destruction is the plan of the empty manifest.
    planning = work._replace(command="plan", options={**work.options, "empty": True})
    code = hosted_run.run(planning, on_result=plans.add)
    if not (exit_codes.is_planned(code) and plans.summary.changed):
        return {}, code  # the planning has failed, or there is nothing to destroy
    return (plans.confirmed, 0) if confirm(plans.question(stack)) else ({}, 1)


class HostedRun:
    """Runs of one command over hosts, with the archives of this package and of the user's modules."""

    def __init__(self, session: Session, work: Work, key: bytes, earlier: RecordedRun | None) -> None:
        """Make the archives that hosts need for ``work``; ``key``: the key of the digests of inputs.

        A rerun does the rest of the ``earlier`` run, whose batches are the default. Its hosts must get the same as the
        others: raise ``ManifestError`` if ``work`` has another manifest, input or module than that run.
        """
        self._session = session
        self._package = archives.package_archive(f"{_fleet_directory()}/payloads", work.libraries)
        self._modules = archives.modules_archive(session.registry.user_directories, session.registry.trust.read)
        #: The digest of the command's content, which is recorded.
        self._digest = hosted_work.digest(session, work, self._modules.digest if self._modules else "", key)
        if earlier is not None:
            hosted_work.check_earlier(earlier, work, self._digest, key)
        request = earlier.request if earlier is not None else {}
        #: The texts of ``--batches`` and ``--stop-after``, or None.
        self._batches = {name: session.settings.get(name) or request.get(name) for name in ("batches", "stop_after")}

    def run(
        self,
        work: Work,
        ledger: Ledger | None = None,
        out: str | None = None,
        on_result: Callable[[str, object], None] | None = None,
        answers: Overviews | None = None,
    ) -> int:
        """Run over the hosts of ``work`` and return the exit code; ``destroy`` calls it twice, to plan and to act.

        ``ledger``: records the run, None for one that is not recorded. ``out``: the directory of saved plans.
        ``on_result`` receives each host with the document of its answer. ``answers``: as for the function ``run``.
        """
        session, settings = self._session, self._session.settings
        rollout_plan = self._rollout(len(work.hosts))
        run_id, key = self._begin(work, ledger)
        # A table, of resources or of overviews, is made of the documents: their text is not needed.
        answer_text = partial(lines_of, session, work) if work.command != "resource" and answers is None else None
        # The counts in an answer of ``report`` are those of an earlier run, not of this one.
        merge = Merge(threshold(settings), session.log.mask, answer_text, counted=work.command != "report")
        started = time.time()
        if session.tracing is not None:
            session.tracing.begin_run()
        display = Display(session, work, run_id, merge, out, on_result=on_result, answers=answers)
        ignored = ("unreachable",) if settings["unreachable"] == "ignore" else ()
        with closing(self._connections(work)) as connections:
            gc.freeze()  # present objects stay until the end: the collector need not search them
            fleet = FleetRun(
                list(work.hosts),
                rollout_plan,
                connections,
                partial(self._job, work, with_id(self._shared_job(work, run_id), key), key),
                merge=merge,
                observer=display,
                record=(ledger, run_id) if ledger else None,
                host_timeout=settings["host_timeout"],
                ignored=ignored,
            )
            with _interruptible(fleet, display) as signals, display:
                stop = fleet.run()
        reports = [merge.reports[name] for name in work.hosts]
        detailed = bool(settings.get("detailed_exitcodes"))
        code = exit_codes.of_hosts(work.command, reports, detailed=detailed, ignored=ignored, signals=signals)
        session.set_document(display.document(reports, started, stop, code))
        display.finish(reports, stop, code, can_rerun=ledger is not None)
        return code

    def _rollout(self, hosts: int) -> Rollout:
        """Return the batches of a run over a number of hosts, and the number of failures that it allows.

        Raise ``UsageError`` for a wrong text of ``--batches`` or ``--stop-after``.
        """
        batches = _parsed("--batches", self._batches["batches"], parse_batches)
        bound = _parsed("--stop-after", self._batches["stop_after"], parse_share)
        return make_rollout(hosts, self._session.settings["at_once"], batches, bound)

    def _begin(self, work: Work, ledger: Ledger | None) -> tuple[str, bytes]:
        """Begin the record of the run for a later ``--rerun``, if there is a ledger, as for a run that changes hosts.

        Return the run's id, and the key of the digests of inputs or b"". The record has only digests of the inputs,
        which may be secret: a rerun compares them.
        """
        if ledger is None:
            return secrets.token_hex(8), b""
        settings, key = self._session.settings, ledger.key
        # Hosts without inputs of their own share one mapping, whose digest is computed once.
        mappings = {id(inputs): inputs for inputs in work.inputs.values()}
        digests = {identity: digest_of(inputs, key) for identity, inputs in mappings.items()}
        fields = {
            "on": list(settings["on"]) or [",".join(work.hosts)],
            "command": work.command,
            "hosts_file": settings["hosts_file"],
            **self._batches,
        }
        return ledger.begin(fields, self._digest, ((name, digests[id(work.inputs[name])]) for name in work.hosts)), key

    def _connections(self, work: Work) -> HostConnections:
        """Return connections to the hosts; warn if the limit of open files allows fewer of them than ``--at-once``."""
        settings = self._session.settings
        transports = {inventory.transport(name) for name, inventory in work.hosts.items()}
        hosts = min(settings["at_once"], len(work.hosts))
        if (limit := connection_limit(hosts, transports)) < hosts:
            text = f"only {limit} hosts side by side: this process may not open more files; see ulimit -n"
            self._session.console.show_problem(Problem(None, text, "warning"))
        return open_connections(Archives(self._package, self._modules), settings, transports)

    def _shared_job(self, work: Work, run_id: str) -> HostJob:
        """Return the part of the job that is the same for all hosts, made once; ``_job`` adds each host's own part.

        The operator, as in ``anna@laptop``, is named in messages to other users who wait for the lock of a host.
        """
        context = parse_traceparent(os.environ.get("TRACEPARENT", ""))
        return HostJob(
            work.command,
            run_id,
            payload=self._package.digest,
            modules=self._modules.digest if self._modules is not None else None,
            documents=[document_fields(document) for document in work.documents],
            files=work.files,
            options={**work.options, "libraries": work.libraries},
            traceparent=str(context) if context is not None else None,
            operator=f"{os.environ.get('SUDO_USER') or user_name(os.getuid())}@{os.uname().nodename}",
        )

    def _job(self, work: Work, shared: HostJob, key: bytes, name: str) -> tuple[Host, HostJob]:
        """Return a host and its job: the ``shared`` part with the host's own inputs, plan and span of the trace.

        ``FleetRun`` calls this at the host's turn, so that not all jobs are in memory at once. ``key``: the key of the
        digests of inputs.
        """
        host = work.hosts[name].host(name)
        if (seconds := self._session.settings["connect_timeout"]) is not None:
            host = host._replace(connect_timeout=seconds)
        options: dict[str, object] = {}
        if work.plans:
            options["saved_plan"] = work.plans[name]
        if work.confirmed:
            options["confirmed"] = work.confirmed[name]
        fields = {"name": name, "groups": list(host.groups), "address": host.address or name}
        if (tracing := self._session.tracing) is not None:
            shared = shared._replace(traceparent=str(tracing.host_context(name)))
        return host, for_host(shared, fields, work.inputs[name], options, key)


def open_connections(sent: Archives, settings: Settings, transports: Collection[str]) -> HostConnections:
    """Return connections by ``transports``, such as ``asyncssh``. Raise ``ResourceError`` if a library is missing."""
    runtimes = PythonRuntimes(runtime_archives.directory(os.environ))
    return SshConnections(sent, limit=settings["at_once"], runtime=runtimes.find, transports=transports)


def _parsed(option: str, text: str | None, parse: Callable[[str], V]) -> V | None:
    """Return the parsed value of an option, or None without one. Raise ``UsageError``."""
    with errors_as(UsageError, begin=f"{option}: "):
        return parse(text) if text is not None else None


@contextmanager
def _interruptible(run: FleetRun, display: Display) -> Iterator[list[int]]:
    """Let each signal in the block end the run more abruptly, see ``handle``; yield the list of signals so far.

    The caller needs the last one for the exit code.
    """
    signals = list[int]()

    def handle(number: int, _frame: object) -> None:
        """End the run more abruptly with each signal.

        The first one starts no further hosts, the second ends running hosts after their step, the third no longer waits
        for them, and the fourth exits at once.
        """
        signals.append(number)
        if len(signals) >= _LAST_INTERRUPT:
            os._exit(128 + number)
        run.interrupt()
        if display.question_open:
            raise InterruptedError  # otherwise the wait for the answer goes on

    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ShownPlans:
    """The plans of a destruction that hosts have sent: their counts for the question, and the identity of each."""

    def __init__(self) -> None:
        """Begin without a plan; hosts send theirs one by one."""
        #: Host → the identity of its plan, which the host compares before it destroys anything.
        self.confirmed: dict[str, Mapping[str, object]] = {}
        #: The counts of all hosts together.
        self.summary = Summary()
        #: The projects, in the order of their arrival.
        self._projects: dict[str, None] = {}
        #: The number of hosts on which something would be destroyed.
        self._acting = 0

    def add(self, host: str, document: object) -> None:
        """Add a host's plan to the counts in the question, and keep its identity for the destruction.

        A document of another form is ignored: that host then has no confirmed plan, and nothing is destroyed there.
        """
        try:
            plan = saved_plan.validated(document, host)
        except ManifestError:
            return
        self.confirmed[host] = saved_plan.confirmation(plan)
        counts = {name: plan["summary"][name] for name in _COUNTED}
        self._acting += any(counts.values())
        totals = {name: getattr(self.summary, name) + count for name, count in counts.items()}
        self.summary = self.summary._replace(**totals)
        self._projects[plan["project"]] = None

    def question(self, stack: str) -> str:
        """Return the question whether to destroy the resources of all plans so far."""
        return destroy_question(self.summary, ", ".join(self._projects), stack, f", on {hosts_of(self._acting)}")


def _check_options(settings: Settings) -> None:
    """Raise ``UsageError`` for wrong options before any host is contacted.

    These are options that hosts cannot follow, that contradict each other, or that need a terminal.
    """
    if (url := settings.get("state")) is not None:
        if url.startswith("postgresql:"):
            advice = "leave out --state and RESOURCE_API_STATE, or name a path on the hosts with sqlite:PATH"
            raise UsageError(f"with --on each host keeps its own state: {advice}")
        open_store(url)  # raises for an invalid URL
    if settings.get("pause") and settings.get("between"):
        raise UsageError("--pause and --between exclude each other")
    if settings.get("explain"):
        raise UsageError("--explain cannot be given with --on: hosts send their plans without the declarations")
    if settings.get("pause") and not sys.stdin.isatty():
        raise UsageError("--pause asks on a terminal, and standard input is none; --between runs a command instead")


def _make_directory(path: str) -> None:
    """Make the directory of ``-o``, for plans that may have secrets, private unless it exists. Raise ``UsageError``."""
    with errors_as(UsageError, OSError, f"-o {path}: with --on this is a directory of plans: "):
        os.stat(os.path.dirname(os.path.abspath(path)))  # raises if the directory above is missing, likely mistyped
        directories.make_directory(path)


def _fleet_directory() -> str:
    """Return the directory of the ledger and of the archives for hosts. Raise ``UsageError``."""
    return os.environ.get("RESOURCE_API_FLEET") or state_directory(os.environ)
