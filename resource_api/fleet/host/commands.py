"""The commands of jobs: each takes a ``HostRun``, sends its documents and returns the exit code.

The exit codes are those without ``--detailed-exitcodes``, which the machine of the command derives from the documents.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.fleet.host.delivered_jobs import JobReport
from resource_api.model.codec import plain
from resource_api.model.options import EXECUTION, RUN_OPTIONS, run_option_names
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import Reference
from resource_api.render import json as documents
from resource_api.runtime import recorded_stack, refresh, resource_access, resource_selection, saved_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.host.run import HostRun
    from resource_api.model.record import StackState
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.planning import Plan
    from resource_api.runtime.resource_selection import Listed

#: The options of ``destroy`` and ``plan --destroy``, which use no declarations.
_DESTROYING: Final = run_option_names("execution", "strictness", "selection")


def run_job(run: HostRun) -> int:
    """Run the command of a job and return its exit code; a job that ended before is answered from the journal.

    Raise as ``Runtime`` does, ``Superseded`` after a newer job, ``StateLocked`` while another job runs.
    """
    command = _COMMANDS[run.job.command]
    if (journal := run.journal()) is None:
        return command(run)
    with journal.held(f"{run.job.command} of another machine", run.options.get("lock_timeout") or 0.0):
        if (report := journal.begin(run.job)) is not None:
            for document in report.documents:
                run.send_again(document)
            return report.code
        code = command(run)
        if not run.interrupts.came:
            journal.finish(run.job, JobReport(code, run.report_documents))
        return code


def _apply(run: HostRun) -> int:
    """Apply the manifest, or the saved plan in the job's options."""
    if (document := run.options.get("saved_plan")) is not None:
        plan = saved_plan.SavedPlan(document, str(run.options["file"]), run.runtime.key)
        return run.report(run.runtime.apply_saved(plan, run.selected(*EXECUTION)))
    return run.report(run.runtime.apply(run.manifest, run.inputs, **run.selected(*RUN_OPTIONS)))


def _destroy(run: HostRun) -> int:
    """Delete the recorded resources; a plan that differs from the confirmed one is refused."""
    confirmed = run.options.get("confirmed")

    def on_plan(plan: Plan) -> None:
        if confirmed is not None:
            saved_plan.check_confirmation(confirmed, run.log.mask.document(plan.to_dict()), run.manifest.file)

    options = run.selected(*_DESTROYING)
    return run.report(run.runtime.destroy(run.manifest, run.inputs, on_plan=on_plan, **options))


def _plan(run: HostRun) -> int:
    """Send the plan; with the option ``empty`` the plan of ``destroy``."""
    if run.options.get("empty"):
        plan = run.runtime.plan_destroy(run.manifest, run.inputs, **run.selected(*_DESTROYING))
    else:
        plan = run.runtime.plan(run.manifest, run.inputs, **run.selected(*RUN_OPTIONS))
    run.result(saved_plan.document(plan, run.runtime.key) if run.options.get("save") else plan.to_dict())
    for problem in plan.problems:
        run.emit(documents.line("diagnostic", documents.problem(problem)))
    return 1 if plan.summary.failed or plan.problems else 0


def _refresh(run: HostRun) -> int:
    """Read all recorded resources again."""
    options = run.selected("targets", "excludes", "noop")
    run.began = not run.options.get("noop")
    result = refresh.read_again(run.runtime, run.manifest, run.inputs, **options)
    run.result(documents.refresh(result.resources, result.outputs))
    return 0


def _validate(run: HostRun) -> int:
    """Check the manifest with the facts and programs of the host."""
    catalog = run.runtime.validate(run.manifest, run.inputs)
    run.result({"valid": True, "resources": len(catalog.entries), "diagnostics": []})
    return 0


def _output(run: HostRun) -> int:
    """Send the recorded outputs of a stack, or one of them; ``reveal``: in clear."""
    store, reveal = run.runtime.store, bool(run.options.get("reveal"))
    outputs = {} if recorded_stack.none_recorded(store, run.options) else dict(_recorded(run).outputs)
    if (name := run.options.get("name")) is not None:
        run.result(plain(recorded_stack.find_output(outputs, name, reveal=reveal)), reveal=reveal)
    else:
        run.result(plain(recorded_stack.revealed(outputs) if reveal else outputs), reveal=reveal)
    return 0


def _state(run: HostRun) -> int:
    """Send the document of ``state list``, ``state check`` or ``state history``."""
    store, subcommand = run.runtime.store, run.options.get("subcommand")
    if subcommand == "check":
        run.result({"found": list(store.check())})
    elif recorded_stack.none_recorded(store, run.options):
        run.result([])
    elif subcommand == "history":
        run.result(recorded_stack.finished_runs(store, recorded_stack.all_selected(store, run.options)))
    elif subcommand == "list":
        stack = _recorded(run)
        run.result([recorded_stack.resource_summary(stack, record) for record in stack.records.values()])
    else:
        msg = f"'state {subcommand}' cannot be asked of other hosts"
        raise UsageError(msg)
    return 0


def _recorded(run: HostRun) -> StackState:
    store = run.runtime.store
    return store.load(recorded_stack.selected(store, run.options))


def _resource(run: HostRun) -> int:
    """Send the resources that a name and filters select; change one where the job has changes."""
    options, text, name = run.options, run.options.get("type_name"), run.options.get("name")
    every_type, strict = bool(options.get("every_type")), options.get("strict") or "error"
    filters, changes = list(options.get("filters") or ()), list(options.get("changes") or ())
    if every_type or any(mark in (text or ",") for mark in ",*?"):
        types = resource_selection.find_types(run.runtime, "*" if every_type else text or "")
        listed, complete = resource_selection.read_types(run.runtime, *types, strict=strict)
        return _send_resources(run, listed, None, filters, complete=complete)
    definition = resource_selection.find_type(run.runtime, str(text))
    provider = _selected_provider(run, definition.name)
    if provider is not None:
        definition = run.registry.type(definition.name, provider.version).for_instance(provider.instance)
    if name is None or (resource_selection.is_pattern(name) and not changes):
        rows, failures = run.runtime.read(definition.name, strict=strict, selected=provider)
        for reference, error in failures.items():
            run.log.write("err", reference, error, definition.name, reference=reference, status="failed")
        return _send_resources(run, [(definition, rows)], name, filters, complete=not failures)
    name, attributes = resource_access.parse_name(definition, name, changes, _refuse_secret)
    identity = partial(resource_access.canonical_identity, definition, name, attributes)
    read = partial(run.runtime.read_all, definition.name, identity, strict=strict, selected=provider)
    if not attributes.keys() <= set(definition.namevars):
        flags: dict[str, Any] = {"noop": bool(options.get("noop")), "strict": strict, "selected": provider}
        target = Reference(definition.name, name)
        report = run.runtime.change_resource(definition, target, read()[0], attributes, **flags)
        if code := run.report(report):
            return code
    return _send_resources(run, [(definition, read())], None, filters, complete=True)


def _refuse_secret(attribute: str, _text: str) -> NoReturn:
    msg = f"{attribute} is sensitive and cannot be given to other hosts like this; make it an input of a manifest"
    raise UsageError(msg)


def _send_resources(
    run: HostRun, listed: Listed, pattern: str | None, filters: Sequence[str], *, complete: bool
) -> int:
    """Send the selected resources and return the exit code: 1 unless the listing is ``complete``."""
    run.result(resource_selection.documents(resource_selection.select_resources(listed, pattern, filters)))
    return 0 if complete else 1


def _selected_provider(run: HostRun, type_name: str) -> SelectedProvider | None:
    """Return the configured provider that the job names, or None. Raise ``UsageError``."""
    if run.options.get("config"):
        msg = "--config cannot be given to other hosts; declare the provider in a manifest, and name it with --manifest"
        raise UsageError(msg)
    manifest = run.manifest if run.job.documents else None
    provider = run.options.get("provider")
    return run.runtime.select(type_name, provider=provider, manifest=manifest, inputs=run.inputs or None)


_COMMANDS: Final[Mapping[str, Callable[[HostRun], int]]] = {
    "apply": _apply,
    "destroy": _destroy,
    "output": _output,
    "plan": _plan,
    "refresh": _refresh,
    "resource": _resource,
    "state": _state,
    "validate": _validate,
}
