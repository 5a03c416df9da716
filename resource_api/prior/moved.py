"""Names that resources had before: their own aliases and moves, then those of the components around them.

What refers to a former name in what is recorded refers to the present one. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, child_reference, component_chain, parse, parse_alias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record


class FormerNames:
    """The names that the resources and components of a catalog had."""

    def __init__(self, catalog: Catalog) -> None:
        """Look up who has moved."""
        self._moved = _moves(catalog.manifest)
        self._groups = catalog.components
        self._known: dict[ComponentInstance, Sequence[Reference]] = {}
        self._any = bool(self._moved) or any(group.meta.lifecycle.aliases for group in catalog.components.values())

    def names(self, entry: Entry) -> Sequence[Reference]:
        """Give the names that a resource had, its own first; mostly none."""
        return list(self._all(entry)) if self._any or entry.meta.lifecycle.aliases else ()

    def groups(self) -> dict[str, str]:
        """Give former names of components that nothing is called any more → the present one."""
        if not self._any:
            return {}
        found = ((former, group) for group in self._groups.values() for former in self._of_group(group))
        return {str(former): str(group.reference) for former, group in found if former not in self._groups}

    def _of_group(self, group: ComponentInstance) -> Sequence[Reference]:
        if group not in self._known:
            self._known[group] = list(self._all(group))
        return self._known[group]

    def _all(self, named: Entry | ComponentInstance) -> Iterator[Reference]:
        yield from self._sources(named.reference)
        aliases = named.meta.lifecycle.aliases
        for text in aliases:
            found = parse_alias(text, named.parent, named.type)
            yield found
            yield from self._sources(found)
        if not named.parent or not self._any:
            return
        around = self._groups[parse(named.parent)]
        for outer in self._of_group(around):
            titles = [named.title, *(text for text in aliases if "[" not in text and not text.startswith("urn:"))]
            for title in _swapped(named.title, around.title, component_chain(str(outer))[-1].title) + titles:
                yield child_reference(str(outer), named.type, title)

    def _sources(self, name: Reference) -> Iterator[Reference]:
        """Follow ``moved`` back from a name, through a chain too."""
        seen = {name}
        while (source := self._moved.get(name)) is not None and source not in seen:
            seen.add(source)
            yield source
            name = source


def _moves(manifest: Manifest) -> Mapping[Reference, Reference]:
    return {wish.target: wish.source for wish in manifest.moved}


def _swapped(title: str, parent: str, former: str) -> list[str]:
    """Give what a title was that begins with its parent's, when that was called otherwise."""
    return [former + title[len(parent) :]] if title.startswith(parent) else []


class Renames(NamedTuple):
    """FormerNames names and present ones: of resources whole, of components as what others begin with."""

    whole: Mapping[str, str] = {}
    within: Mapping[str, str] = {}

    def __call__(self, text: str) -> str:
        """Give the present name."""
        if text in self.whole:
            return self.whole[text]
        outer = next((name for name in self.within if text.startswith(f"{name}/")), None)
        return text if outer is None else self.within[outer] + text[len(outer) :]

    def kept(self, names: Collection[str], *, complete: bool) -> Renames:
        """Give those under whose present name something is recorded; of components, when all of a manifest is."""
        whole = {former: now for former, now in self.whole.items() if now in names}
        return Renames(whole, self.within if complete else {})

    def record(self, record: Record) -> Record:
        """Give a record that calls what it refers to, and what has made it, by their present names."""
        parent = self.within.get(record.parent, self(record.parent)) if record.parent else ""
        lifecycle = record.lifecycle
        if lifecycle.deleted_with:
            lifecycle = lifecycle._replace(deleted_with=self(lifecycle.deleted_with))
        return record._replace(
            requires=[self(name) for name in record.requires],
            value_requires={key: [self(name) for name in names] for key, names in record.value_requires.items()},
            lifecycle=lifecycle,
            parent=parent,
        )


def find_renames(catalog: Catalog, records: Mapping[int, Record]) -> Renames:
    """Give what is called otherwise than it is recorded; ``records`` are those of the entries, by index."""
    whole = {}
    for index, record in records.items():
        entry = catalog.entries[index]
        if record.title != entry.title or record.parent != entry.parent:
            whole[str(record.reference)] = str(entry.reference)
    return Renames(whole, FormerNames(catalog).groups())


def with_unique_titles(records: Iterable[Record], taken: Collection[Reference]) -> list[Record]:
    """Give records by their present names: one whose title another thing has taken is known by its name.

    ``taken`` are the references that belong to others. What refers to one of ``records`` follows.
    """
    names = set(taken)
    lost: dict[str, str] = {}
    found = []
    for record in records:
        kept = record
        while kept.reference in names:
            name = ", ".join(map(str, record.name)) if isinstance(record.name, tuple) else str(record.name)
            kept = kept._replace(title=name if kept is record and name != record.title else f"{kept.title}'")
        if kept is not record:
            lost[str(record.reference)] = str(kept.reference)
        names.add(kept.reference)
        found.append(kept)
    return [Renames(lost).record(record) for record in found] if lost else found
