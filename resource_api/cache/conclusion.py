"""What a run has found in order and recorded just so, kept so that the next run need not conclude it again.

Compiling and planning are pure: where nothing that went into them has changed, nothing that came of them has. Of the
world only what was read went in, and of each row a digest is kept, never the row. How long it holds is decided by
whoever looks at the world (``cache.fingerprints``, the stores of state); what is left to be planned,
in ``convergence``.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, parse
from resource_api.model.values.values import is_flat, same_value
from resource_api.plan import bulk_decisions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import StackState
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.plan.planner import Plan

#: Without references among values, so that equal values are spelt alike.
_SPELLING: Final = 2
_BYTES: Final = 12


class InstanceGroup(NamedTuple):
    """The resources of one instance that were asked for together: names, numbers, and digests of what was read."""

    instance: str
    names: Sequence[Name]
    #: Their places in the order of execution.
    numbers: Sequence[int]
    #: Empty for one of which more than its row decides: it is planned in every run.
    digests: Sequence[str]


class Conclusion(NamedTuple):
    """A manifest's resources as a run has left them, by their number in the order of execution."""

    project: str
    project_given: bool
    #: Whether the manifest says nothing but resources.
    bare: bool
    #: The file that relative names begin at, as it was named.
    file: str
    #: The key in the manifest of each that can be left out of it; None for the others.
    keys: Sequence[str | None]
    standing: Sequence[InstanceGroup]
    #: The numbers of those that are recorded, in this order.
    recorded: Sequence[int]
    #: number → the numbers that come after it, directly.
    after: Mapping[int, Sequence[int]]
    #: number → the numbers that its declaration names.
    names: Mapping[int, Sequence[int]]

    @classmethod
    def read(cls, values: Sequence[Any]) -> Conclusion:
        """Make it again of what JSON has made of it. Raises ``ValueError`` or ``TypeError`` for anything else."""
        *frame, standing, recorded, after, names = values
        groups = [InstanceGroup(instance, list(map(_name, found)), *more) for instance, found, *more in standing]
        return cls._make((*frame, groups, recorded, _numbered(after), _numbered(names)))


def digests(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Give what tells each of ``rows`` from any other; empty for one that holds more than plain data."""
    found = []
    for row in rows:
        try:
            found.append(
                blake2b(
                    marshal.dumps(row if type(row) is dict else dict(row), _SPELLING), digest_size=_BYTES
                ).hexdigest()
            )
        except ValueError:
            found.append("")
    return found


def _name(name: Any) -> Name:
    return tuple(name) if type(name) is list else name


def _numbered(edges: Mapping[str, Sequence[int]]) -> dict[int, Sequence[int]]:
    return {int(number): others for number, others in edges.items()}


#: What an expression begins with: its value may be another one in the next run.
_EXPRESSION = "${"
#: Sections that decide nothing about a resource that is declared without expressions.
_BARE = frozenset({"project", "include", "resources"})


def conclude(plan: Plan) -> Conclusion | None:
    """Give what a plan that had nothing to do says about the next run; None where that is nothing."""
    catalog, manifest = plan.catalog, plan.catalog.manifest
    moving = _moving(manifest)
    keys: list[str | None] = [None] * len(catalog.entries)
    groups: dict[str, list[tuple[Entry, Mapping[str, Any]]]] = {}
    for step in plan.steps:
        entry = step.entry
        groups.setdefault(entry.instance, []).append((entry, step.is_ or {}))
        if entry.index in plan.in_sync and not (entry.type in moving or entry.parent) and _alone(step):
            keys[entry.index] = _key(entry)
    for entry in _put_out(catalog):
        keys[entry.index] = None
    standing = [_standing(instance, pairs, keys) for instance, pairs in groups.items()]
    if not any(keys):
        return None
    bare = all(each.data.keys() <= _BARE for each in manifest.documents if type(each.data) is dict)
    after, names = reverse(catalog.requires), dict(_names(catalog))
    frame = manifest.project, manifest.project_given, bare, manifest.file
    return Conclusion(*frame, keys, standing, sorted(plan.prior.records), after, names)


def _standing(instance: str, pairs: Sequence[tuple[Entry, Mapping[str, Any]]], keys: list[str | None]) -> InstanceGroup:
    """Give the group of an instance; what more than plain data was read of cannot be left out of a plan."""
    found = digests(row for _, row in pairs)
    for place, (entry, _) in enumerate(pairs):
        if not found[place]:
            keys[entry.index] = None
        elif keys[entry.index] is None:
            found[place] = ""
    return InstanceGroup(instance, [entry.name for entry, _ in pairs], [entry.index for entry, _ in pairs], found)


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
    found, request = [row.get(name) for name in names], [should[name] for name in names]
    return found == request and all(map(same_value, found, request))


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


def moved(converged: Conclusion, rows: Mapping[str, Mapping[Name, Resource]]) -> set[int]:
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


def asked(converged: Conclusion, declared: Collection[tuple[str, Name]]) -> Iterator[tuple[str, list[Name]]]:
    """Give the instances of which anything may be left out, and what of each must be looked at before that is planned.

    ``declared``: what is planned in any case; what was planned so then may have another name now.
    """
    for group in converged.standing:
        if any(group.digests):
            pairs = zip(group.names, group.digests, strict=True)
            yield group.instance, [name for name, digest in pairs if digest or (group.instance, name) in declared]


def stirred(converged: Conclusion, moved: Collection[int]) -> set[int]:
    """Give what has moved and all that comes after it: of these alone a plan may now say something new."""
    return descendants(moved, converged.after)


def known(catalog: Catalog, state: StackState) -> StackState:
    """Give the state as if it had been recorded without what is left out, which some of it requires."""
    required = {entry.key: bulk_decisions.required_references(catalog, entry) for entry in catalog.entries}
    records = {
        key: record._replace(requires=required[key]) if key in required else record
        for key, record in state.records.items()
    }
    return state._replace(records=records)


def remaining(converged: Conclusion, stirred: Collection[int]) -> set[int]:
    """Give what must be planned: what is stirred, what more than its row decides about, and all that these name."""
    always = (number for number, key in enumerate(converged.keys) if key is None)
    return descendants({*stirred, *always}, converged.names)
