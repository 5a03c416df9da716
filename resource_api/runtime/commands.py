"""The commands that read: each is one function from a call's options to a document, printed here or sent by a host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model.codec import plain
from resource_api.model.values.errors import ResourceAPIError, hint
from resource_api.render import json as documents
from resource_api.runtime import recorded_stack, run_overview, state_edits
from resource_api.state import export as state_export
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import OverviewJson, ProblemJson, RunJson
    from resource_api.model.record import StackState
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime


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


def facts(call: Call) -> Any:
    """Return the facts of the machine, or the one of a dotted name. Raise ``ResourceAPIError`` for an unknown one."""
    machine, name = Facts(), call.options.get("name")
    if name is None:
        return {root: machine[root] for root in machine.names()}
    root, *keys = name.split(".")
    value: Any = machine[root] if root in machine.names() else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        names = [dotted for dotted, _ in dotted_facts({root: machine[root] for root in machine.names()}, "")]
        msg = f"there is no fact '{name}'{hint(name, names, 'fact')}"
        raise ResourceAPIError(msg)
    return value


def dotted_facts(facts: Mapping[str, object], above: str) -> Iterator[tuple[str, Any]]:
    """Yield each fact by its dotted name, a mapping before its members."""
    for key, value in facts.items():
        name = f"{above}.{key}" if above else key
        yield name, value
        if isinstance(value, dict):
            yield from dotted_facts(value, name)


def _recorded(call: Call) -> StackState | None:
    """Return the recorded state of the selected stack; None where nothing is recorded and no project is named."""
    store = call.runtime.store
    if recorded_stack.none_recorded(store, call.options):
        return None
    return store.load(recorded_stack.selected(store, call.options))


def output(call: Call) -> Any:
    """Return the recorded outputs, or the one with the ``name`` of the options; ``reveal``: in clear."""
    state, name, reveal = _recorded(call), call.options.get("name"), bool(call.options.get("reveal"))
    outputs = {} if state is None else dict(state.outputs)
    if name is not None:
        return plain(recorded_stack.find_output(outputs, name, reveal=reveal))
    return plain(recorded_stack.revealed(outputs) if reveal else outputs)


def state_list(call: Call) -> list[dict[str, Any]]:
    """Return the recorded resources."""
    if (state := _recorded(call)) is None:
        return []
    return [recorded_stack.resource_summary(state, record) for record in state.records.values()]


def state_check(call: Call) -> dict[str, Any]:
    """Verify the whole state, of all stacks; return the damage."""
    return {"found": list(call.runtime.store.check())}


def state_show(call: Call) -> dict[str, Any]:
    """Return everything that is recorded of the resource ``ref``, private data only with ``shows_private``."""
    state = recorded_stack.RecordedStack(call.runtime, call.options).state
    record = recorded_stack.find_record(state, call.options["ref"])
    if not call.options.get("shows_private"):
        record = record._replace(private=None)
    document: dict[str, Any] = plain(state_export.record_document(state, record))
    return document


def state_recover(call: Call) -> dict[str, Any]:
    """Replace a damaged database by its newest intact generation; return each action and loss."""
    return {"done": list(call.runtime.store.recover(call.options.get("lock_timeout") or 0.0))}


def history(call: Call) -> list[dict[str, Any]]:
    """Return the finished runs of the selected stacks, the oldest first."""
    store = call.runtime.store
    return [] if recorded_stack.none_recorded(store, call.options) else recorded_stack.Runs(store, call.options).all


def run(call: Call) -> RunJson | OverviewJson:
    """Return the document of the recorded run that ``run`` among the options names.

    With ``since``, a number of seconds, return the overview of the runs of that time until now.
    """
    if (seconds := call.options.get("since")) is not None:
        return _overview(call, seconds)
    return recorded_stack.Runs(call.runtime.store, call.options).document(call.options.get("run"))


def _overview(call: Call, seconds: float) -> OverviewJson:
    store, now = call.runtime.store, time.time()
    runs = None if recorded_stack.none_recorded(store, call.options) else recorded_stack.Runs(store, call.options)
    return run_overview.overview(runs, now - seconds, now)


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
    "state mv": state_edits.rename,
    "state rm": state_edits.forget,
    "state show": state_show,
    "state taint": state_edits.taint,
    "state untaint": state_edits.untaint,
    "validate": validate,
}
