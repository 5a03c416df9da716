"""A command with `--on`: the hosts, their jobs, and the run over them; on each host the command runs there."""

from __future__ import annotations

import gc
import hashlib
import os
import secrets
import signal
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.cli import exit_codes, given_inputs, options
from resource_api.cli.fleet_display import Display, Total
from resource_api.cli.output import threshold
from resource_api.fleet import host_names, manifest_files, payload, python_runtimes, rollout, sent_manifest
from resource_api.fleet.carriers import carrier as carriers
from resource_api.fleet.host_inputs import Given, HostInputs
from resource_api.fleet.job import CHANGING, Job, for_host, with_id
from resource_api.fleet.ledger import Ledger, digest_of
from resource_api.fleet.merge import Merge
from resource_api.fleet.python_runtimes import Runtimes
from resource_api.fleet.run import FleetRun
from resource_api.fleet.selection import Selection, beside
from resource_api.manifest.input_values import EnvironmentInput
from resource_api.manifest.sections import assemble, project_name
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem, UsageError, nearest
from resource_api.plugins.module_path import BUNDLED
from resource_api.runtime import saved_plan
from resource_api.runtime.signals import SIGNALS
from resource_api.state.open_store import open_store
from resource_api.system.state_directory import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.carriers.carrier import Carrier, Host
    from resource_api.fleet.inventory import Inventory
    from resource_api.fleet.ledger import Recorded
    from resource_api.fleet.payload import Payloads
    from resource_api.fleet.rollout import Rollout
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.document import Document

    V = TypeVar("V")

#: Parameters of commands that a job has as options, as they are.
_PASSED: Final = (
    *("noop", "strict", "parallel", "fail_fast", "targets", "excludes", "with_dependencies", "with_dependents"),
    *("tags", "skip_tags", "replace", "prune", "prune_always", "isolate", "state", "stack", "project", "lock_timeout"),
    *("every_type", "filters", "provider", "config"),
)
#: Which of the user's interrupts ends this process at once.
_LAST: Final = 4
#: How many addresses that no inventory names are compared with its names.
_COMPARED: Final = 20


class _Work(NamedTuple):
    """What all jobs of a run have in common, and what each host has of its own."""

    command: str
    hosts: Mapping[str, Inventory]
    documents: Sequence[Document]
    files: Mapping[str, bytes]
    given: Given
    inputs: Mapping[str, Mapping[str, Any]]
    #: The options of the command on a host.
    options: Mapping[str, Any]
    #: Host → its saved plan, where one is carried out.
    plans: Mapping[str, Mapping[str, Any]]
    #: What generations are counted for; of a program that is given none, its last file.
    project: str
    #: Whether the manifest is a program, which only the hosts execute.
    is_program: bool = False

    @property
    def shown_project(self) -> str | None:
        """The project as reports have it; None where only the hosts know it."""
        if given := self.options.get("project"):
            return str(given)
        return None if self.is_program else self.project or None


def make_carrier(
    payloads: Payloads, settings: Mapping[str, Any], transports: Collection[str], processes: int
) -> Carrier:
    """Return what takes jobs to hosts by these transports, in so many processes.

    Raise ``ResourceError`` where a library is not installed.
    """
    from resource_api.fleet.carriers import ssh_carrier  # noqa: PLC0415 - with asyncio and asyncssh

    found = Runtimes(python_runtimes.directory(os.environ))
    make = partial(
        ssh_carrier.SshCarrier,
        payloads,
        connections=settings["at_once"],
        runtime=found.find,
        transports=transports,
    )
    if processes == 1:
        return make()
    from resource_api.fleet.carriers.read_become_password import BecomePasswords  # noqa: PLC0415 - with the others
    from resource_api.fleet.carriers.split_carrier import SplitCarrier  # noqa: PLC0415 - only for many hosts

    passwords = BecomePasswords()
    via = ssh_carrier.jump_hosts(transports)
    return SplitCarrier(partial(make, passwords=passwords), processes, passwords, via)


def carry(session: Session, command: str, manifest: str | None = None, **special: Any) -> int:
    """Carry out a command on the selected hosts, show what has become of each, and return the exit code.

    ``special``: what only this command has, by name; ``confirm`` of ``destroy`` asks whether to go on after its plan.
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
        found = _select(session, manifest, earlier)
        work = _work(session, command, manifest, found, special)
        archive, modules = _archives(session)
        payloads = payload.Payloads(archive, modules)
        digest = _digest(session, work, modules.digest if modules else "", ledger.key if ledger else b"")
        if earlier is not None:
            _check_earlier(earlier, work, digest, ledger)
        run = _Run(session, payloads, archive.digest, modules.digest if modules else None)
        if confirm is not None:
            code = run.go(work._replace(command="plan", options={**work.options, "empty": True}), None, None)
            if code or not run.changed or not confirm():
                return code or int(run.changed)
        return run.go(work, (ledger, digest) if ledger is not None and command in CHANGING else None, out)


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
        Path(path).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        msg = f"-o {path}: with --on this is a directory of plans: {error.strerror}"
        raise UsageError(msg) from error


def _plan_of(settings: Mapping[str, Any], total: int) -> Rollout:
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


# Which hosts


def _warn_of_addresses(session: Session, selection: Selection, found: Mapping[str, Inventory]) -> None:
    """Warn once of the addresses that are nearly the same name of an inventory."""
    by_hint: dict[str, list[str]] = {}
    for name, known in islice(selection.suggestions(found), _COMPARED):
        if hint := nearest(name, known):
            by_hint.setdefault(hint, []).append(name)
    for hint, names in by_hint.items():
        words = "is in no inventory and taken as an address" if len(names) == 1 else "are in no inventory: addresses"
        session.log.write("warning", "", f"'{','.join(host_names.fold(names))}' {words}; {hint}")


def _warn_of_unused(session: Session, selection: Selection, where: Sequence[str]) -> None:
    """Warn of what is to leave hosts out and is likely mistyped: the hosts that were meant are not left out."""
    for name, known in islice(selection.unused(where), _COMPARED):
        hint = nearest(name, known)
        text = f"--on: '{name}' after ! or & is neither in an inventory nor selected{'; ' if hint else ''}{hint}"
        session.log.write("warning", "", text)


def _select(session: Session, manifest: str | None, earlier: Recorded | None) -> Mapping[str, Inventory]:
    """Return the hosts and the inventory of each; of an earlier run those that it has left."""
    settings, trust = session.settings, session.registry.trust
    where = settings["on"] or (earlier.about["on"] if earlier is not None else ())
    file = settings["hosts_file"] or (earlier.about["hosts_file"] if earlier is not None else None)
    selection = Selection(file or beside(manifest), trust)
    found = selection.find(where)
    for path in selection.files:
        if why := trust.who_can_change(path):
            session.report_problem(Problem(None, f"others can change this inventory: {why}", "warning", file=path))
    _warn_of_addresses(session, selection, found)
    _warn_of_unused(session, selection, where)
    if earlier is None:
        return found
    left = {name: of for name, of in found.items() if name in earlier.left}
    if not left:
        msg = f"--rerun {earlier.id}: that run has left none of these hosts"
        raise UsageError(msg)
    return left


# What they are to do


def _work(
    session: Session, command: str, manifest: str | None, found: Mapping[str, Inventory], special: Mapping[str, Any]
) -> _Work:
    """Return what the hosts are to do. Raise ``ManifestError`` and ``UsageError`` before any is touched."""
    given, nothing = _given(session), dict[str, Any]()
    passed = {name: session.settings[name] for name in _PASSED if name in session.settings}
    passed |= {**options.run_options(session.settings), **special}
    passed["log_level"] = threshold(session.settings)
    if (key := session.settings.get("key")) is not None:
        passed["key"] = key.url
    bare = _Work(command, found, (), {}, given, dict.fromkeys(found, nothing), _plain(passed), {}, "")
    if manifest is None:
        return bare
    if command == "apply" and manifest != "-" and (plans := _saved_plans(session, manifest, found)) is not None:
        project = str(next(iter(plans.values())).get("project"))
        return bare._replace(plans=plans, project=project, options={**bare.options, "file": manifest})
    documents = _documents(session, manifest)
    is_program = any(each.file.endswith(".py") for each in documents)
    declared = None if is_program else assemble(documents)
    if declared is not None and declared.problems:
        raise ManifestError(declared.problems)
    inputs = HostInputs(declared, given).of_all(found.items())
    for each in {id(each): each for each in inputs.values()}.values():
        session.log.mask.add_inputs(each)
    files = manifest_files.contents(documents, {**given.weaker, **given.stronger})
    project = _project(session, declared, documents)
    return bare._replace(documents=documents, files=files, inputs=inputs, project=project, is_program=is_program)


def _given(session: Session) -> Given:
    """Return the inputs that the command was given: an inventory's win over those of the stack's file alone."""
    weaker, stronger, stack = dict[str, Any](), dict[str, Any](), given_inputs.stack_file(session.settings)
    for number, (values, _) in enumerate(given_inputs.by_source(session.settings)):
        (weaker if stack is not None and number == 0 else stronger).update(values)
    return Given(weaker, stronger)


def _documents(session: Session, manifest: str) -> Sequence[Document]:
    source = session.source(manifest)
    if not isinstance(source, str):
        return source.documents  # type: ignore[union-attr] # standard input has been read
    return manifest_files.read(source, session.registry.trust.open)


def _project(session: Session, declared: Manifest | None, documents: Sequence[Document]) -> str:
    if given := session.settings.get("project"):
        return str(given)
    return project_name(declared) if declared is not None else documents[-1].file


def _saved_plans(session: Session, path: str, found: Mapping[str, Inventory]) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the saved plan of each host, from the directory that ``plan -o`` has written; None for a manifest."""
    if not Path(path).is_dir():
        if saved_plan.read(path) is not None:
            msg = f"{path} is the plan of one machine; plan with --on and -o DIR, then apply DIR"
            raise UsageError(msg)
        return None
    plans: dict[str, Mapping[str, Any]] = {}
    missing: list[Problem] = []
    for name in found:
        try:
            plans[name] = saved_plan.load(f"{path.rstrip('/')}/{name}.json")
        except ManifestError as error:
            missing += error.problems
    if missing:
        raise ManifestError(missing)
    options.saved_plan_options(session.settings, next(iter(plans.values())))
    return plans


def _archives(session: Session) -> tuple[payload.Archive, payload.Archive | None]:
    """Return the archives of this package and of the user's modules."""
    package = payload.package(f"{_directory()}/payloads")
    directories = [each for each in session.registry.directories if each != BUNDLED]
    return package, payload.modules(directories, session.registry.trust.read)


def _directory() -> str:
    """Return where the ledger and what is sent to hosts are kept. Raise ``UsageError``."""
    return os.environ.get("RESOURCE_API_FLEET") or state_directory(os.environ)


def _plain(value: Any) -> Any:
    """Return options as a job can have them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in sorted(value) if each] if isinstance(value, (set, frozenset)) else value


def _digest(session: Session, work: _Work, modules: str, key: bytes) -> str:
    """Return the digest of what a run does, whatever its hosts are."""
    settings = session.settings
    stronger = {name: each for name, each in work.given.stronger.items() if not isinstance(each, EnvironmentInput)}
    digest = hashlib.sha256()
    for each in work.documents:
        digest.update(hashlib.sha256(each.raw).digest())
    for name, content in sorted(work.files.items()):
        digest.update(name.encode(errors="surrogateescape") + hashlib.sha256(content).digest())
    about = (work.command, modules, settings.get("stack"), work.project)
    digest.update(repr(about).encode() + digest_of([work.given.weaker, stronger], key))
    return digest.hexdigest()


def _check_earlier(earlier: Recorded, work: _Work, digest: str, ledger: Ledger | None) -> None:
    """Raise ``ManifestError`` unless a run does what the earlier one has done."""
    key = ledger.key if ledger is not None else b""
    other = [name for name in work.hosts if digest_of(work.inputs[name], key) != earlier.left[name]]
    if digest != earlier.digest or other:
        what = "the manifest, an input or the module path" if digest != earlier.digest else f"an input of {other[0]}"
        message = f"--rerun {earlier.id}: {what} is not what that run had; without --rerun, --on names the hosts"
        raise ManifestError([Problem(None, message, code="rerun")])


# The run


class _Run:
    """Runs over hosts, with one archive of this package."""

    def __init__(self, session: Session, payloads: Payloads, package: str, modules: str | None) -> None:
        self._session = session
        self._payloads = payloads
        self._package = package
        self._modules = modules
        #: Whether the last run has changed something, or would.
        self.changed = False

    def go(self, work: _Work, record: tuple[Ledger, str] | None, out: str | None) -> int:
        """Run over the hosts of ``work`` and return the exit code."""
        session, settings = self._session, self._session.settings
        plan = _plan_of(settings, len(work.hosts))
        generation = record[0].next_generation(work.project) if record else int(time.time() * 1000)
        run, key = self._begin(work, record)
        merge = Merge(threshold(settings), session.log.mask)
        shared = Job(
            work.command,
            generation,
            payload=self._package,
            modules=self._modules,
            documents=[sent_manifest.to_fields(each) for each in work.documents],
            files=work.files,
            options=work.options,
            traceparent=os.environ.get("TRACEPARENT"),
        )
        started = time.time()
        display = Display(session, work.command, Total(len(work.hosts), len(plan.ends), run), merge, out)
        job_for = partial(self._job, work, with_id(shared, key), key)
        ignored = ("unreachable",) if settings["unreachable"] == "ignore" else ()
        transports = {inventory.transport(name) for name, inventory in work.hosts.items()}
        processes = carriers.process_count(len(work.hosts), settings["at_once"])
        self._check_limit(min(settings["at_once"], len(work.hosts)), transports, processes)
        with closing(make_carrier(self._payloads, settings, transports, processes)) as carrier:
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
        self.changed = bool(merge.counts()["changed"])
        detailed = bool(settings.get("detailed_exitcodes"))
        code = exit_codes.of_hosts(work.command, reports, detailed=detailed, ignored=ignored, signals=signals)
        session.reported(display.document(reports, work.shown_project, started, stop, code))
        display.finish(reports, stop, code, left=record is not None)
        return code

    def _begin(self, work: _Work, record: tuple[Ledger, str] | None) -> tuple[str, bytes]:
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

    def _check_limit(self, wanted: int, transports: Collection[str], processes: int) -> None:
        """Warn where these processes may not have so many connections as hosts are wanted side by side."""
        from resource_api.fleet.carriers.ssh_carrier import connection_limit  # noqa: PLC0415 - with asyncio

        if (found := processes * connection_limit(wanted, transports)) < wanted:
            text = f"only {found} hosts side by side: this process may not open more files; see ulimit -n"
            self._session.report_problem(Problem(None, text, "warning"))

    def _job(self, work: _Work, shared: Job, key: bytes, name: str) -> tuple[Host, Job]:
        host = work.hosts[name].host(name)
        if (seconds := self._session.settings["connect_timeout"]) is not None:
            host = host._replace(connect_timeout=seconds)
        given = {"saved_plan": work.plans[name]} if work.plans else {}
        about = {"name": name, "groups": list(host.groups), "address": host.address or name}
        return host, for_host(shared, about, work.inputs[name], given, key)


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
