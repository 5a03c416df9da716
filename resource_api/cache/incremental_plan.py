"""Save the conclusion of a run that had nothing to do, and plan only the rest of the manifest while it is valid.

The rest is a manifest and a state of its own, for the one compiler and the one planner. A plan of it may show drift,
where it is only shown; any other plan of it must do and record nothing. Everything else is decided by a whole plan,
which uses the rows that were read already. Used where only changes are printed: the
output is the same as without the cache. ``conclusion`` decides which resources are left out, ``fingerprints`` whether
they may be.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.cache.conclusion import Conclusion, conclude, row_digests
from resource_api.cache.fingerprints import Fingerprints, take_fingerprints
from resource_api.manifest import read as reading
from resource_api.manifest.sections import assemble, without
from resource_api.model.step import SAME
from resource_api.model.values.document import Document, Node
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive
from resource_api.plan.decide import required_references
from resource_api.prior.match import stated_implementations
from resource_api.state.store import StackName
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.options import CacheRequest
    from resource_api.model.record import StackState
    from resource_api.model.type_definition import Name, Resource
    from resource_api.model.values.masking import Mask
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.implementations import Implementations
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.state.store import CachedConclusion, StateStore

#: A longer rest of a manifest, in characters of JSON, is parsed again in each run.
_MAX_CHARACTERS: Final = 1 << 20


class Planner(NamedTuple):
    """How a run makes a catalog from a manifest, and a plan from that and its state."""

    compile: Callable[[Manifest], Catalog]
    plan: Callable[[Catalog, StackState], ExecutionPlan]


def save(request: CacheRequest, plan: ExecutionPlan, providers: ProviderPool, store: StateStore) -> None:
    """Save the conclusion of a run that had nothing to do, if it has written nothing either.

    Nothing is saved of a run that printed warnings or other output while compiling: later runs would not print it; and
    nothing of a manifest with ephemeral inputs, or with resources that are carried out only after a failure.
    """
    catalog, prior = plan.catalog, plan.prior
    name = StackName.of(prior.state)
    printed = catalog.warnings or catalog.notes or providers.wrote_output
    if catalog.on_failure:
        return
    if any(parameter.ephemeral for parameter in catalog.manifest.inputs.values()):
        return
    if plan.cached_unchanged or printed or store.load(name).serial != prior.state.serial:
        return
    if (conclusion := conclude(plan)) is None:
        return
    derived = providers.run.derived
    if (fingerprints := take_fingerprints(catalog, providers, request.began, derived)) is not None:
        keys = [prior.records[index].key for index in sorted(prior.records)]
        keys += [record.key for record in prior.instances.recorded.values()]
        rest = _rest_of_files(plan, conclusion, providers.run.log.mask)
        content = {
            "fingerprints": fingerprints,
            "conclusion": conclusion.to_json(),
            "derived": derived.used if derived else {},
            "rest": rest,
        }
        store.save_conclusion(request.label, name, content, keys)


class _WholePlanNeededError(Exception):
    """The cached conclusion cannot be used."""


def plan(request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, planner: Planner) -> ExecutionPlan | None:
    """Return a plan without the resources that a cached conclusion leaves out, or None if a whole one is needed.

    A whole plan is made from the rows that ``snapshot`` has read by then; nothing is read twice.
    """
    try:
        return _plan_rest(request, cached, snapshot, planner)
    except Exception:  # noqa: BLE001 - a whole plan meets the same error and reports it, unless the entry is damaged
        return None


def _plan_rest(request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, planner: Planner) -> ExecutionPlan:
    """Return the plan of the resources that a cached conclusion leaves. Raises any error if it cannot be used."""
    providers, content = snapshot.providers, cached.content
    fingerprints, conclusion = Fingerprints(*content["fingerprints"]), Conclusion.from_json(content["conclusion"])
    _require(fingerprints.are_valid(providers.registry))
    if (derived := providers.run.derived) is not None:
        derived.continue_from(content["derived"], [path for path, *_ in fingerprints.code])
    compile_rest = partial(_compile_rest, request, fingerprints, conclusion, planner)
    # The rest is compiled before anything is read, as in a whole run: then its secrets are masked, and a provider that
    # looks up declared resources has done so before it reads.
    documents = None if content["rest"] is None else saved_documents(content["rest"])
    catalog = compile_rest(conclusion.rest(), documents=documents)
    affected = conclusion.affected(_read(catalog, conclusion, snapshot))
    # By now all providers are loaded, with their imports.
    _require(fingerprints.cover_loaded_code() and fingerprints.are_chosen(providers.chosen()))
    rest = conclusion.rest(affected)
    if affected:
        _require(request.options.shown or request.options.noop)
        catalog = compile_rest(rest)
    if (state := cached.state(conclusion.positions(rest))) is None:
        raise _WholePlanNeededError
    plan = planner.plan(catalog, _without_left_out(state, catalog))
    _require(_is_usable(plan, conclusion, rest, affected))
    _require(affected or not _would_record(plan, providers.several))
    return plan._replace(cached_unchanged=len(conclusion.keys) - len(rest))


def _require(condition: object) -> None:
    if not condition:
        raise _WholePlanNeededError


def _compile_rest(
    request: CacheRequest,
    fingerprints: Fingerprints,
    conclusion: Conclusion,
    planner: Planner,
    rest: Collection[int],
    *,
    documents: Sequence[Document] | None = None,
) -> Catalog:
    """Compile the ``rest`` of a manifest, at most half of it; without ``documents`` from its files."""
    _require(2 * len(rest) <= len(conclusion.keys))
    if documents is None:
        whole, problems = reading.load_documents(request.source)
        _require(not problems)
        documents = without(whole, conclusion.left_out(rest))
    _require(fingerprints.match(documents))
    catalog = planner.compile(assemble(documents)._replace(path=reading.absolute(request.source)))
    _require(len(catalog.entries) == len(rest) and not (catalog.warnings or catalog.notes))
    return catalog


def _read(catalog: Catalog, conclusion: Conclusion, snapshot: Snapshot) -> Mapping[str, Mapping[Name, Resource]]:
    """Return, by instance and name, the rows that must be compared, and those of ``catalog`` of the same instances."""
    snapshot.providers.assigned = partial(stated_implementations, catalog, None)
    return {
        instance: snapshot.read_unchecked(snapshot.providers.functions(instance).definition, names)
        for instance, names in conclusion.names_to_read({entry.key for entry in catalog.entries})
    }


def _is_usable(plan: ExecutionPlan, conclusion: Conclusion, rest: Collection[int], affected: Collection[int]) -> bool:
    """Return whether a plan has only resources of the ``rest``, of which only the ``affected`` ones act.

    A side effect of theirs could concern a resource that is left out.
    """
    indexes, prior = conclusion.indexes(), plan.prior
    for step in plan.steps:
        index = indexes.get(step.entry.key, -1)
        acts = step.decision is not SAME or step.refreshed_by or step.deferred or step.previous
        if index not in rest or (acts and (index not in affected or step.asks_side_effects)):
            return False
    changes = plan.output_changes or prior.undeclared or prior.orphans or prior.moved_keys
    return not changes and prior.instances.commit.empty


def _without_left_out(state: StackState, catalog: Catalog) -> StackState:
    """Return the state as if it had been recorded without the resources that are left out."""
    required = {entry.key: required_references(catalog, entry) for entry in catalog.entries}
    records = {
        key: record._replace(requires=required[key]) if key in required else record
        for key, record in state.records.items()
    }
    return state._replace(records=records)


def _would_record(plan: ExecutionPlan, several: Mapping[str, Implementations]) -> bool:
    """Return whether an apply would write records: those must name all that a resource requires."""
    operations = (operation for operation in plan.operations if operation.step.entry.index not in plan.in_sync)
    return bool(Records(plan, several).differing(map(OperationRun, operations)))


# The rest of the manifest: the resources that are planned in every run


def _rest_of_files(plan: ExecutionPlan, conclusion: Conclusion, mask: Mask) -> list[Any] | None:
    """Return a manifest's files without the resources that are left out, as plain data, or None to parse them again.

    They are parsed again where a secret may be among them, or a value that is not plain data.
    """
    catalog, rest = plan.catalog, conclusion.rest()
    shoulds = (entry.should for entry in catalog.entries if entry.index in rest)
    if mask or not all(row_digests(shoulds)) or _may_hold_secret(catalog.manifest):
        return None
    documents = without(catalog.manifest.documents, conclusion.left_out(rest))
    files = [[document.file, document.data, _positions(document.heads(), list)] for document in documents]
    try:
        text = json.dumps(files)
    except (TypeError, ValueError, RecursionError):
        return None
    return files if len(text) <= _MAX_CHARACTERS and json.loads(text) == files else None


def saved_documents(files: Sequence[Any]) -> list[Document]:
    """Return saved files as documents, whose text is parsed when a position is needed. Raises ``OSError``."""
    return [_document(*file) for file in files]


def _document(file: str, data: object, heads: Mapping[str, Mapping[str, object]]) -> Document:
    raw, _ = reading.read_file(file)
    index = lambda: reading.parse(raw, file).root or Node((1, 1), {})  # noqa: E731 - of this file
    return Document(data, file, raw, index, _positions(heads, tuple))


def _positions(heads: Mapping[str, Mapping[str, object]], kind: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Return positions as lists, which JSON has, or as tuples."""
    return {section: {key: kind(position) for key, position in heads[section].items()} for section in heads}


def _may_hold_secret(manifest: Manifest) -> bool:
    """Return whether anything but a resource is declared as a secret, or is for a provider, which may need one."""
    inputs = any(value.sensitive or "Sensitive" in value.type for value in manifest.inputs.values())
    outputs = any(type(value) in {dict, Sensitive} for value in manifest.outputs.values())
    return inputs or outputs or bool(manifest.providers)
