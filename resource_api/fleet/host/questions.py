"""What a host answers when it is only asked: recorded outputs, what state holds, resources; and one resource's change.

As ``fleet/host/commands``, of which these are the commands that no manifest is needed for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.fleet.host.commands import report
from resource_api.model.codec import plain
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import Reference
from resource_api.runtime import recorded_stack, resource_access, resource_selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.host.run import HostRun
    from resource_api.model.record import StackState
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.resource_selection import Listed


def output(run: HostRun) -> int:
    """Send the recorded outputs of a stack, or one of them; ``reveal``: in clear."""
    store, reveal = run.runtime.store, bool(run.options.get("reveal"))
    outputs = dict(_recorded(run).outputs) if not recorded_stack.none_recorded(store, run.options) else {}
    if (name := run.options.get("name")) is not None:
        found = recorded_stack.find_output(outputs, name, reveal=reveal)
    else:
        found = recorded_stack.revealed(outputs) if reveal else outputs
    run.result(plain(found), reveal=reveal)
    return 0


def state(run: HostRun) -> int:
    """Send what ``state list``, ``state check`` or ``state history`` shows."""
    store, subcommand = run.runtime.store, run.options.get("subcommand")
    if subcommand == "check":
        run.result({"found": list(store.check())})
    elif recorded_stack.none_recorded(store, run.options):
        run.result([])
    elif subcommand == "history":
        run.result(recorded_stack.finished_runs(store, recorded_stack.all_selected(store, run.options)))
    elif subcommand == "list":
        known = _recorded(run)
        run.result([recorded_stack.resource_summary(known, each) for each in known.records.values()])
    else:
        msg = f"'state {subcommand}' cannot be asked of other hosts"
        raise UsageError(msg)
    return 0


def _recorded(run: HostRun) -> StackState:
    store = run.runtime.store
    return store.load(recorded_stack.selected(store, run.options))


def resource(run: HostRun) -> int:
    """Send resources of one type or several, those that a name and filters select; change one where asked to."""
    options, text, name = run.options, run.options.get("type_name"), run.options.get("name")
    every_type, strict = bool(options.get("every_type")), options.get("strict") or "error"
    filters, changes = list(options.get("filters") or ()), list(options.get("changes") or ())
    if every_type or any(mark in (text or ",") for mark in ",*?"):
        types = resource_selection.find_types(run.runtime, "*" if every_type else text or "")
        listed, complete = resource_selection.read_types(run.runtime, *types, strict=strict)
        return _send(run, listed, None, filters, complete=complete)
    definition = resource_selection.find_type(run.runtime, str(text))
    selected = _selected(run, definition.name)
    if selected is not None:
        definition = run.registry.type(definition.name, selected.version).for_instance(selected.instance)
    if name is None or (resource_selection.is_pattern(name) and not changes):
        rows, failures = run.runtime.read(definition.name, strict=strict, selected=selected)
        for reference, why in failures.items():
            run.log.write("err", reference, why, definition.name, reference=reference, status="failed")
        return _send(run, [(definition, rows)], name, filters, complete=not failures)
    name, given = resource_access.parse_name(definition, name, changes, _refuse_secret)
    identity = partial(resource_access.canonical_identity, definition, name, given)
    read = partial(run.runtime.read_all, definition.name, identity, strict=strict, selected=selected)
    if not given.keys() <= set(definition.namevars):
        named = Reference(definition.name, name)
        how: dict[str, Any] = {"noop": bool(options.get("noop")), "strict": strict}
        changed = run.runtime.change_resource(definition, named, read()[0], given, selected=selected, **how)
        if code := report(run, changed):
            return code
    return _send(run, [(definition, read())], None, filters, complete=True)


def _refuse_secret(attribute: str, _text: str) -> NoReturn:
    msg = f"{attribute} is sensitive and cannot be given to other hosts like this; make it an input of a manifest"
    raise UsageError(msg)


def _send(run: HostRun, listed: Listed, pattern: str | None, filters: Sequence[str], *, complete: bool) -> int:
    """Send the resources that are selected; what could not be read is in the exit code."""
    run.result(resource_selection.documents(resource_selection.select_resources(listed, pattern, filters)))
    return 0 if complete else 1


def _selected(run: HostRun, type_name: str) -> SelectedProvider | None:
    """Return the configured provider that the job names, None where it names none. Raise ``UsageError``."""
    if run.options.get("config"):
        msg = "--config cannot be given to other hosts; declare the provider in a manifest, and name it with --manifest"
        raise UsageError(msg)
    manifest = run.manifest if run.job.documents else None
    provider = run.options.get("provider")
    return run.runtime.select(type_name, provider=provider, manifest=manifest, inputs=run.inputs or None)


QUESTIONS: Final[Mapping[str, Callable[[HostRun], int]]] = {"output": output, "resource": resource, "state": state}
