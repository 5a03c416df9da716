"""The commands that read values of a manifest, facts and recorded state, or edit that state; none changes a resource.

Each that hosts have too is a function from a call's options to a document, which is printed here or sent by a host.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.manifest.input_values import input_values
from resource_api.model.attribute import MISSING
from resource_api.model.codec import plain
from resource_api.model.record import Commit, StackState
from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values import document, expression
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, ResourceAPIError, UsageError, hint
from resource_api.model.values.reference import split_component
from resource_api.model.values.start_up import NamedTuple
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.former_names import Renames
from resource_api.render import json as documents
from resource_api.runtime import recorded_stack
from resource_api.runtime.manifest_compiler import ManifestCompiler
from resource_api.runtime.recorded_stack import find_record, finishing, parse_reference
from resource_api.state import export as state_export
from resource_api.state.store import StackName, check_rename
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.manifest.input_values import LocatedValue
    from resource_api.model.declaration import Manifest
    from resource_api.model.json_documents import OverviewJson, ProblemJson, RunJson
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime

    Edit = Callable[[StackState], Commit]


class Call(Protocol):
    """One call of a command: of this process, or of a job on a host."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options and arguments of the command, by name."""

    @property
    def runtime(self) -> Runtime:
        """The runtime with the call's state."""

    @property
    def manifest(self) -> Source:
        """The manifest. Raise ``ManifestError``."""

    @property
    def inputs(self) -> Mapping[str, object]:
        """The inputs of the manifest, by name."""

    def warnings(self) -> Sequence[ProblemJson]:
        """Return the diagnostics of the manifest's warnings, unless they were sent one by one."""


def validate(call: Call) -> dict[str, Any]:
    """Check the manifest; return the number of its resources, the omitted declarations, and its warnings."""
    return documents.validity(call.runtime.validate(call.manifest, call.inputs), call.warnings())


def expression_value(runtime: Runtime, source: Source, inputs: Mapping[str, object], text: str) -> Any:
    """Return the value that ``text`` has in a manifest, for the command ``eval``.

    The text is an expression such as ``inputs.port``, or contains some: ``http://${inputs.host}/``. No function of a
    provider is called, so the result of one is ``UNKNOWN``. A secret is ``Sensitive``, or a sealed value if only its
    digest is recorded. Raise ``UsageError`` for an unknown name, ``ManifestError`` for a wrong manifest.
    """
    catalog = runtime.compile(source, inputs)
    resolve = catalog.scope.resolver(partial(_recorded_value, runtime, catalog))
    with errors_as(UsageError):
        return expression.evaluate(text if "${" in text else f"${{{text}}}", resolve)


def _recorded_value(runtime: Runtime, catalog: Catalog, path: ExpressionPath) -> Any:
    """Return the recorded value of a path such as ``File[/a].mode`` for ``eval``, which reads no resource.

    Its secrets are masked in the log from now on. A resource that is not declared is searched among the records by its
    reference. Raise ``ValueError`` if nothing is recorded.
    """
    assert isinstance(path.root, tuple)
    state = runtime.store.load(runtime.name(catalog))
    declared = catalog.find(path.root)
    record = state.records.get(declared.key) if declared is not None else None
    if record is None:
        undeclared = [row for row in state.records.values() if row.reference == path.root]
        if not undeclared:
            raise ValueError(f"{path}: {recorded_stack.no_record(state, path.root)}")
        record = undeclared[0]
    values = {**record.should, **(record.is_ or {})}
    if path.keys[0] not in values:
        raise ValueError(f"{path}: nothing is recorded of '{path.keys[0]}'{hint(path.keys[0], values)}")
    value = open_sealed(values[path.keys[0]])
    runtime.log.mask.add([value])
    return expression.follow_keys(value, path, path.keys[1:])


class InputValue(NamedTuple):
    """One input of a manifest; ``place``, the location of its value, is empty without one."""

    name: str
    type: str
    value: object
    place: str
    docs: str


def list_inputs(
    runtime: Runtime, source: Source, inputs: Mapping[str, object], located: Mapping[str, LocatedValue]
) -> list[InputValue]:
    """Return the inputs of a manifest, in its order, with their values and the positions of these, for the user.

    ``located``: the given ``inputs`` with their positions. A missing mandatory input is no error, since the list shows
    which inputs to give; only a Python manifest needs it, as it is executed. Raise ``ManifestError`` for a wrong file
    or value, ``UsageError`` for a secret from the command line.
    """
    compiler = ManifestCompiler(runtime.registry, runtime.facts, runtime.log)
    with ProviderPool(runtime.registry, runtime.run) as providers:
        manifest = compiler.read(source, inputs, providers, complete=False)
    declared = manifest.inputs
    if manifest.problems:
        raise ManifestError(manifest.problems)
    values, problems = input_values(manifest, inputs)
    missing = {name for name, entry in declared.items() if name not in inputs and entry.default is MISSING}
    if wrong := [problem for problem in problems if problem.attribute not in missing]:
        raise ManifestError(wrong)
    runtime.log.mask.add_inputs(values)
    locations = {name: _location(manifest, name, located) for name in declared}
    return [
        InputValue(name, entry.type, values[name] if locations[name] else None, locations[name], entry.docs)
        for name, entry in declared.items()
    ]


def _location(manifest: Manifest, name: str, located: Mapping[str, LocatedValue]) -> str:
    """Return the location of an input's value for the user, as ``site.yaml:3 (default)``, or "" without a value."""
    if name in located:
        return str(located[name])
    declared = manifest.inputs[name]
    default = declared.origin.place("default")
    return "" if declared.default is MISSING else f"{default.line_text or default.file} (default)"


def facts(call: Call) -> Any:
    """Return all facts of the machine for the command ``facts``, or the one with a dotted name such as ``os.family``.

    Raise ``ResourceAPIError`` for an unknown name, with a similar one.
    """
    machine, name = Facts(), call.options.get("name")
    if name is None:
        return {root: machine[root] for root in machine.names()}
    root, *keys = name.split(".")
    value: object = machine[root] if root in machine.names() else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        names = [dotted for dotted, _ in dotted_facts({root: machine[root] for root in machine.names()}, "")]
        raise ResourceAPIError(f"there is no fact '{name}'{hint(name, names, 'fact')}")
    return value


def dotted_facts(facts: Mapping[str, object], above: str) -> Iterator[tuple[str, Any]]:
    """Yield each fact by its dotted name, ``os.family``, to suggest one for an unknown name.

    A mapping comes before its members. ``above``: the name of the mapping ``facts``, or "".
    """
    for key, value in facts.items():
        name = f"{above}.{key}" if above else key
        yield name, value
        if isinstance(value, dict):
            yield from dotted_facts(value, name)


def _recorded_state(call: Call) -> StackState | None:
    """Return the state of the stack that the options select, for a command that lists records.

    Return None if nothing at all is recorded: the list is then empty, while an unknown stack is an error.
    """
    store = call.runtime.store
    if recorded_stack.none_recorded(store, call.options):
        return None
    return store.load(recorded_stack.selected(store, call.options))


def output(call: Call) -> Any:
    """Return all recorded outputs for the command ``output``, or the one with the option ``name``.

    Secrets are masked unless the option ``reveal`` is set.
    """
    state, name, reveal = _recorded_state(call), call.options.get("name"), bool(call.options.get("reveal"))
    outputs = {} if state is None else dict(state.outputs)
    if name is not None:
        return plain(recorded_stack.find_output(outputs, name, reveal=reveal))
    return plain(recorded_stack.revealed(outputs) if reveal else outputs)


def state_list(call: Call) -> list[dict[str, Any]]:
    """Return a summary of each recorded resource, for ``state list``; none if nothing is recorded."""
    if (state := _recorded_state(call)) is None:
        return []
    return [recorded_stack.resource_summary(state, record) for record in state.records.values()]


def state_check(call: Call) -> dict[str, Any]:
    """Verify the whole state, of all stacks; return the damage."""
    return {"found": list(call.runtime.store.check())}


def state_show(call: Call) -> dict[str, Any]:
    """Return the record of the resource ``ref``; with ``shows_private`` also the provider's private data.

    By default this data is omitted, as it means something only to the provider.
    """
    state = recorded_stack.RecordedStack(call.runtime, call.options).state
    record = find_record(state, call.options["ref"])
    if not call.options.get("shows_private"):
        record = record._replace(private=None)
    recorded: dict[str, object] = plain(state_export.record_document(state, record))
    return recorded


def state_recover(call: Call) -> dict[str, Any]:
    """Replace a damaged database by its newest intact generation; return each action and loss."""
    return {"done": list(call.runtime.store.recover(call.options.get("lock_timeout") or 0.0))}


def history(call: Call) -> list[dict[str, Any]]:
    """Return the finished runs of the selected stacks, the oldest first."""
    return recorded_stack.recorded_runs(call.runtime.store, call.options).all


def run(call: Call) -> RunJson | OverviewJson:
    """Return the document of one recorded run, selected by the option ``run``.

    With the option ``since``, a number of seconds, return the overview of all runs in this time until now instead. If
    nothing is recorded, the overview is empty, while a single run raises ``UsageError``.
    """
    store, options = call.runtime.store, call.options
    if (seconds := options.get("since")) is None:
        return recorded_stack.Runs(store, recorded_stack.all_selected(store, options)).document(options.get("run"))
    until = time.time()
    return recorded_stack.overview(recorded_stack.recorded_runs(store, options), until - seconds, until)


def state_rm(call: Call) -> dict[str, Any]:
    """Remove the resources ``refs`` from the state without deleting them: they are then no longer managed.

    Of a component all members are removed.
    """

    def edit(state: StackState) -> Commit:
        """Return the commit that drops the records and intents of the resources, so that nothing is known of them."""
        keys = dict.fromkeys(key for ref in call.options["refs"] for key in recorded_stack.recorded_keys(state, ref))
        return Commit(drop=list(keys), resolved=[key for key in keys if key in state.intents])

    return _edit(call, "state rm", edit)


def state_mv(call: Call) -> dict[str, Any]:
    """Rename the record of ``source`` to ``target``, also in references to it, for a resource with a new title.

    The next apply then finds its record. Without ``target``, rename the project ``source`` to the option ``project``.
    """
    source, target = call.options["source"], call.options["target"]
    if source is None or target is None:
        return _rename_project(call, source, call.options.get("project"))

    return _edit(call, "state mv", partial(_renaming, source=source, target=target))


def _renaming(state: StackState, source: str, target: str) -> Commit:
    """Return the commit that renames a record, and the references to it in other records. Raise ``UsageError``."""
    record, target_reference = find_record(state, source), parse_reference(target, state)
    if problem := document.character_problem(target_reference.title, key=True, noun="a title"):
        raise UsageError(problem)
    parent, member = split_component(target_reference, record.type)
    if member.type != record.type:
        raise UsageError(f"{record.reference} cannot become {target_reference}: a resource keeps its type")
    if any(recorded.reference == target_reference for recorded in state.records.values()):
        raise UsageError(f"{target_reference} is recorded already")
    old = str(record.reference)
    renames = Renames({old: str(target_reference)})
    others = [other for other in state.records.values() if other.key != record.key]
    put = [renamed for other in others if (renamed := renames.dependencies(other)) != other]
    put.append(renames.dependencies(record)._replace(title=member.title, parent=parent))
    # A refresh that is still owed is recorded with the names of its causes. ``paid`` removes the refreshes with the old
    # name, and ``owed`` adds them with the new one.
    owed = {key: [renames(name) for name in sources] for key, sources in state.owed.items() if old in sources}
    return Commit(put, owed=owed, paid=list(owed))


def state_taint(call: Call) -> dict[str, Any]:
    """Mark the record of the resource ``ref`` as tainted, so that the next apply replaces the resource."""

    def edit(state: StackState) -> Commit:
        """Return the commit that marks the record as tainted, an empty one if it is so already."""
        record = find_record(state, call.options["ref"])
        return Commit() if record.status == "tainted" else Commit([record._replace(status="tainted")])

    return _edit(call, "state taint", edit)


def state_untaint(call: Call) -> dict[str, Any]:
    """Mark the record of the resource ``ref`` as ready: the user accepts a resource whose last change is in doubt.

    A tainted resource is then not replaced, and a partial or unconfirmed one is planned like any other.
    """

    def edit(state: StackState) -> Commit:
        """Return the commit that makes the record ready. Raise ``UsageError`` for a status that is not in doubt."""
        record = find_record(state, call.options["ref"])
        if record.status not in {"tainted", "partial", "unconfirmed"}:
            msg = f"{record.reference} is not tainted, partial or unconfirmed: its status is {record.status}"
            raise UsageError(msg)
        # Without ``changed_at``: the next plan need not wait for a change that is not visible yet.
        return Commit([record._replace(status="ready", changed_at="")])

    return _edit(call, "state untaint", edit)


def _rename_project(call: Call, old: str | None, new: str | None) -> dict[str, Any]:
    """Record a project with its stacks under another name. Raise ``UsageError``.

    All stacks are checked and locked before the first one is renamed, so that a refusal leaves the project whole.
    """
    if new is None or "[" in (old or ""):
        raise UsageError("write 'state mv FROM TO' for a resource, 'state mv [PROJECT] --project NEW' for a project")
    runtime = call.runtime
    store = runtime.store
    with runtime.lock("state mv"):
        names = recorded_stack.of_project(store, old)
        for name in names:
            check_rename(name, StackName(new, name.stack), store.stacks())
            runtime.claim(name)
        for name in names:
            with finishing(store, StackName(new, name.stack), "state mv"):
                store.rename(name, StackName(new, name.stack))
    return {"project": new, "former": names[0].project, "stacks": [name.stack for name in names]}


def _edit(call: Call, command: str, edit: Edit) -> dict[str, Any]:
    """Edit a stack's state under its lock: commit the changes that ``edit`` returns for it, and record ``command``.

    Return the new serial, and the references of removed and written records, for the output.
    """
    stack = recorded_stack.RecordedStack(call.runtime, call.options)
    with stack.changing(command):
        state = stack.state
        commit = edit(state)
        after = stack.store.commit(stack.name, commit)
    forgotten = [str((state.records.get(key) or state.intents[key]).reference) for key in commit.drop]
    written = [str(record.reference) for record in commit.put]
    return {"serial": after.serial, "forgotten": forgotten, "written": written}


#: Command → its document. A host answers each of these; its answer is in clear with ``reveal`` among the options.
DOCUMENTS: Final[Mapping[str, Callable[[Call], Any]]] = {
    "facts": facts,
    "history": history,
    "output": output,
    "report": run,
    "state check": state_check,
    "state history": history,
    "state list": state_list,
    "state recover": state_recover,
    "state mv": state_mv,
    "state rm": state_rm,
    "state show": state_show,
    "state taint": state_taint,
    "state untaint": state_untaint,
    "validate": validate,
}
