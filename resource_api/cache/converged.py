"""What a run has found in order and recorded so → what of it the next run need not plan again.

Left out is only what its declaration, its row and its record alone decide about, all three unchanged, and what stands
on nothing that has moved. Everything else is planned as ever; what that plan may not do is said in ``cache.fast_plan``.
Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.cache.conclusion import Converged, Standing, digests
from resource_api.catalog.graph import descendants
from resource_api.catalog.targets import reverse
from resource_api.model.values.reference import Reference, parse
from resource_api.model.values.values import is_flat, same
from resource_api.plan import unchanged as calm

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import StackState
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.plan.planner import Plan

#: What an expression begins with: its value may be another one in the next run.
_EXPRESSION = "${"
#: Sections that decide nothing about a resource that is declared without expressions.
_BARE = frozenset({"project", "include", "resources"})


def conclude(plan: Plan) -> Converged | None:
    """Give what a plan that had nothing to do says about the next run; None where that is nothing."""
    catalog, manifest = plan.catalog, plan.catalog.manifest
    moving = _moving(manifest)
    keys: list[str | None] = [None] * len(catalog.entries)
    groups: dict[str, list[tuple[Entry, Mapping[str, Any]]]] = {}
    for step in plan.steps:
        entry = step.entry
        groups.setdefault(entry.instance, []).append((entry, step.is_ or {}))
        if entry.index in plan.settled and not (entry.type in moving or entry.parent) and _alone(step):
            keys[entry.index] = _key(entry)
    for entry in _put_out(catalog):
        keys[entry.index] = None
    standing = [_standing(instance, pairs, keys) for instance, pairs in groups.items()]
    if not any(keys):
        return None
    bare = all(each.data.keys() <= _BARE for each in manifest.documents if type(each.data) is dict)
    after, names = reverse(catalog.requires), dict(_names(catalog))
    frame = manifest.project, manifest.project_given, bare, manifest.file
    return Converged(*frame, keys, standing, sorted(plan.prior.records), after, names)


def _standing(instance: str, pairs: Sequence[tuple[Entry, Mapping[str, Any]]], keys: list[str | None]) -> Standing:
    """Give the group of an instance; what more than plain data was read of cannot be left out of a plan."""
    found = digests(row for _, row in pairs)
    for place, (entry, _) in enumerate(pairs):
        if not found[place]:
            keys[entry.index] = None
        elif keys[entry.index] is None:
            found[place] = ""
    return Standing(instance, [entry.name for entry, _ in pairs], [entry.index for entry, _ in pairs], found)


def _moving(manifest: Manifest) -> set[str]:
    """Give the types of which a default is not written down as it is."""
    return {name for defaults in manifest.defaults.values() for name, body in defaults.items() if _moves(body)}


def _alone(step: Step) -> bool:
    """Whether declaration, row and record alone decide: no expression, no secret, nothing but equality asked."""
    entry, row, definition = step.entry, step.is_, step.definition
    if row is None or definition.sensitive or definition.write_only or definition.config.attributes:
        return False
    declared, should = entry.declaration, entry.should
    if _moves(declared.attributes) or (declared.meta and _moves(declared.meta)):
        return False
    if not (is_flat(should) or all(digests([should]))):
        return False
    names = [name for name in definition.compared if name in should]
    found, wanted = [row.get(name) for name in names], [should[name] for name in names]
    return found == wanted and all(map(same, found, wanted))


def _moves(values: Mapping[str, Any]) -> bool:
    """Whether a mapping as declared holds an expression."""
    try:
        text = "\n".join(values.values())
    except TypeError:
        text = repr(values)
    return _EXPRESSION in text


def _key(entry: Entry) -> str | None:
    """Give the key under which a resource stands in its file; None where it stands otherwise."""
    declared = entry.declaration
    return declared.key if declared.document is not None and _EXPRESSION not in declared.key else None


def _names(catalog: Catalog) -> Iterator[tuple[int, list[int]]]:
    """Give the resources that each one's declaration names: without them it could not be read."""
    for entry in catalog.entries:
        if entry.declaration.meta or entry.sources:
            named = {source.index for sources in entry.sources.values() for source in sources}
            for text in _texts(entry.declaration.meta):
                if (target := _found(catalog, text)) is not None:
                    named.add(target.index)
            if named:
                yield entry.index, sorted(named)


def _put_out(catalog: Catalog) -> Iterator[Entry]:
    """Give the resources that outputs are made of."""
    for value in catalog.manifest.outputs.values():
        for path in catalog.scope.paths(value):
            if isinstance(path.root, Reference) and (found := catalog.find(path.root)) is not None:
                yield found


def _texts(meta: Any) -> Iterator[str]:
    """Give every text in a value, however deep: which of them are references shows when they are looked up."""
    waiting = [meta]
    while waiting:
        value = waiting.pop()
        if type(value) is str:
            yield value
        elif type(value) is dict:
            waiting += value.values()
        elif type(value) is list:
            waiting += value


def _found(catalog: Catalog, text: str) -> Entry | None:
    try:
        return catalog.find(parse(text))
    except ValueError:
        return None


def declared(definition: TypeDefinition) -> str:
    """Give what a type's file declares: the same file may say something else in other surroundings."""
    attributes = [(name, each.type, each.kind, each.default) for name, each in definition.attributes.items()]
    return repr([attributes, sorted(definition.features), definition.title_patterns])


def moved(converged: Converged, rows: Mapping[str, Mapping[Name, Resource]]) -> set[int]:
    """Give the numbers of what could be left out but is not as it was; ``rows``: by instance and name, as read."""
    found: set[int] = set()
    for group in converged.standing:
        if (read := rows.get(group.instance)) is None:
            continue
        now = digests([read.get(name, {}) for name in group.names])
        if now != group.digests:
            pairs = zip(group.numbers, group.digests, now, strict=True)
            found.update(number for number, before, after in pairs if before and before != after)
    return found


def asked(converged: Converged, declared: Collection[tuple[str, Name]]) -> Iterator[tuple[str, list[Name]]]:
    """Give the instances of which anything may be left out, and what of each must be looked at before that is planned.

    ``declared``: what is planned in any case; what was planned so then may have another name now.
    """
    for group in converged.standing:
        if any(group.digests):
            pairs = zip(group.names, group.digests, strict=True)
            yield group.instance, [name for name, digest in pairs if digest or (group.instance, name) in declared]


def stirred(converged: Converged, moved: Collection[int]) -> set[int]:
    """Give what has moved and all that comes after it: of these alone a plan may now say something new."""
    return descendants(moved, converged.after)


def known(catalog: Catalog, state: StackState) -> StackState:
    """Give the state as if it had been recorded without what is left out, which some of it requires."""
    required = {entry.key: calm.required(catalog, entry) for entry in catalog.entries}
    records = {
        key: record._replace(requires=required[key]) if key in required else record
        for key, record in state.records.items()
    }
    return state._replace(records=records)


def remaining(converged: Converged, stirred: Collection[int]) -> set[int]:
    """Give what must be planned: what is stirred, what more than its row decides about, and all that these name."""
    always = (number for number, key in enumerate(converged.keys) if key is None)
    return descendants({*stirred, *always}, converged.names)
