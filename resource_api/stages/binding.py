"""From what resources say of each other to edges: explicit, implied by values, automatic.

Which of them hold in the end, and the order that follows, is decided by ``relationships``. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.nouns import reference
from resource_api.nouns.errors import nearest
from resource_api.nouns.values import UNKNOWN, Sensitive
from resource_api.stages.relationships import Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.nouns.definition import TypeDefinition
    from resource_api.nouns.entry import Entry
    from resource_api.nouns.reference import Reference

#: Word → whether what it names comes first, and whether it refreshes.
_WORDS = {"require": (True, False), "before": (False, False), "subscribe": (True, True), "notify": (False, True)}


def bind(
    entries: Sequence[Entry],
    references: Mapping[Entry, Sequence[Entry]],
    find: Callable[[Reference], Entry | None],
    complain: Callable[[Entry, str | None, str, str, str], None],
    broken: Callable[[str], bool] = lambda _type_name: False,
) -> list[Edge]:
    """Give every edge among ``entries``, numbered as they stand in it; a name that means nothing is complained of."""
    binder = _Binder(entries, find, complain)
    binder.broken = broken
    return list(binder.edges(references))


class _Binder:
    def __init__(
        self,
        entries: Sequence[Entry],
        find: Callable[[Reference], Entry | None],
        complain: Callable[[Entry, str | None, str, str, str], None],
    ) -> None:
        self._number = {entry: index for index, entry in enumerate(entries)}
        self._find = find
        #: Types that cannot be loaded: what refers to their resources is not wrong.
        self.broken: Callable[[str], bool] = lambda _type_name: False
        self._complain = complain
        self._types = {entry.type for entry in entries}
        self._targets: dict[tuple[str, tuple[str, ...]], Sequence[Entry]] = {}
        self._automatic_of: dict[TypeDefinition, Sequence[tuple[str, str, Any]]] = {}

    def edges(self, references: Mapping[Entry, Sequence[Entry]]) -> Iterator[Edge]:
        for entry, targets in references.items():
            yield from (Edge(self._number[target], self._number[entry]) for target in targets)
        for entry in self._number:
            if entry.declaration.meta:
                yield from self._explicit(entry)
        for entry in self._number:
            yield from self._automatic(entry, self._relations(entry.definition))

    def _explicit(self, entry: Entry) -> Iterator[Edge]:
        for word, (first, refresh) in _WORDS.items():
            value = entry.declaration.meta.get(word)
            for text in [] if value is None else [value] if isinstance(value, str) else value:
                target = self._named(entry, word, text)
                if target is not None:
                    yield self._edge(entry, target, first=first, refresh=refresh)
        # What replaces a resource when it changes comes before it.
        for text in entry.meta.lifecycle.replace_triggered_by:
            target = self._named(entry, "lifecycle", text)
            if target is not None:
                yield self._edge(entry, target, first=True)

    def _named(self, entry: Entry, word: str, text: str) -> Entry | None:
        """Give what a reference in a metaparameter means, or complain."""
        try:
            wanted = reference.parse(text)
        except ValueError as error:
            self._complain(entry, word, f"{word}: {error}", "reference", "")
            return None
        target = self._find(wanted)
        if target is None and not self.broken(wanted.type):
            hint = nearest(str(wanted), [str(known.reference) for known in self._number])
            self._complain(entry, word, f"{word}: unknown resource '{wanted}'", "unknown_resource", hint)
        return target if target in self._number else None

    def _edge(
        self, entry: Entry, target: Entry, *, first: bool, refresh: bool = False, automatic: bool = False
    ) -> Edge:
        pair = (target, entry) if first else (entry, target)
        return Edge(self._number[pair[0]], self._number[pair[1]], refresh, automatic)

    def _relations(self, definition: TypeDefinition) -> Sequence[tuple[str, str, Any]]:
        """Give the automatic relationships of a type to types that are in the catalog: word, type, titles."""
        if definition not in self._automatic_of:
            self._automatic_of[definition] = [
                (word, type_name, titles)
                for word, wanted in definition.automatic.items()
                for type_name, titles in wanted.items()
                if type_name in self._types
            ]
        return self._automatic_of[definition]

    def _automatic(self, entry: Entry, relations: Sequence[tuple[str, str, Any]]) -> Iterator[Edge]:
        """Give the edges that the type declares, where the resource named is in the catalog."""
        for word, type_name, titles in relations:
            first, refresh = _WORDS[word]
            for target in self._named_by(type_name, tuple(_titles(titles, entry.should))):
                if target is not entry:
                    # What should be absent goes after what needed it, not before.
                    goes_first = first and not target.absent
                    yield self._edge(entry, target, first=goes_first, refresh=refresh, automatic=True)

    def _named_by(self, type_name: str, titles: tuple[str, ...]) -> Sequence[Entry]:
        """Give what an automatic relationship names: mostly the same few things, asked for again and again."""
        key = type_name, titles
        if key not in self._targets:
            found = (self._find(reference.Reference(type_name, title)) for title in titles)
            self._targets[key] = [target for target in found if target is not None]
        return self._targets[key]


def _titles(titles: Any, should: Mapping[str, Any]) -> Iterable[str]:
    found: Iterable[str] = titles(should) if callable(titles) else _named_in(titles, should)
    return found


def _named_in(titles: str | Sequence[str], should: Mapping[str, Any]) -> Iterator[str]:
    for title in [titles] if isinstance(titles, str) else titles:
        if not title.startswith("$"):
            yield title
            continue
        value = should.get(title[1:])
        value = value.reveal() if isinstance(value, Sensitive) else value
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item is not UNKNOWN:
                yield str(item)
