"""Former names of resources: from their aliases, from ``moved:``, and from the former names of their components.

Records are found by them, and references in recorded resources are rewritten from former to present names. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.record import Commit, Record, RecordKey, StackState
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.reference import (
    Reference,
    child_reference,
    component_chain,
    parse,
    parse_alias,
    split_component,
)
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import ComponentInstance, Entry


class FormerNames:
    """The former names of the resources and components of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        """Collect ``moved:``, and note whether components have aliases, which change the names of their resources."""
        #: Present → former name.
        self._moved = {move.target: move.source for move in catalog.manifest.moved}
        self._components = catalog.components
        #: Component → its former names, once computed.
        self._of_groups: dict[ComponentInstance, Sequence[Reference]] = {}
        #: Whether a resource can have other former names than its own aliases: in most catalogs none has.
        self._any = bool(self._moved) or any(group.meta.lifecycle.aliases for group in catalog.components.values())

    def of_entry(self, entry: Entry) -> Sequence[Reference]:
        """Return the former names of a resource: its own, then those that it had in components of another name."""
        return list(self._all(entry)) if self._any or entry.meta.lifecycle.aliases else ()

    def of_components(self) -> dict[str, str]:
        """Return former → present name of renamed components, to rename references to their resources.

        A former name that another component has now is excluded: references with it mean that component.
        """
        if not self._any:
            return {}
        pairs = ((former, group) for group in self._components.values() for former in self._of_group(group))
        return {str(former): str(group.reference) for former, group in pairs if former not in self._components}

    def by_moves(self, name: Reference) -> Iterator[Reference]:
        """Yield the names that a resource had before ``name`` by the manifest's ``moved:``, the latest one first."""
        passed = {name}  # circles are errors of the manifest, but must not run for ever
        while (source := self._moved.get(name)) is not None and source not in passed:
            passed.add(source)
            yield source
            name = source

    def _of_group(self, group: ComponentInstance) -> Sequence[Reference]:
        """Return the former names of a component, computed once."""
        if group not in self._of_groups:
            self._of_groups[group] = list(self._all(group))
        return self._of_groups[group]

    def _all(self, subject: Entry | ComponentInstance) -> Iterator[Reference]:
        """Yield the former names of a resource or component: by ``moved:``, by aliases, then by its component.

        If ``Site[b]`` was ``Site[a]``, its ``File[b.conf]`` may have been ``Site[a]/File[a.conf]`` or
        ``Site[a]/File[b.conf]``.
        """
        yield from self.by_moves(subject.reference)
        aliases = subject.meta.lifecycle.aliases
        for text in aliases:
            alias = parse_alias(text, subject.parent, subject.type)
            yield alias
            yield from self.by_moves(alias)
        if not subject.parent or not self._any:
            return
        parent = self._components[parse(subject.parent)]
        for former in self._of_group(parent):
            titles = [subject.title, *(text for text in aliases if "[" not in text and not text.startswith("urn:"))]
            if subject.title.startswith(parent.title):
                # A title that begins with its component's had the former title of the component there.
                titles.insert(0, component_chain(str(former))[-1].title + subject.title[len(parent.title) :])
            for title in titles:
                yield child_reference(str(former), subject.type, title)


def carry_out_moves(catalog: Catalog, state: StackState) -> tuple[StackState, Commit]:
    """Return the state with records renamed by ``moved:`` if a false ``when`` excludes their new name, and the commit.

    Such a name has no entry in this run that could take the record over. Without the new name in the record a later run
    could not match the resource, once the entry of ``moved:`` is removed (contract §10.6).
    """
    former, whole = FormerNames(catalog), dict[str, str]()
    for move in catalog.manifest.moved:
        if catalog.left_out.find(move.target) is not None and catalog.find(move.target) is None:
            whole |= {str(name): str(move.target) for name in former.by_moves(move.target)}
    declared, renames = {entry.key for entry in catalog.entries}, Renames(whole)
    changed = {}
    for key, record in state.records.items():
        present = renames.dependencies(record)
        if str(record.reference) in whole and key not in declared and not record.is_replaced:
            parent, member = split_component(parse(whole[str(record.reference)]), record.type)
            present = present._replace(title=member.title, parent=parent)
        if present != record:
            changed[key] = present
    return state._replace(records={**state.records, **changed}), Commit(list(changed.values()))


def claim_renamed(
    catalog: Catalog, free: Iterable[Record], renamed: Iterable[tuple[Entry, Sequence[Reference]]]
) -> dict[int, Record]:
    """Return entry's index → the record that it takes over by a former name; ``renamed``: entries with these names.

    ``free``: the records that no entry has by its present name. A record of another type counts if the entry's type
    takes that type over. Raise ``ManifestError`` if two entries claim one record, or one entry claims two.
    """
    by_reference = {record.reference: record for record in free}
    claims: dict[int, Record] = {}
    claimed: dict[RecordKey, Entry] = {}
    problems: list[Problem] = []
    for entry, names in renamed:
        matches = (by_reference[name] for name in names if name in by_reference)
        takes_over = entry.definition.takes_over
        candidates = {record.key: record for record in matches if record.type == entry.type or takes_over(record.type)}
        for key, record in candidates.items():
            claims[entry.index] = record
            if (first := claimed.setdefault(key, entry)) is not entry:
                problems.append(_ambiguous(catalog, entry, f"{record.reference} has become {first.reference} already"))
        if len(candidates) > 1:
            listed = ", ".join(str(record.reference) for record in candidates.values())
            problems.append(_ambiguous(catalog, entry, f"several that are recorded have a former name of it: {listed}"))
    if problems:
        raise ManifestError(problems)
    return claims


def _ambiguous(catalog: Catalog, entry: Entry, message: str) -> Problem:
    """Return the problem of a former name that leads to more than one resource, at ``lifecycle`` of the entry."""
    position = catalog.manifest.place(entry.declaration, "lifecycle")
    return Problem(
        "lifecycle", message, "error", str(entry.reference), *position, code="alias", hint="only one can be it"
    )


class Renames(NamedTuple):
    """Former → present names: of whole references, and of components that references begin with."""

    whole: Mapping[str, str] = {}
    components: Mapping[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return the present name of a reference: of the resource itself, or as a part of a renamed component."""
        if text in self.whole:
            return self.whole[text]
        outer = next((name for name in self.components if text.startswith(f"{name}/")), None)
        return text if outer is None else self.components[outer] + text[len(outer) :]

    def restricted(self, names: Collection[str], *, complete: bool) -> Renames:
        """Return the renames that a run has made: of resources to ``names``, of components if it is ``complete``."""
        whole = {former: present for former, present in self.whole.items() if present in names}
        return Renames(whole, self.components if complete else {})

    def record(self, record: Record) -> Record:
        """Return a record with the present names of its dependencies and its component."""
        return self.dependencies(record)._replace(parent=self.parent(record))

    def parent(self, record: Record) -> str:
        """Return the present name of the component of a record, or ""."""
        return self.components.get(record.parent, self(record.parent)) if record.parent else ""

    def dependencies(self, record: Record) -> Record:
        """Return a record with the present names in its references to other resources.

        Its own name stays: a renamed resource is recorded under its new name by the step of its entry.
        """
        lifecycle = record.lifecycle
        if lifecycle.deleted_with:
            lifecycle = lifecycle._replace(deleted_with=self(lifecycle.deleted_with))
        return record._replace(
            requires=[self(name) for name in record.requires],
            value_requires={key: [self(name) for name in names] for key, names in record.value_requires.items()},
            lifecycle=lifecycle,
            successor=self(record.successor) if record.successor else "",
        )


NO_RENAMES: Final = Renames()


def former_name(catalog: Catalog, entry: Entry, record: Record) -> str:
    """Return the former name of an entry's resource by its record, or "" if the name is the same.

    The plan shows it, and references in other records are renamed by it. A record that ``match`` has converted from
    another type has the new type already (and no declared values): ``moved:`` then yields the former name.
    """
    for move in catalog.manifest.moved if not record.should else ():
        if move.target == entry.reference and entry.definition.takes_over(move.source.type):
            return str(move.source)
    same = record.title == entry.title and record.parent == entry.parent
    return "" if same else str(record.reference)


def find_renames(catalog: Catalog, records: Mapping[int, Record]) -> Renames:
    """Return the renames of the resources in ``records``, by the index of their entry, to their names in the catalog.

    Records of other resources refer to them by the former names, which these renames replace.
    """
    whole = {}
    for index, record in records.items():
        entry = catalog.entries[index]
        if former := former_name(catalog, entry, record):
            whole[former] = str(entry.reference)
    return Renames(whole, FormerNames(catalog).of_components())


def with_unique_titles(
    records: Iterable[Record], reserved: Collection[Reference], renames: Renames = NO_RENAMES
) -> list[Record]:
    """Return records whose references are unique and not ``reserved``: a title in conflict is replaced by the name.

    A conflict arises if another resource has taken the title, or a replaced resource still exists beside its successor.
    References among the records are changed accordingly; a reference to a replaced resource means its successor, and
    stays. ``renames`` are applied together with this, since one resource's present name may be another's former one.
    """
    references = set(reserved)
    renamed: dict[str, str] = {}
    unique_of: dict[RecordKey, Record] = {}
    originals = list(records)
    # A replaced resource gives way to its successor.
    for record in sorted(originals, key=lambda record: record.is_replaced):
        unique = present = record._replace(parent=renames.parent(record))
        while unique.reference in references:
            name = show_name(record.name)
            # If the name is taken too: name', name'' and so on.
            use_name = unique is present and name != record.title
            unique = unique._replace(title=name if use_name else f"{unique.title}'")
        if unique is not present and not record.is_replaced:
            renamed[str(record.reference)] = str(unique.reference)
        references.add(unique.reference)
        unique_of[record.key] = unique
    both = renames._replace(whole={**renames.whole, **renamed})
    return [both.dependencies(unique_of[record.key]) for record in originals]
