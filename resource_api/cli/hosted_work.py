"""The work of a command with ``--on``: its hosts, manifest, inputs and options, checked before any host is touched."""

from __future__ import annotations

import hashlib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.cli import given_inputs, options
from resource_api.cli.output import threshold
from resource_api.fleet import host_names, manifest_files
from resource_api.fleet.host_inputs import Given, HostInputs
from resource_api.fleet.ledger import digest_of
from resource_api.fleet.selection import Selection, beside
from resource_api.manifest.input_values import EnvironmentInput
from resource_api.manifest.sections import assemble, project_name
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem, UsageError, hint, nearest
from resource_api.runtime import saved_plan
from resource_api.runtime.environment import read_saved_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.inventory import Inventory
    from resource_api.fleet.ledger import Recorded
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.document import Document


#: Parameters of commands that a job has as options, as they are, beside those of ``options.run_options``.
_PASSED: Final = (
    *("isolate", "state", "stack", "project", "lock_timeout"),
    *("every_type", "filters", "provider", "config"),
)


class Work(NamedTuple):
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
    #: Host → by what the plan that was shown of it is known again, where somebody has been asked.
    confirmed: Mapping[str, Mapping[str, Any]] = {}

    @property
    def shown_project(self) -> str | None:
        """The project as reports have it; None where only the hosts know it."""
        if given := self.options.get("project"):
            return str(given)
        return None if self.is_program else self.project or None


def prepare(
    session: Session, command: str, manifest: str | None, found: Mapping[str, Inventory], special: Mapping[str, Any]
) -> Work:
    """Return what the hosts are to do. Raise ``ManifestError`` and ``UsageError`` before any is touched."""
    given, nothing = _given(session), dict[str, Any]()
    passed = {name: session.settings[name] for name in _PASSED if name in session.settings}
    passed |= {**options.run_options(session.settings), **special}
    if trusted := [path for path in session.settings.get("trust_path") or () if path.startswith("/")]:
        passed["trust_path"] = trusted
    passed["log_level"] = threshold(session.settings)
    if (key := session.settings.get("key")) is not None:
        passed["key"] = key.url
    bare = Work(command, found, (), {}, given, dict.fromkeys(found, nothing), _plain(passed), {}, "")
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
        if read_saved_plan(path) is not None:
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


def _plain(value: Any) -> Any:
    """Return options as a job can have them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in sorted(value) if each] if isinstance(value, (set, frozenset)) else value


def digest(session: Session, work: Work, modules: str, key: bytes) -> str:
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


def check_earlier(earlier: Recorded, work: Work, digest: str, key: bytes) -> None:
    """Raise ``ManifestError`` unless a run does what the earlier one has done; ``key`` is that of digests."""
    other = [name for name in work.hosts if digest_of(work.inputs[name], key) != earlier.left[name]]
    if digest != earlier.digest or other:
        what = "the manifest, an input or the module path" if digest != earlier.digest else f"an input of {other[0]}"
        message = f"--rerun {earlier.id}: {what} is not what that run had; without --rerun, --on names the hosts"
        raise ManifestError([Problem(None, message, code="rerun")])


#: How many addresses that no inventory names are compared with its names.
_COMPARED: Final = 20


def select_hosts(session: Session, manifest: str | None, earlier: Recorded | None) -> Mapping[str, Inventory]:
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


def _warn_of_addresses(session: Session, selection: Selection, found: Mapping[str, Inventory]) -> None:
    """Warn once of the addresses that are nearly the same name of an inventory."""
    by_hint: dict[str, list[str]] = {}
    for name, known in islice(selection.suggestions(found), _COMPARED):
        if near := nearest(name, known):
            by_hint.setdefault(near, []).append(name)
    for near, names in by_hint.items():
        words = "is in no inventory and taken as an address" if len(names) == 1 else "are in no inventory: addresses"
        session.log.write("warning", "", f"'{','.join(host_names.fold(names))}' {words}; {near}")


def _warn_of_unused(session: Session, selection: Selection, where: Sequence[str]) -> None:
    """Warn of what is to leave hosts out and is likely mistyped: the hosts that were meant are not left out."""
    for name, known in islice(selection.unused(where), _COMPARED):
        text = f"--on: '{name}' after ! or & is neither in an inventory nor selected{hint(name, known)}"
        session.log.write("warning", "", text)
