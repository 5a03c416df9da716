"""Import: record existing resources that a manifest declares as managed by it; no resource is changed."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.catalog.resource_table import names_entry
from resource_api.model.change import exists
from resource_api.model.record import Commit, Record, StackState
from resource_api.model.report import Summary
from resource_api.model.sealed_secrets import seal_secrets
from resource_api.model.values import reference
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.start_up import NamedTuple
from resource_api.plan import diff as drifting
from resource_api.plan import targets as selecting
from resource_api.plan.decide import required_references
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.render import json as documents
from resource_api.snapshot.batched_get import Snapshot
from resource_api.snapshot.observe import configure_instances
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction.recorder import recorded_inputs, recorded_lifecycle, recorded_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name
    from resource_api.prior.provider_instances import ProviderInstances
    from resource_api.runtime.commands import Call
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.store import StackName, Store


class ImportOutcome(NamedTuple):
    """The outcome of an import for one resource, imported or not."""

    reference: str
    #: ``imported``, ``recorded`` (as ours already), ``missing`` or ``failed``.
    status: str
    #: The reason why it is not imported.
    error: str = ""


class ForeignRecord(NamedTuple):
    """The record of another tool, such as Terraform, about a resource that is imported."""

    #: The private data with which its provider reads the resource.
    private: object
    status: str = "ready"


class _Reading(NamedTuple):
    """The result of reading a resource: its row, None if it does not exist, or the reason of a failure, or ""."""

    row: Mapping[str, object] | None
    failure: str


def import_summary(outcomes: Sequence[ImportOutcome]) -> Summary:
    """Return the counts of an import for its summary and exit code.

    A missing resource that only a pattern matches is no failure, and counts as unchanged.
    """
    statuses = [outcome.status for outcome in outcomes if not outcome.error]
    imported, failed = statuses.count("imported"), len(outcomes) - len(statuses)
    return Summary(imported=imported, unchanged=len(statuses) - imported, failed=failed)


def import_document(call: Call) -> dict[str, Any]:
    """Carry out the command ``import``: return the document of the outcomes, and log the errors.

    Its summary has the exit code, which is 1 if any resource failed.
    """
    references, name = call.options["references"], call.options["name"]
    strict = call.options.get("strict", "error")
    outcomes = import_resources(call.runtime, call.manifest, references, name, call.inputs, strict=strict)
    summary = import_summary(outcomes)
    return {
        "reference": references[0],
        "resources": [outcome._asdict() for outcome in outcomes],
        "summary": documents.summary(summary, int(bool(summary.failed))),
    }


def import_resources(
    runtime: Runtime,
    source: Source,
    targets: Sequence[str],
    name: str | None,
    inputs: Mapping[str, object] | None = None,
    *,
    strict: str = "error",
    foreign_records: Mapping[str, ForeignRecord] = MappingProxyType({}),
) -> list[ImportOutcome]:
    """Record existing resources that the manifest declares as managed by it (contract §10.11).

    Each of ``targets`` is a reference, a URN, or a pattern as for ``--target``; a resource that only a pattern matches
    may be missing. With a single target, ``name`` is its declared name, or the system's id of it if its type imports by
    id; None: not given. A last target that is not declared is taken as ``name``. ``strict``: as for ``Snapshot``.
    ``foreign_records``: reference → record of another tool, whose private data and status are taken over. Raise
    ``UsageError`` for a target that is not declared.
    """
    providers = ProviderPool(runtime.registry, runtime.run)
    bound = runtime.log.bind(stack=runtime.stack, phase="observe")
    with bound, runtime.lock("import"), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        stack = runtime.name(catalog)
        runtime.claim(stack)
        if name is None and _ends_with_name(targets, catalog):
            *targets, name = targets
        explicit, entries = _declared_entries(catalog, targets, stack)
        if name is not None:
            _check_name(name, targets, entries, providers)
        instances = configure_instances(catalog, runtime.store.load(stack), providers)
        runtime.begin_private_data(instances.state)
        new = [entry for entry in entries if not _is_ours(entry, instances.state)]
        for entry in new:
            if (foreign := foreign_records.get(str(entry.reference))) is not None:
                runtime.run.private.store(entry.key, foreign.private)
        rows = _read_entries(new, Snapshot(providers, strict), name)
        records = []
        for entry in new:
            if (row := rows[entry.index].row) is not None:
                foreign = foreign_records.get(str(entry.reference), ForeignRecord(None))
                record = _imported_record(catalog, entry, row, instances.state, providers)
                records.append(record._replace(status=foreign.status))
        if records:
            _commit(runtime.store, stack, instances, records, catalog.manifest)
        outcomes = [_outcome(entry, rows.get(entry.index), is_explicit=entry.index in explicit) for entry in entries]
        for entry, outcome in zip(entries, outcomes, strict=True):
            log_import(runtime, outcome, entry.type)
    return outcomes


def _commit(
    store: Store, stack: StackName, instances: ProviderInstances, records: Sequence[Record], manifest: Manifest
) -> None:
    """Record imported resources and the configurations of their providers.

    Intents of interrupted runs about the resources are resolved, because their present state is known now.
    """
    state = instances.state
    resolved = [record.key for record in records if record.key in state.intents]
    for commit in (instances.commit, Commit(records, resolved=resolved, manifest=manifest.recorded_after(state))):
        if commit.changes_state:
            store.commit(stack, commit)


def _is_ours(entry: Entry, state: StackState) -> bool:
    """Return whether a resource needs no import, as its record is marked as owned and has the right id.

    If the system gives resources of the type an id, an interrupted run may have created a new resource: then the
    recorded id may be that of the old one, and the resource is imported again.
    """
    record = state.records.get(entry.key)
    if record is None or not record.owned:
        return False
    return entry.definition.identity is None or not (entry.key in state.intents or record.status == "unconfirmed")


def _read_entries(entries: Sequence[Entry], snapshot: Snapshot, name: str | None) -> dict[int, _Reading]:
    """Read the resources to import; return entry's index → its row or None, and the reason of a failure or "".

    ``name``, unless None, belongs to the only entry. If its type has the feature ``import``, the name is the system's
    id of the resource, by which the provider reads a resource that has no record yet.
    """
    by_instance: dict[str, list[Entry]] = {}
    stated: dict[str, dict[Name, str]] = {}
    for entry in entries:
        by_instance.setdefault(entry.instance, []).append(entry)
        if entry.meta.implementation is not None:
            stated.setdefault(entry.instance, {})[entry.name] = entry.meta.implementation
    # Before the first call: of a type with several providers each resource is read by the one that it states.
    snapshot.providers.assigned = lambda instance: stated.get(instance, {})
    if name is not None:
        snapshot.imports = {entry.key: name for entry in entries if "import" in entry.definition.features}
    rows: dict[int, _Reading] = {}
    for group in by_instance.values():
        snapshot.read(group[0].definition, [entry.name for entry in group])
        for entry in group:
            row, failure = snapshot.observation(entry.instance, entry.name)
            is_there = row is not None and not failure and exists(row)
            rows[entry.index] = _Reading(row if is_there else None, failure)
    return rows


def _outcome(entry: Entry, reading: _Reading | None, *, is_explicit: bool) -> ImportOutcome:
    """Return the outcome for a resource: recorded before, imported, failed or missing.

    ``reading``: None if it was not read, because it is recorded as managed already. A missing resource is an error only
    if ``is_explicit``, since a pattern may also match declared resources that do not exist yet.
    """
    name = str(entry.reference)
    if reading is None:
        return ImportOutcome(name, "recorded")
    if reading.row is not None:
        return ImportOutcome(name, "imported")
    failure = reading.failure
    error = f"{name} cannot be imported: {failure or 'it does not exist'}" if failure or is_explicit else ""
    return ImportOutcome(name, "failed" if failure else "missing", error)


def log_import(runtime: Runtime, outcome: ImportOutcome, type_name: str = "") -> None:
    """Log the outcome for one resource: an error, or a success at info, as the command prints successes itself."""
    texts = {"imported": "imported", "recorded": "is recorded as ours already"}
    name = outcome.reference
    if outcome.error:  # which names the resource
        runtime.log.write("err", "", outcome.error, type_name, reference=name, action="import", status="failed")
    elif text := texts.get(outcome.status):
        runtime.log.write("info", name, text, type_name, reference=name, action="import", status="success")


def _declared_entries(catalog: Catalog, targets: Sequence[str], stack: StackName) -> tuple[set[int], list[Entry]]:
    """Return the indices of the entries that are targets by their own reference, and all selected entries, in order.

    The latter include entries that only a pattern matches. The caller reports a missing resource as an error only if
    its index is among the former. Raise ``UsageError``.
    """
    explicit, indices = set[int](), set[int]()
    for target in targets:
        if _is_pattern(target) and _named_entry(catalog, target) is None:
            entries = (catalog.entries[index] for index in selecting.matching([target], catalog, "import"))
            # Neither a run of a program nor a resource that is only read can be ours.
            importable = (entry for entry in entries if "imperative" not in entry.definition.features)
            indices |= {entry.index for entry in importable if not entry.meta.lifecycle.external}
        else:
            explicit.add(_declared_entry(catalog, target, stack).index)
    return explicit, [catalog.entries[index] for index in sorted(explicit | indices)]


def _is_pattern(target: str) -> bool:
    """Whether a target may select more than one resource: it has wildcards, or is a type."""
    return not target.startswith("urn:") and ("*" in target or "?" in target or "[" not in target)


def _named_entry(catalog: Catalog, target: str) -> Entry | None:
    """Return the entry whose reference is exactly ``target``, or None.

    It is searched before the target is taken as a pattern, because a title may contain ``*`` itself.
    """
    with suppress(ValueError):
        return catalog.find(reference.parse_name(target))
    return None


def _ends_with_name(targets: Sequence[str], catalog: Catalog) -> bool:
    """Return whether the last target is the name or id of the resource before it (``import SITE REFERENCE NAME``).

    A last target that matches no declared resource is taken as a name. Of three or more targets, one that looks like a
    reference is more likely a mistyped reference, which is then reported.
    """
    *others, last = targets
    if not others or (len(others) > 1 and "[" in last):
        return False
    try:
        return not selecting.matching([last], catalog, "import")
    except UsageError:
        return True


def _check_name(name: str, targets: Sequence[str], entries: Sequence[Entry], providers: ProviderPool) -> None:
    """Raise ``UsageError`` unless ``name`` is the declared name of the only target, so that no other one is imported.

    For a type that imports by id, ``name`` is the id and may be any text.
    """
    if len(targets) > 1 or _is_pattern(targets[0]):
        msg = f"the name '{name}' goes with one reference; declare the name of each resource that is to be imported"
        raise UsageError(msg)
    (entry,) = entries
    if not ("import" in entry.definition.features or names_entry(name, entry, providers.functions(entry.instance))):
        declared = entry.definition.title_of(entry.definition.absent_row(entry.name))
        raise UsageError(f"{entry.reference} is declared as '{declared}', not '{name}'; declare what is to be imported")


def _declared_entry(catalog: Catalog, target: str, stack: StackName) -> Entry:
    """Return the entry of the catalog whose reference or URN is ``target``, to import its resource.

    Raise ``UsageError`` for a URN of another stack, for a component, of which each member is imported by itself, and
    for a resource that is not declared.
    """
    with errors_as(UsageError):
        reference.check_stack(target, *stack)
        target_reference = reference.parse_name(target)
    if target_reference in catalog.components:
        members = ", ".join(str(member.reference) for member in catalog.components[target_reference].members)
        raise UsageError(f"{target_reference} is a component; import its resources one by one: {members}")
    entry = catalog.find(target_reference)
    if entry is None:
        near = hint(target_reference, (str(declared.reference) for declared in catalog.entries))
        raise UsageError(f"{target_reference} is not declared in {catalog.manifest.file}; declare it first{near}")
    return entry


def _imported_record(
    catalog: Catalog, entry: Entry, row: Mapping[str, object], state: StackState, providers: ProviderPool
) -> Record:
    """Return the record of an imported resource, from its declaration and the row that was read.

    Declared values that differ from ``row`` are not recorded, so that the next plan shows them as changes, not as
    drift. Values that no state contains (``write_only``, ``ephemeral``) or that are unknown (``pending``) are omitted.
    """
    hidden = {*entry.definition.write_only, *entry.ephemeral, *entry.pending}
    should = seal_secrets({key: value for key, value in entry.should.items() if key not in hidden}, state.salt)
    record = Record(
        entry.type,
        entry.name,
        entry.title,
        inputs=recorded_inputs(entry, entry.should, state.salt),
        should=should,
        is_=seal_secrets(recorded_state(entry.definition, entry.should, row), state.salt),
        owned=True,
        requires=required_references(catalog, entry),
        lifecycle=recorded_lifecycle(entry, state.records.get(entry.key)),
        provider=entry.provider,
        schema_version=entry.definition.schema_version,
        parent=entry.parent,
        implementation=providers.implementation(entry.instance, entry.name),
        private=seal_secrets(providers.run.private.get(entry.key), state.salt),
    )
    # The function for drift compares ``is_`` with the row: with the declared values as ``is_`` it returns the
    # differences of the declaration.
    differences = drifting.drifted_attributes(entry.definition, record._replace(is_=should), row, state.salt)
    unlike = {difference.attribute for difference in differences}
    return record._replace(should={key: value for key, value in should.items() if key not in unlike})
