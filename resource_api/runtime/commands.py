"""The commands that read: each is one function from a call's options to a document, printed here or sent by a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model.codec import plain
from resource_api.model.values.errors import ResourceAPIError, hint
from resource_api.render import json as documents
from resource_api.runtime import recorded_stack
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import ProblemJson, RunJson
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
    """Check the manifest; return the number of its resources, what is left out, and its warnings."""
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


def history(call: Call) -> list[dict[str, Any]]:
    """Return the finished runs of the selected stacks, the oldest first."""
    store = call.runtime.store
    return [] if recorded_stack.none_recorded(store, call.options) else recorded_stack.Runs(store, call.options).all


def run(call: Call) -> RunJson:
    """Return the document of the recorded run that ``run`` among the options names."""
    return recorded_stack.Runs(call.runtime.store, call.options).document(call.options.get("run"))


#: Command → its document. A host answers each of these; its answer is in clear with ``reveal`` among the options.
DOCUMENTS: Final[Mapping[str, Callable[[Call], Any]]] = {
    "facts": facts,
    "history": history,
    "output": output,
    "report": run,
    "state check": state_check,
    "state history": history,
    "state list": state_list,
    "validate": validate,
}
