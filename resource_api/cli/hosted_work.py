"""The work of a command with ``--on``: its hosts, manifest, inputs and options, checked before any host is touched."""

from __future__ import annotations

import hashlib
import os
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.compile import declaration_problems
from resource_api.cli import options
from resource_api.cli.output import threshold
from resource_api.fleet import archives, host_names, job_inputs
from resource_api.fleet.inventory import Selection, beside
from resource_api.fleet.job_inputs import CommonInputs, HostInputs
from resource_api.fleet.ledger import digest_of
from resource_api.manifest.input_values import EnvironmentInput
from resource_api.manifest.sections import project_name
from resource_api.model.declaration import Manifest
from resource_api.model.values.errors import ManifestError, Problem, UsageError, hint, suggestion
from resource_api.model.values.start_up import NamedTuple
from resource_api.runtime import saved_plan
from resource_api.runtime.environment import read_saved_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.inventory import Inventory
    from resource_api.fleet.ledger import RecordedRun
    from resource_api.model.values.document import Document


#: Parameters of commands that a job has as options, beside those of ``options.run_options``.
_PASSED: Final = (
    *("isolate", "state", "stack", "project", "lock_timeout"),
    *("every_type", "filters", "provider", "config"),
)
#: The commands that use the declarations of a manifest.
_CHECKED: Final = frozenset({"apply", "import", "plan", "validate"})


class Work(NamedTuple):
    """The common part of all jobs of a run, and each host's own part."""

    command: str
    #: Host → the inventory that it stands in.
    hosts: Mapping[str, Inventory]
    #: The inputs of the stack, the environment and the command line.
    arguments: CommonInputs
    #: Host → the inputs of the manifest there.
    inputs: Mapping[str, Mapping[str, object]]
    #: The options of the command on a host.
    options: Mapping[str, object]
    #: The files of the manifest, and the contents of other files that it names.
    documents: Sequence[Document] = ()
    files: Mapping[str, bytes] = {}
    #: Host → its saved plan, where one is applied.
    plans: Mapping[str, Mapping[str, object]] = {}
    #: The project; of a program without one, its last file.
    project: str = ""
    #: Whether the manifest is a program, which only the hosts execute.
    is_program: bool = False
    #: Host → the identity of its plan that the user has confirmed.
    confirmed: Mapping[str, Mapping[str, object]] = {}
    #: The libraries that the functions and types of the manifest need.
    libraries: Sequence[str] = ()

    @property
    def shown_project(self) -> str | None:
        """The project for reports of the run; None for a manifest in Python, which only the hosts execute."""
        if project := self.options.get("project"):
            return str(project)
        return None if self.is_program else self.project or None


def prepare(
    session: Session,
    command: str,
    manifest: str | None,
    hosts: Mapping[str, Inventory],
    arguments: Mapping[str, object],
) -> Work:
    """Return everything that jobs for the hosts are made of: manifest or saved plans, inputs, options, libraries.

    Raise ``ManifestError`` or ``UsageError`` for every mistake that can be seen before any host is contacted.
    ``manifest``: None for a command without one; for ``apply`` also a directory of saved plans. ``arguments``: the
    options that only this command has.
    """
    inputs, job_options = CommonInputs(session.inputs.weaker, session.inputs.stronger), _job_options(session, arguments)
    no_inputs: Mapping[str, object] = {}  # hosts with equal inputs share one mapping
    work = Work(command, hosts, inputs, dict.fromkeys(hosts, no_inputs), job_options)
    if manifest is None:
        return work
    if command == "apply" and manifest != "-" and (plans := _saved_plans(session, manifest, hosts)):
        project = str(next(iter(plans.values())).get("project"))
        job_options = {**job_options, "file": manifest}
        libraries = _libraries(session, (), plans.values())
        return work._replace(plans=plans, project=project, options=job_options, libraries=libraries)
    documents = _documents(session, manifest)
    declared = _declared(session, command, documents)
    host_inputs = HostInputs(declared, inputs).of_all(hosts.items())
    for values in {id(values): values for values in host_inputs.values()}.values():  # each shared mapping once
        session.log.mask.add_inputs(values)
    return work._replace(
        documents=documents,
        files=job_inputs.file_contents(documents, {**inputs.weaker, **inputs.stronger}, session.registry.trust),
        inputs=host_inputs,
        project=session.settings.get("project") or (documents[-1].file if declared is None else project_name(declared)),
        is_program=declared is None,
        libraries=_libraries(session, documents),
    )


def _declared(session: Session, command: str, documents: Sequence[Document]) -> Manifest | None:
    """Return the manifest of files, or None for a program in Python, which only the hosts execute.

    Raise ``ManifestError`` for problems that every host would report, before any is contacted.
    """
    if any(document.file.endswith(".py") for document in documents):
        return None
    declared, registry = job_inputs.declared_manifest(documents), session.registry
    problems: Sequence[Problem] = declared.problems
    if not problems and command in _CHECKED:
        problems = declaration_problems(declared, registry.type, lambda name: registry.component(name) is not None)
    if problems:
        raise ManifestError(problems)
    return declared


def _job_options(session: Session, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of the command on a host as JSON data, for its job.

    ``arguments``: those that only this command has. Of a key only the URL is sent: the host reads the key itself.
    """
    settings = session.settings
    job_options = {name: settings[name] for name in _PASSED if name in settings}
    job_options |= {**options.run_options(settings), **arguments, "log_level": threshold(settings)}
    if trusted := [path for path in settings.get("trust_path") or () if path.startswith("/")]:
        job_options["trust_path"] = trusted  # a relative one is beneath the working directory of this machine
    if (key := settings.get("key")) is not None:
        job_options["key"] = key.url
    return {name: _plain(value) for name, value in job_options.items()}


def _plain(value: object) -> Any:
    """Return the value of an option as JSON data, for a job; a set, such as the tags, becomes a sorted list."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, (set, frozenset)):
        return [_plain(member) for member in sorted(value) if member]
    return value


def _libraries(
    session: Session, documents: Sequence[Document], plans: Iterable[Mapping[str, object]] = ()
) -> Sequence[str]:
    """Return the Python libraries to send along, because types or functions in the manifest or plans need them."""
    data = [*(document.data for document in documents), *plans]
    programs = [document.raw for document in documents if document.file.endswith(".py")]
    return archives.needed_libraries(data, programs, session.registry.user_directories, session.registry.trust.read)


def _documents(session: Session, manifest: str) -> Sequence[Document]:
    """Return the documents of a manifest and of all files that it may include, to send them to the hosts.

    Files that are included under a condition are among them: each host evaluates the condition by its own facts.
    """
    source = session.source(manifest)
    if isinstance(source, Manifest):  # standard input has been read
        if source.with_includes is not None:
            source = source.with_includes(lambda *_: "")  # no reason to leave out a file: all are included
        return source.documents
    return job_inputs.read_documents(str(source), session.registry.trust.open)


def _saved_plans(session: Session, path: str, hosts: Mapping[str, Inventory]) -> Mapping[str, Mapping[str, object]]:
    """Return each host's plan from the directory ``path`` that ``plan -o`` has written; {} if it is a manifest.

    Raise ``ManifestError`` with the problems of all hosts' plans, ``UsageError`` for the plan of a single machine.
    """
    if not os.path.isdir(path):
        if read_saved_plan(path) is not None:
            raise UsageError(f"{path} is the plan of one machine; plan with --on and -o DIR, then apply DIR")
        return {}
    plans: dict[str, Mapping[str, object]] = {}
    problems: list[Problem] = []
    for name in hosts:
        try:
            plans[name] = saved_plan.load(f"{path.rstrip('/')}/{name}.json")
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(problems)
    # Raises for an option that decides a plan's content.
    options.saved_plan_options(session.settings, next(iter(plans.values())))
    return plans


def digest(session: Session, work: Work, modules: str, key: bytes) -> str:
    """Return the digest of everything that all hosts of a run share: a rerun is refused if it has changed meanwhile.

    ``modules``: the digest of the user's modules. ``key``: the key of the digest of inputs, which may be secret.
    """
    # Inputs from the environment count only if the manifest declares them: the digests of the hosts' inputs have these.
    stronger = {
        name: value for name, value in work.arguments.stronger.items() if not isinstance(value, EnvironmentInput)
    }
    digest = hashlib.sha256()
    for document in work.documents:
        digest.update(hashlib.sha256(document.raw).digest())
    for name, content in sorted(work.files.items()):
        digest.update(name.encode(errors="surrogateescape") + hashlib.sha256(content).digest())
    fields = (work.command, modules, session.settings.get("stack"), work.project)
    digest.update(repr(fields).encode() + digest_of([work.arguments.weaker, stronger], key))
    return digest.hexdigest()


def check_earlier(earlier: RecordedRun, work: Work, digest: str, key: bytes) -> None:
    """Raise ``ManifestError`` if a rerun's ``digest``, or a host's inputs, differ from the ``earlier`` run.

    A rerun does the rest of that run: the remaining hosts must get the same as the others.
    """
    changed = [name for name in work.hosts if digest_of(work.inputs[name], key) != earlier.remaining[name]]
    if digest != earlier.digest or changed:
        cause = "the manifest, an input or the module path" if digest != earlier.digest else f"an input of {changed[0]}"
        message = f"--rerun {earlier.id}: {cause} is not what that run had; without --rerun, --on names the hosts"
        raise ManifestError([Problem(None, message, code="rerun")])


#: The number of undeclared addresses that are compared with the names of inventories.
_COMPARED: Final = 20


def select_hosts(session: Session, manifest: str | None, earlier: RecordedRun | None) -> Mapping[str, Inventory]:
    """Return the selected hosts with their inventories; of a rerun, those that the ``earlier`` run has left undone.

    A rerun uses the earlier selection unless ``--on`` is given. Warn of inventories that other users can change, and of
    names that are likely mistyped.
    """
    settings, trust = session.settings, session.registry.trust
    request: Mapping[str, Any] = earlier.request if earlier is not None else {"on": (), "hosts_file": None}
    patterns, file = settings["on"] or request["on"], settings["hosts_file"] or request["hosts_file"]
    selection = Selection(file or beside(manifest), trust, session.inputs.reader)
    hosts = selection.find(patterns)
    for path in selection.files:
        if writers := trust.who_can_change(path):
            problem = Problem(None, f"others can change this inventory: {writers}", "warning", file=path)
            session.console.show_problem(problem)
    check_unused(session, selection, patterns)
    _warn_of_addresses(session, selection, hosts)
    if earlier is None:
        return hosts
    remaining = {name: inventory for name, inventory in hosts.items() if name in earlier.remaining}
    if not remaining:
        raise UsageError(f"--rerun {earlier.id}: that run has left none of these hosts")
    return remaining


def _warn_of_addresses(session: Session, selection: Selection, hosts: Mapping[str, Inventory]) -> None:
    """Warn of a selected name that no inventory has, and which therefore counts as an address, but may be mistyped.

    It is suspicious if it is similar to a name in an inventory.
    """
    #: Advice → the addresses that it is about.
    by_hint: dict[str, list[str]] = {}
    for address, names in islice(selection.suggestions(hosts), _COMPARED):
        if advice := suggestion(address, names):
            by_hint.setdefault(advice, []).append(address)
    for advice, addresses in by_hint.items():
        one = len(addresses) == 1
        words = "is in no inventory and taken as an address" if one else "are in no inventory: addresses"
        session.log.write("warning", "", f"'{','.join(host_names.fold(addresses))}' {words}; {advice}")


def check_unused(session: Session, selection: Selection, patterns: Sequence[str], option: str = "--on: ") -> None:
    """Warn of ``&NAME`` in patterns of hosts if no host has this name, which is then likely mistyped.

    Raise ``UsageError`` for such a ``!NAME``: the host that the user excludes would be changed. ``option`` begins the
    messages.
    """
    for name, names, excluded in islice(selection.unused(patterns), _COMPARED):
        mark = "!" if excluded else "&"
        text = f"{option}'{name}' after {mark} is neither in an inventory nor selected{hint(name, names)}"
        if excluded:
            raise UsageError(text)
        session.log.write("warning", "", text)
