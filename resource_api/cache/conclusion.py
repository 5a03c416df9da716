"""The conclusion of a run in which nothing was to be done, and which of its resources need no new plan.

A resource can be left out of a later plan if its declaration, its row and its record alone decide about it, all three
are unchanged, and nothing that it depends on has changed. Of each row a digest is kept, never a value. Pure: whether a
conclusion is still valid is decided by ``fingerprints``.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, parse
from resource_api.model.values.values import is_flat, same_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name, Resource
    from resource_api.plan.planner import Plan

#: The marshal version without references among values: equal values have equal bytes.
_WITHOUT_REFERENCES: Final = 2
_DIGEST_BYTES: Final = 12
_EXPRESSION: Final = "${"
#: Sections that do not decide about a resource that is declared without expressions.
_NEUTRAL_SECTIONS: Final = frozenset({"project", "include", "resources"})


class InstanceRows(NamedTuple):
    """The resources of one provider instance that were read together, and digests of their rows."""

    instance: str
    names: Sequence[Name]
    #: Their places in the order of execution.
    numbers: Sequence[int]
    #: By resource, the digest of its row; empty: it is planned in every run.
    digests: Sequence[str]


class Conclusion(NamedTuple):
    """The resources of a manifest as a run has left them, by their number in the order of execution."""

    project: str
    project_given: bool
    #: Whether the manifest has no section that could decide about a resource from elsewhere.
    neutral: bool
    #: The file that relative names in the manifest refer to, as it was named.
    file: str
    #: By number, the key in the manifest; None: the resource is planned in every run.
    keys: Sequence[str | None]
    rows: Sequence[InstanceRows]
    #: The numbers of the recorded resources, in this order; after them so many configured providers are recorded.
    recorded: Sequence[int]
    providers: int
    #: number → the numbers of the resources that directly come after it.
    dependents: Mapping[int, Sequence[int]]
    #: number → the numbers of the resources that its declaration names.
    named: Mapping[int, Sequence[int]]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Conclusion:
        """Return the conclusion that was written as JSON. Raises ``ValueError`` or ``TypeError`` for anything else."""
        *frame, rows, recorded, providers, dependents, named = values
        groups = [InstanceRows(instance, list(map(_name, names)), *more) for instance, names, *more in rows]
        return cls._make((*frame, groups, recorded, providers, _numbered(dependents), _numbered(named)))

    def positions(self, numbers: Collection[int]) -> list[int]:
        """Return where, among what was recorded, the resources with these numbers stand, and all providers."""
        places = [place for place, number in enumerate(self.recorded) if number in numbers]
        return [*places, *range(len(self.recorded), len(self.recorded) + self.providers)]

    def names_to_read(self, declared: Collection[tuple[str, Name]]) -> Iterator[tuple[str, list[Name]]]:
        """Yield each instance of which anything may be left out, with the names that must be read to decide that.

        ``declared``: the keys of what is planned in every run; an expression may have given it another name since.
        """
        for group in self.rows:
            if any(group.digests):
                pairs = zip(group.names, group.digests, strict=True)
                yield group.instance, [name for name, digest in pairs if digest or (group.instance, name) in declared]

    def affected(self, rows: Mapping[str, Mapping[Name, Resource]]) -> set[int]:
        """Return the numbers of the resources whose row has changed, and of all that come after them.

        ``rows``: what was read, by instance and name.
        """
        changed: set[int] = set()
        for group in self.rows:
            if (read := rows.get(group.instance)) is None:
                continue
            digests = row_digests([read.get(name, {}) for name in group.names])
            if digests != group.digests:
                triples = zip(group.numbers, group.digests, digests, strict=True)
                changed.update(number for number, before, after in triples if before and before != after)
        return descendants(changed, self.dependents)

    def to_plan(self, affected: Collection[int]) -> set[int]:
        """Return the numbers to plan: the affected, what is planned in every run, and all that these name."""
        always = (number for number, key in enumerate(self.keys) if key is None)
        return descendants({*affected, *always}, self.named)

    def left_out(self, planned: Collection[int]) -> set[str]:
        """Return the keys of the resources that are left out where those with these numbers are planned."""
        return {key for number, key in enumerate(self.keys) if key is not None and number not in planned}


def conclude(plan: Plan) -> Conclusion | None:
    """Return the conclusion of a plan that had nothing to do; None: nothing could be left out of a later plan."""
    catalog, manifest = plan.catalog, plan.catalog.manifest
    variable = _types_with_variable_defaults(manifest)
    keys: list[str | None] = [None] * len(catalog.entries)
    by_instance: dict[str, list[tuple[Entry, Mapping[str, Any]]]] = {}
    for step in plan.steps:
        entry, definition = step.entry, step.entry.definition
        by_instance.setdefault(definition.instance, []).append((entry, step.is_ or {}))
        if entry.index in plan.in_sync and not (definition.name in variable or entry.parent) and _stands_alone(step):
            keys[entry.index] = _manifest_key(entry)
    for entry in _in_outputs(catalog):
        keys[entry.index] = None
    rows = [_instance_rows(instance, pairs, keys) for instance, pairs in by_instance.items()]
    if not any(keys):
        return None
    return Conclusion(
        project=manifest.project,
        project_given=manifest.project_given,
        neutral=all(each.data.keys() <= _NEUTRAL_SECTIONS for each in manifest.documents if type(each.data) is dict),
        file=manifest.file,
        keys=keys,
        rows=rows,
        recorded=sorted(plan.prior.records),
        providers=len(plan.prior.instances.recorded),
        dependents=reverse(catalog.requires),
        named=dict(_named(catalog)),
    )


def row_digests(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a digest of each row; empty for a row that holds more than plain data."""
    found = []
    for row in rows:
        try:
            data = marshal.dumps(row if type(row) is dict else dict(row), _WITHOUT_REFERENCES)
        except ValueError:
            found.append("")
        else:
            found.append(blake2b(data, digest_size=_DIGEST_BYTES).hexdigest())
    return found


def _instance_rows(
    instance: str, pairs: Sequence[tuple[Entry, Mapping[str, Any]]], keys: list[str | None]
) -> InstanceRows:
    """Return the rows of an instance; a key is removed from ``keys`` where the row has no digest."""
    digests = row_digests(row for _, row in pairs)
    for place, (entry, _) in enumerate(pairs):
        if not digests[place]:
            keys[entry.index] = None
        elif keys[entry.index] is None:
            digests[place] = ""
    return InstanceRows(instance, [entry.name for entry, _ in pairs], [entry.index for entry, _ in pairs], digests)


def _types_with_variable_defaults(manifest: Manifest) -> set[str]:
    """Return the types of which a default in the manifest holds an expression."""
    defaults = (each for of_file in manifest.defaults.values() for each in of_file.items())
    return {name for name, body in defaults if _has_expression(body)}


def _stands_alone(step: Step) -> bool:
    """Return whether declaration, row and record alone decide: no expression, no secret, every value compared equal."""
    entry, row, definition = step.entry, step.is_, step.entry.definition
    if row is None or definition.secret or definition.config.attributes:
        return False
    if entry.meta.implementation is not None:
        return False
    declared, should = entry.declaration, entry.should
    if _has_expression(declared.attributes) or (declared.meta and _has_expression(declared.meta)):
        return False
    if not (is_flat(should) or all(row_digests([should]))):
        return False
    names = [name for name in definition.compared if name in should]
    found, wanted = [row.get(name) for name in names], [should[name] for name in names]
    return found == wanted and all(map(same_value, found, wanted))


def _has_expression(values: Mapping[str, Any]) -> bool:
    """Return whether declared values hold an expression."""
    try:
        text = "\n".join(values.values())
    except TypeError:
        text = repr(values)
    return _EXPRESSION in text


def _manifest_key(entry: Entry) -> str | None:
    """Return the key of a resource in its file; None: it cannot be found by one."""
    declared = entry.declaration
    return declared.key if declared.document is not None and _EXPRESSION not in declared.key else None


def _named(catalog: Catalog) -> Iterator[tuple[int, list[int]]]:
    """Yield, by number, the resources that a declaration names: without them it could not be compiled."""
    for entry in catalog.entries:
        if entry.declaration.meta or entry.sources:
            named = {source.index for sources in entry.sources.values() for source in sources}
            for text in _texts(entry.declaration.meta):
                if (target := _find(catalog, text)) is not None:
                    named.add(target.index)
            if named:
                yield entry.index, sorted(named)


def _in_outputs(catalog: Catalog) -> Iterator[Entry]:
    """Yield the resources whose values are in the manifest's outputs."""
    for value in catalog.manifest.outputs.values():
        for path in catalog.scope.paths(value):
            if isinstance(path.root, Reference) and (found := catalog.find(path.root)) is not None:
                yield found


def _texts(meta: Any) -> Iterator[str]:
    """Yield every text in the metaparameters, at any depth; any of them may be a reference."""
    waiting = [meta]
    while waiting:
        value = waiting.pop()
        if type(value) is str:
            yield value
        elif type(value) is dict:
            waiting += value.values()
        elif type(value) is list:
            waiting += value


def _find(catalog: Catalog, text: str) -> Entry | None:
    try:
        return catalog.find(parse(text))
    except ValueError:
        return None


def _name(name: Any) -> Name:
    return tuple(name) if type(name) is list else name


def _numbered(edges: Mapping[str, Sequence[int]]) -> dict[int, Sequence[int]]:
    return {int(number): others for number, others in edges.items()}
