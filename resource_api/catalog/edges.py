"""From what resources say of each other to edges: explicit, implied by values, automatic.

Which of them hold in the end, and the order that follows, is decided by ``relationships``. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from resource_api.catalog.graph import Edge
from resource_api.model.entry import NO_META
from resource_api.model.values import reference
from resource_api.model.values.errors import nearest, reason
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.reference import Reference

#: Word → whether what it names comes first, and whether it refreshes.
_WORDS = {"require": (True, False), "before": (False, False), "subscribe": (True, True), "notify": (False, True)}


class ReferenceResolver(Protocol):
    """What the words of a manifest mean."""

    @property
    def components(self) -> Mapping[Reference, ComponentInstance]:
        """Components by reference and alias: what is said of one is said of all that it has made."""

    def find(self, wanted: Reference) -> Entry | None:
        """Give the resource that a reference means."""

    def broken(self, type_name: str) -> bool:
        """Whether a type or component cannot be used: what refers to its resources is not wrong."""


def build_edges(
    entries: Sequence[Entry],
    references: Mapping[Entry, Sequence[Entry]],
    names: ReferenceResolver,
    complain: Callable[[Entry | ComponentInstance, str | None, str, str, str], None],
) -> list[Edge]:
    """Give every edge among ``entries``, whose indexes are their places; a name that means nothing is complained of."""
    return list(_Binder(entries, names, complain).edges(references))


class _Binder:
    def __init__(
        self,
        entries: Sequence[Entry],
        names: ReferenceResolver,
        complain: Callable[[Entry | ComponentInstance, str | None, str, str, str], None],
    ) -> None:
        self._entries = entries
        self._names = names
        self._find = names.find
        self._complain = complain
        self._types = {entry.type for entry in entries}
        self._targets: dict[tuple[str, tuple[str, ...]], Sequence[Entry]] = {}
        #: What references mean that have been found: many ask for the same few things.
        self._meant: dict[str, Sequence[Entry]] = {}
        self._automatic_of: dict[TypeDefinition, Sequence[tuple[str, str, Any]]] = {}

    def edges(self, references: Mapping[Entry, Sequence[Entry]]) -> Iterator[Edge]:
        for entry, targets in references.items():
            yield from (Edge(target.index, entry.index) for target in targets)
        for entry in self._entries:
            if entry.declaration.meta:
                yield from self._explicit(entry, [entry])
        for group in dict.fromkeys(self._names.components.values()):
            yield from self._explicit(group, group.members)
        for entry in self._entries:
            if relations := self._relations(entry.definition):
                yield from self._automatic(entry, relations)

    def _explicit(self, declared: Entry | ComponentInstance, subjects: Sequence[Entry]) -> Iterator[Edge]:
        """Give the edges that a declaration asks for; ``subjects`` are the resource itself, or all of a component."""
        said = declared.declaration.meta
        for word, (first, refresh) in _WORDS.items():
            if (value := said.get(word)) is None:
                continue
            for text in (value,) if type(value) is str else value:
                for target in self._meant.get(text) or self._named(declared, word, text):
                    for each in subjects:
                        before, after = (target, each) if first else (each, target)
                        yield Edge(before.index, after.index, refresh)
        if declared.meta is not NO_META:
            yield from self._living(declared, subjects)

    def _living(self, declared: Entry | ComponentInstance, subjects: Sequence[Entry]) -> Iterator[Edge]:
        """Give the edges that its lifecycle asks for."""
        # What replaces a resource when it changes comes before it.
        for text in self._triggers(declared):
            for target in self._named(declared, "lifecycle", text):
                yield from (self._edge(each, target, first=True) for each in subjects)
        # What vanishes with another is part of that, where both are declared.
        host = self._host(declared)
        if host is not None:
            yield from (self._edge(each, host, first=True, automatic=True) for each in subjects if each is not host)

    def _triggers(self, declared: Entry | ComponentInstance) -> Sequence[str]:
        """Give what replaces a resource or component, beside what the component around it has said for all of its."""
        triggers = declared.meta.lifecycle.replace_triggered_by
        outer = self._around(declared)
        said = outer.meta.lifecycle.replace_triggered_by if outer is not None else ()
        return [text for text in triggers if text not in said] if said else triggers

    def _around(self, declared: Entry | ComponentInstance) -> ComponentInstance | None:
        """Give the component that has made a resource or component."""
        return self._names.components.get(reference.parse(declared.parent)) if declared.parent else None

    def _host(self, declared: Entry | ComponentInstance) -> Entry | None:
        """Give what a resource goes with, where that is declared and no component around it has said so already."""
        with_, outer = declared.meta.lifecycle.deleted_with, self._around(declared)
        if not with_ or (outer is not None and outer.meta.lifecycle.deleted_with == with_):
            return None
        try:
            wanted = reference.parse(with_)
        except ValueError as error:
            self._complain(declared, "lifecycle", f"lifecycle.deleted_with: {error}", "reference", "")
            return None
        if wanted in self._names.components:
            message = f"lifecycle.deleted_with: {wanted} is a component; name what it makes that this one goes with"
            self._complain(declared, "lifecycle", message, "reference", "")
        return self._find(wanted)

    def _named(self, declared: Entry | ComponentInstance, word: str, text: str) -> Sequence[Entry]:
        """Give what a reference in a metaparameter means, or complain."""
        try:
            wanted = reference.parse(text)
        except ValueError as error:
            self._complain(declared, word, f"{word}: {error}", "reference", "")
            return ()
        if (group := self._names.components.get(wanted)) is not None:
            return group.members
        target = self._find(wanted)
        if target is None and not self._names.broken(wanted.type):
            names = [*(entry.reference for entry in self._entries), *self._names.components]
            hint = nearest(str(wanted), map(str, names))
            self._complain(declared, word, f"{word}: unknown resource '{wanted}'", "unknown_resource", hint)
        if target is None:
            return ()
        self._meant[text] = [target]
        return self._meant[text]

    def _edge(
        self, entry: Entry, target: Entry, *, first: bool, refresh: bool = False, automatic: bool = False
    ) -> Edge:
        before, after = (target, entry) if first else (entry, target)
        return Edge(before.index, after.index, refresh, automatic)

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
            for target in self._named_by(type_name, self._titles(entry, word, titles)):
                if target is not entry:
                    # What should be absent goes after what needed it, not before.
                    goes_first = first and not target.absent
                    yield self._edge(entry, target, first=goes_first, refresh=refresh, automatic=True)

    def _titles(self, entry: Entry, word: str, titles: Any) -> tuple[str, ...]:
        """Give what an automatic relationship of a resource is to: what a function answers, or what is written."""
        if not callable(titles):
            return tuple(_named_in(titles, entry.should))
        try:
            return tuple(titles(entry.should))
        except Exception as error:  # noqa: BLE001 - an author's function may fail in any way
            # What is not known yet names nothing yet, and what cannot be an identity has been refused already.
            identity = map(entry.should.get, entry.definition.namevars)
            if not (any(map(is_unknown, entry.should.values())) or any(map(is_secret, identity))):
                self._complain(entry, None, f"auto{word} of its type failed: {reason(error)}", "type", "")
            return ()

    def _named_by(self, type_name: str, titles: tuple[str, ...]) -> Sequence[Entry]:
        """Give what an automatic relationship names: mostly the same few things, asked for again and again."""
        key = type_name, titles
        if key not in self._targets:
            found = (self._find(reference.Reference(type_name, title)) for title in titles)
            self._targets[key] = [target for target in found if target is not None]
        return self._targets[key]


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
