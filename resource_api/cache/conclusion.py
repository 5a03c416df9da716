"""The conclusion of a run that had nothing to do: the resources that a later run need not plan.

A resource can be left out of a later plan if its declaration, its row and its record alone decide about it, all three
are unchanged, nothing that it depends on changed, and no resource that is planned names it. Of each row a digest is
kept, never a value. Pure: whether a conclusion is still valid is decided by ``fingerprints``.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.catalog.targets import matching_entries
from resource_api.model.values.reference import Reference, parse
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.model.values.values import is_flat, same_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name, Resource
    from resource_api.plan.planner import ExecutionPlan

#: The marshal version without references among values: equal values have equal bytes.
_WITHOUT_REFERENCES: Final = 2
_DIGEST_BYTES: Final = 12
_EXPRESSION: Final = "${"


class InstanceRows(NamedTuple):
    """The resources of one provider instance that were read together, and digests of their rows."""

    instance: str
    names: Sequence[Name]
    #: By resource, its index in the order of execution.
    indexes: Sequence[int]
    #: By resource, the digest of its row, or "" if it is planned in every run.
    digests: Sequence[str]


class Conclusion(NamedTuple):
    """The resources of a manifest as a run has left them, by their index in the order of execution."""

    #: By index, the key in the manifest, or "" if the resource is planned in every run.
    keys: Sequence[str]
    rows: Sequence[InstanceRows]
    #: The indexes of the recorded resources, in the order of the saved records, and the number of providers after them.
    recorded: Sequence[int]
    providers: int
    #: index → the resources that directly come after it, and index → those that its declaration names.
    dependents: Mapping[int, Sequence[int]]
    references: Mapping[int, Sequence[int]]

    def to_json(self) -> dict[str, Any]:
        """Return the conclusion for JSON, whose mappings have no numbers as keys."""
        return {
            **self._asdict(),
            "dependents": list(self.dependents.items()),
            "references": list(self.references.items()),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Conclusion:
        """Return the conclusion that was written as JSON. Raises an error for anything else."""
        rows = [InstanceRows(instance, list(map(_name, names)), *more) for instance, names, *more in values["rows"]]
        graph = {field: dict(values[field]) for field in ("dependents", "references")}
        return cls(**{**values, "rows": rows, **graph})

    def affected(self, rows: Mapping[str, Mapping[Name, Resource]]) -> set[int]:
        """Return the resources whose row, by instance and name, changed, and all that come after them."""
        changed: set[int] = set()
        for group in self.rows:
            if any(group.digests):
                digests = row_digests([rows[group.instance].get(name, {}) for name in group.names])
                if digests != group.digests:
                    pairs = zip(group.indexes, group.digests, digests, strict=True)
                    changed.update(index for index, saved, digest in pairs if saved not in {"", digest})
        return descendants(changed, self.dependents)

    def rest(self, affected: Collection[int] = ()) -> set[int]:
        """Return the resources to plan: the affected, those planned in every run, and all that these name."""
        always = (index for index, key in enumerate(self.keys) if not key)
        return descendants({*affected, *always}, self.references)

    def left_out(self, rest: Collection[int]) -> set[str]:
        """Return the keys in the manifest of all resources but the ``rest``."""
        return {key for index, key in enumerate(self.keys) if index not in rest}

    def positions(self, rest: Collection[int]) -> list[int]:
        """Return the positions of the ``rest``, and of all providers, among the saved records."""
        positions = [position for position, index in enumerate(self.recorded) if index in rest]
        return [*positions, *range(len(self.recorded), len(self.recorded) + self.providers)]

    def indexes(self) -> Mapping[RecordKey, int]:
        """Return the index of each resource by its key."""
        return {
            (group.instance, name): index
            for group in self.rows
            for name, index in zip(group.names, group.indexes, strict=True)
        }

    def names_to_read(self, declared: Collection[RecordKey]) -> Iterator[tuple[str, list[Name]]]:
        """Yield each instance with resources that are left out, and the names that must be read to decide that.

        ``declared``: the keys of the resources planned in every run; an expression may have changed their names.
        """
        for group in self.rows:
            if any(group.digests):
                pairs = zip(group.names, group.digests, strict=True)
                yield group.instance, [name for name, digest in pairs if digest or (group.instance, name) in declared]


def conclude(plan: ExecutionPlan) -> Conclusion | None:
    """Return the conclusion of a plan that had nothing to do; None if all resources are planned in every run."""
    catalog = plan.catalog
    digests, keys = _digests(plan.steps), [""] * len(catalog.entries)
    variable = _types_with_variable_defaults(catalog.manifest)
    groups: dict[str, list[Entry]] = {}
    for step in plan.steps:
        entry = step.entry
        groups.setdefault(entry.instance, []).append(entry)
        fixed = entry.index in plan.in_sync and not (entry.type in variable or entry.parent)
        if fixed and digests[entry.index] and _stands_alone(step):
            keys[entry.index] = _manifest_key(entry)
    for entry in _in_outputs(catalog):
        keys[entry.index] = ""
    if not any(keys):
        return None
    rows = [
        InstanceRows(
            instance,
            [entry.name for entry in entries],
            [entry.index for entry in entries],
            [digests[entry.index] if keys[entry.index] else "" for entry in entries],
        )
        for instance, entries in groups.items()
    ]
    recorded, providers = sorted(plan.prior.records), len(plan.prior.instances.recorded)
    return Conclusion(keys, rows, recorded, providers, reverse(catalog.requires), dict(_named_entries(catalog)))


def row_digests(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a digest of each row; empty for a row that holds more than plain data."""
    digests = []
    for row in rows:
        try:
            data = marshal.dumps(row if type(row) is dict else dict(row), _WITHOUT_REFERENCES)
        except ValueError:
            digests.append("")
        else:
            digests.append(blake2b(data, digest_size=_DIGEST_BYTES).hexdigest())
    return digests


def _digests(steps: Sequence[Step]) -> dict[int, str]:
    """Return the digest of each step's row, by the index of its entry."""
    digests = row_digests(step.is_ or {} for step in steps)
    return {step.entry.index: digest for step, digest in zip(steps, digests, strict=True)}


def _types_with_variable_defaults(manifest: Manifest) -> set[str]:
    """Return the types of which a default in the manifest holds an expression."""
    defaults = (items for of_file in manifest.defaults.values() for items in of_file.items())
    return {name for name, body in defaults if _has_expression(body)}


def _stands_alone(step: Step) -> bool:
    """Return whether declaration, row and record alone decide: no expression, no secret, every value compared equal."""
    entry, row, definition = step.entry, step.is_, step.entry.definition
    if row is None or definition.secret or definition.config.attributes:
        return False
    if entry.meta.implementation is not None:
        return False
    declaration, should = entry.declaration, entry.should
    if _has_expression(declaration.attributes) or (declaration.meta and _has_expression(declaration.meta)):
        return False
    if not (is_flat(should) or all(row_digests([should]))):
        return False
    names = [name for name in definition.compared if name in should]
    actual, expected = [row.get(name) for name in names], [should[name] for name in names]
    return actual == expected and all(map(same_value, actual, expected))


def _has_expression(values: Mapping[str, Any]) -> bool:
    """Return whether declared values hold an expression."""
    try:
        text = "\n".join(values.values())
    except TypeError:
        text = repr(values)
    return _EXPRESSION in text


def _manifest_key(entry: Entry) -> str:
    """Return the key of a resource in its file, or "" if no literal key of a document alone declares it."""
    declaration = entry.declaration
    if declaration.derivation is not None:
        return ""
    return declaration.key if declaration.document is not None and _EXPRESSION not in declaration.key else ""


def _named_entries(catalog: Catalog) -> Iterator[tuple[int, list[int]]]:
    """Yield, by index, the entries that a declaration names: without them it could not be compiled."""
    for entry in catalog.entries:
        if entry.declaration.meta or entry.sources:
            indexes = {source.index for sources in entry.sources.values() for source in sources}
            for text in _texts(entry.declaration.meta):
                indexes.update(target.index for target in _find(catalog, text))
            yield entry.index, sorted(indexes)


def _in_outputs(catalog: Catalog) -> Iterator[Entry]:
    """Yield the resources whose values are in the manifest's outputs."""
    for value in catalog.manifest.outputs.values():
        for path in catalog.scope.paths(value):
            if isinstance(path.root, Reference) and (entry := catalog.find(path.root)) is not None:
                yield entry


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


def _find(catalog: Catalog, text: str) -> Sequence[Entry]:
    """Return the entries of a reference, which may have wildcards; none for another text."""
    try:
        name = parse(text)
    except ValueError:
        return ()
    if (entry := catalog.find(name)) is not None:
        return (entry,)
    return matching_entries(name, catalog.entries) if {"*", "?"}.intersection(text) else ()


def _name(name: Any) -> Name:
    return tuple(name) if type(name) is list else name
