"""The graph of relationships: its edges, the order of execution, cycles and descendants; checks of ``on_failure``.

Edges come from metaparameters, values and types. The order is the manifest's, corrected by relationships; an automatic
relationship gives way to explicit ones that contradict it. A resource with ``on_failure``, a handler, comes after those
whose failure it needs (contract §10.8); nothing can require it, as it is mostly not carried out. Nodes are numbers.
Pure and iterative: the length of a chain is not limited by the stack.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.resource_table import has_unsuitable_identity, matching_entries
from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.entry import NO_META, ComponentInstance
from resource_api.model.values import reference
from resource_api.model.values.errors import reason, suggestion
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN, is_unknown, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.resource_table import ResourceTable
    from resource_api.model.entry import Entry, Meta
    from resource_api.model.type_definition import TypeDefinition

#: The most relationships by references with wildcards: each takes a microsecond and 200 bytes.
_MOST_BY_WILDCARDS: Final = 2_000_000
_NO_TYPE: Final = "no resource of that type is declared"
#: Metaparameter → whether its target comes first, and whether it refreshes.
_RELATIONSHIPS: Final = {
    "require": (True, False),
    "before": (False, False),
    "subscribe": (True, True),
    "notify": (False, True),
}


class Edge(NamedTuple):
    """``first`` comes before ``then``, and refreshes it if ``refresh``; ``automatic`` gives way to explicit edges.

    ``on_failure``: ``then`` does not need the success of ``first``, but its failure.
    """

    first: int
    then: int
    refresh: bool = False
    automatic: bool = False
    on_failure: bool = False


class Order(NamedTuple):
    """The sequence of execution, or the cycles that prevent one; the edges that remain, and those that gave way."""

    sequence: Sequence[int]
    edges: Sequence[Edge]
    cycles: Sequence[Sequence[int]] = ()
    yielded: Sequence[Edge] = ()


def descendants(start: Iterable[int], after: Mapping[int, Iterable[int]]) -> set[int]:
    """Return the indices of ``start`` and all that follow them in the graph ``after``, directly or not.

    If ``after`` is index → dependents, these are all resources that a change of ``start`` may affect; if it is index →
    requirements, all that ``start`` needs.
    """
    reached = set(start)
    waiting = list(reached)
    while waiting:
        for index in after.get(waiting.pop(), ()):
            if index not in reached:
                reached.add(index)
                waiting.append(index)
    return reached


def reverse(requires: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """Return index → the indices that require it, to find dependents. ``requires``: index → its requirements."""
    after: dict[int, list[int]] = {}
    for index, before in requires.items():
        for first in before:
            after.setdefault(first, []).append(index)
    return after


def order(count: int, edges: Iterable[Edge]) -> Order:
    """Return the order of ``count`` resources, numbered as in the manifest, that the edges allow.

    An automatic edge in a cycle with explicit ones is dropped, because these were declared on purpose. If another cycle
    remains, the order has the ``cycles`` and no sequence. Mostly all edges agree with the order of the manifest: then
    the sequence is a range, which needs no search.
    """
    remaining = list(dict.fromkeys(edges))
    yielded: list[Edge] = []
    while True:
        if all(edge.first < edge.then for edge in remaining):
            return Order(range(count), remaining, yielded=yielded)
        sequence, unordered = _sequence(count, remaining)
        if not unordered:
            return Order(sequence, remaining, yielded=yielded)
        cycles = _cycles(unordered, remaining)
        yielding = _contradicted(cycles, remaining)
        if not yielding:
            return Order((), remaining, cycles=cycles, yielded=yielded)
        yielded += [edge for edge in remaining if edge in yielding]
        remaining = [edge for edge in remaining if edge not in yielding]


def _sequence(count: int, edges: Iterable[Edge]) -> tuple[list[int], set[int]]:
    """Return a topological sequence (Kahn's algorithm), and the indices that are not in it because of a cycle.

    Among the resources that are ready, the first in the manifest comes next, so that the sequence stays near the
    manifest's order. The indices that are not in it are in a cycle or come after one.
    """
    from heapq import heappop, heappush  # a library in C that only edges against the manifest's order need

    after: dict[int, list[int]] = {}
    waiting = [0] * count
    for first, then in {(edge.first, edge.then) for edge in edges}:
        after.setdefault(first, []).append(then)
        waiting[then] += 1
    ready = [index for index in range(count) if not waiting[index]]
    sequence = []
    while ready:
        index = heappop(ready)
        sequence.append(index)
        for then in after.get(index, ()):
            waiting[then] -= 1
            if not waiting[then]:
                heappush(ready, then)
    return sequence, {index for index in range(count) if waiting[index]}


def _cycles(unordered: set[int], edges: Iterable[Edge]) -> list[list[int]]:
    """Return disjoint cycles among the ``unordered`` resources, to drop an automatic edge of each, or for an error.

    Each unordered resource has another one before it, so following the edges backwards leads into a cycle: it ends when
    a resource repeats. A cycle begins with its first resource in the manifest.
    """
    before: dict[int, list[int]] = {}
    for edge in edges:
        if edge.first in unordered and edge.then in unordered:
            before.setdefault(edge.then, []).append(edge.first)
    cycles: list[list[int]] = []
    visited: set[int] = set()
    for start in sorted(unordered):
        path: list[int] = []
        positions: dict[int, int] = {}
        node = start
        while node not in visited and node not in positions:
            positions[node] = len(path)
            path.append(node)
            node = min(before[node])
        if node in positions:
            cycle = path[positions[node] :][::-1]  # the path goes backwards
            least = cycle.index(min(cycle))
            cycles.append(cycle[least:] + cycle[:least])  # 5 → 7 → 2 becomes 2 → 5 → 7
        visited.update(path)
    return cycles


def _contradicted(cycles: Iterable[Sequence[int]], edges: Iterable[Edge]) -> set[Edge]:
    """Return the automatic edges to drop: those in cycles that also have an explicit edge, which takes precedence.

    An automatic edge beside an explicit one of the same two resources stays: dropping it would not break the cycle.
    A cycle of automatic edges alone stays, and is reported, because none of them takes precedence.
    """
    between: dict[tuple[int, int], list[Edge]] = {}
    for edge in edges:
        between.setdefault((edge.first, edge.then), []).append(edge)
    yielding: set[Edge] = set()
    for cycle in cycles:
        pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        inside = [edge for pair in pairs for edge in between.get(pair, ())]
        explicit = {(edge.first, edge.then) for edge in inside if not edge.automatic}
        if explicit:
            yielding.update(edge for edge in inside if edge.automatic and (edge.first, edge.then) not in explicit)
    return yielding


def check_cycles(entries: Sequence[Entry], order: Order, diagnostics: Diagnostics) -> None:
    """Report each cycle that prevents an order of execution, once, at its first resource in the manifest."""
    for cycle in order.cycles:
        names = [str(entries[number].reference) for number in (*cycle, cycle[0])]
        diagnostics.resource_error(entries[cycle[0]], None, f"dependency cycle: {' => '.join(names)}", "cycle")


class EdgeBuilder:
    """Builds the edges among the entries of a table, and reports invalid references."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics) -> None:
        """Build the relationships between the evaluated entries of ``table``."""
        self._table = table
        self._diagnostics = diagnostics
        self._error = diagnostics.resource_error
        self._types = {entry.definition.name for entry in table.entries}
        #: The relationships that are dropped, because their target is left out, or their wildcards match nothing.
        self.notes: list[str] = []
        #: The resources with ``on_failure``, also those whose targets are left out or without resources.
        self.failure_handlers: list[Entry] = []
        #: Reference with wildcards → the resources that it names.
        self._matched: dict[Reference, list[Entry]] = {}
        #: The number of relationships that wildcards have made.
        self._by_wildcards = 0
        #: Reference as text → its resources. Many resources have relationships to the same few.
        self._resolved: dict[str, Sequence[Entry]] = {}
        #: The same for automatic relationships: (type, titles) → resources.
        self._titled: dict[tuple[str, tuple[str, ...]], Sequence[Entry]] = {}
        #: Type → its automatic relationships to types in the catalog.
        self._automatic_of: dict[TypeDefinition, Sequence[tuple[str, str, object]]] = {}

    def edges(self, references: Mapping[Entry, Sequence[Entry]]) -> Iterator[Edge]:
        """Yield every edge between resources, by indices, for ``order``.

        Edges come from ``references`` in values, from metaparameters of resources and components, and from types.
        """
        for entry, targets in references.items():
            yield from (Edge(target.index, entry.index) for target in targets)
        for entry in self._table.entries:
            if entry.declaration.meta:
                yield from self._explicit(entry, [entry])
        for component in dict.fromkeys(self._table.components.values()):
            yield from self._explicit(component, component.members)
        for entry in self._table.entries:
            if relationships := self._automatic_relationships(entry.definition):
                yield from self._automatic(entry, relationships)

    def _explicit(self, declared: Entry | ComponentInstance, resources: Sequence[Entry]) -> Iterator[Edge]:
        """Yield the edges of a declaration's metaparameters for its resource, or all ``resources`` of the component."""
        for word in _RELATIONSHIPS:
            if (value := declared.declaration.meta.get(word)) is not None:
                yield from self._relationships(declared, resources, word, [value] if type(value) is str else value)
        if declared.meta is not NO_META:
            yield from self._lifecycle(declared, resources)
            if declared.meta.on_failure:
                yield from self._after_failures(declared, resources)

    def _relationships(
        self, declared: Entry | ComponentInstance, resources: Sequence[Entry], word: str, references: Sequence[str]
    ) -> Iterator[Edge]:
        """Yield the edges between the ``references`` of a metaparameter, such as ``require``, and ``resources``."""
        target_first, refresh = _RELATIONSHIPS[word]
        for text in references:
            for target in self._resolved.get(text) or self._resolve(declared, word, text):
                for resource in resources:
                    before, after = (target, resource) if target_first else (resource, target)
                    yield Edge(before.index, after.index, refresh)

    def _after_failures(self, declared: Entry | ComponentInstance, resources: Sequence[Entry]) -> Iterator[Edge]:
        """Yield an edge from each resource in ``on_failure`` to each handler that runs after its failure.

        The handlers are the ``resources`` with that reference in ``on_failure``: a component's resource may declare
        other failures instead of those that it would inherit. All handlers are collected in ``failure_handlers``.
        """
        self.failure_handlers += [resource for resource in resources if resource.meta.on_failure]
        for text in self._direct_references(declared, lambda meta: meta.on_failure):
            handlers = [resource for resource in resources if text in resource.meta.on_failure]
            for target in self._resolve(declared, "on_failure", text):
                yield from (Edge(target.index, handler.index, on_failure=True) for handler in handlers)

    def _lifecycle(self, declared: Entry | ComponentInstance, resources: Sequence[Entry]) -> Iterator[Edge]:
        """Yield the edges of ``lifecycle``: the targets of ``replace_triggered_by`` and ``deleted_with`` come first.

        A trigger must have changed before the resource is replaced, and the target of ``deleted_with`` contains the
        resource. The edge of ``deleted_with`` is automatic: it gives way to an explicit relationship.
        """
        for text in self._direct_references(declared, lambda meta: meta.lifecycle.replace_triggered_by):
            for target in self._resolve(declared, "lifecycle", text):
                yield from (Edge(target.index, resource.index) for resource in resources)
        whole = self._deleted_with(declared)
        if whole is not None:
            parts = (resource for resource in resources if resource is not whole)
            yield from (Edge(whole.index, resource.index, automatic=True) for resource in parts)

    def _direct_references(
        self, declared: Entry | ComponentInstance, select: Callable[[Meta], Sequence[str]]
    ) -> Sequence[str]:
        """Return the references in the metaparameter that ``select`` returns, without inherited ones.

        A resource inherits references of the component around it, whose own edges already lead to all its resources:
        the same edges would be made twice.
        """
        references = select(declared.meta)
        outer = self._component_around(declared) if references else None
        return references if outer is None else [text for text in references if text not in select(outer.meta)]

    def _component_around(self, declared: Entry | ComponentInstance) -> ComponentInstance | None:
        """Return the component that declares a resource or component, or None."""
        return self._table.components.get(reference.parse(declared.parent)) if declared.parent else None

    def _deleted_with(self, declared: Entry | ComponentInstance) -> Entry | None:
        """Return the resource in ``lifecycle.deleted_with``; report an invalid reference and one to a component.

        Return None for a reference inherited from the component around it, whose own edge leads here already.
        """
        text, outer = declared.meta.lifecycle.deleted_with, self._component_around(declared)
        if not text or (outer is not None and outer.meta.lifecycle.deleted_with == text):
            return None
        try:
            name = reference.parse(text)
        except ValueError as error:
            self._error(declared, "lifecycle", f"lifecycle.deleted_with: {error}", "reference")
            return None
        if name in self._table.components:
            message = f"lifecycle.deleted_with: {name} is a component; name one of its resources"
            self._error(declared, "lifecycle", message, "reference")
        return self._table.find(name)

    def _resolve(self, declared: Entry | ComponentInstance, word: str, text: str) -> Sequence[Entry]:
        """Return the resources of a reference in the metaparameter ``word``; report an unknown one.

        A component stands for all its resources. A reference to a left-out declaration is dropped, which is recorded in
        ``notes``.
        """
        try:
            name = reference.parse(text)
        except ValueError as error:
            hint = _list_hint(text) or self._by_title(text, declared)
            self._error(declared, word, f"{word}: {error}", "reference", hint)
            return ()
        if (component := self._table.components.get(name)) is not None:
            return component.members
        if (target := self._table.find(name)) is not None:
            self._resolved[text] = [target]
            return self._resolved[text]
        if word in RELATIONSHIPS and (many := self._matching(declared, word, name)) is not None:
            return many
        self._report_unresolved(declared, word, name, text)
        return ()

    def _report_unresolved(self, declared: Entry | ComponentInstance, word: str, name: Reference, text: str) -> None:
        """Report a reference without a resource, or note that its declaration may be left out.

        ``word``: the metaparameter; ``name`` and ``text``: the reference in it, parsed and as written. Nothing is
        reported for a type with an invalid declaration: the reference may be to that.
        """
        if (left_out := self._table.left_out.find(name)) is not None:
            self.notes.append(f"{declared.reference}: {word}: {name} is left out: {left_out.reason}")
        elif skipped := self._diagnostics.manifest.skipped_includes:
            files = " or ".join(include.file for include in skipped)
            self.notes.append(f"{declared.reference}: {word}: {name} is not declared; {files} is left out")
        elif not self._table.is_broken(name.type):
            # The comparison with the names of all resources takes too long for each of many errors.
            names = () if self._diagnostics.many else self._table.references()
            hint = _list_hint(text) or suggestion(str(name), map(str, names)) or suggestion(name.type, (), "type")
            if {"*", "?"}.intersection(name.title):
                hint = "no title of a declared resource matches" if name.type in self._types else hint or _NO_TYPE
            self._error(declared, word, f"{word}: unknown resource '{name}'", "unknown_resource", hint)

    def _matching(self, declared: Entry | ComponentInstance, word: str, name: Reference) -> Sequence[Entry] | None:
        """Return the resources that a reference with wildcards matches, without ``declared`` itself.

        Return None, so that the caller reports the reference, if it has no wildcards or matches nothing. If a
        declaration of the type is left out or has an empty ``for_each``, that may be the cause: then nothing matches
        without an error, and ``notes`` has an entry.
        """
        if not {"*", "?"}.intersection(name.title):
            return None
        if name not in self._matched:
            self._matched[name] = matching_entries(name, self._table.entries)
        if entries := self._matched[name]:
            resources = declared.members if isinstance(declared, ComponentInstance) else [declared]
            if self._is_beyond_limit(declared, word, name, len(entries) * len(resources)):
                return ()
            return [entry for entry in entries if entry not in resources]
        without = self._table.left_out.declarations() + self._table.empty
        if all(declaration.type != name.type for declaration in without):
            return None
        self.notes.append(f"{declared.reference}: {word}: nothing that is declared matches {name}")
        return ()

    def _is_beyond_limit(self, declared: Entry | ComponentInstance, word: str, name: Reference, count: int) -> bool:
        """Add ``count`` to the relationships by wildcards; return whether they exceed the limit, reported once.

        If each resource of one type requires all of another, their number is the product, which could fill the memory.
        """
        before = self._by_wildcards
        self._by_wildcards += count
        if before <= _MOST_BY_WILDCARDS < self._by_wildcards:
            message = f"{word}: {name} and the wildcards before it make more than {_MOST_BY_WILDCARDS:,} relationships"
            advice = "let one resource require them, and the others that one"
            self._error(declared, word, message, "reference", advice)
        return self._by_wildcards > _MOST_BY_WILDCARDS

    def _by_title(self, title: str, declared: Entry | ComponentInstance) -> str:
        """Return the hint "did you mean", with the resources of that title, for a reference without its type."""
        entries = (entry for entry in self._table.entries if entry is not declared)
        references = [f"'{entry.reference}'" for entry in entries if entry.title == title]
        return f"did you mean {' or '.join(references)}?" if references else ""

    def _automatic_relationships(self, definition: TypeDefinition) -> Sequence[tuple[str, str, Any]]:
        """Return a type's automatic relationships as tuples: metaparameter, type of the target, titles or a function.

        Those to types that the catalog does not have can have no target: they are omitted, once for all resources.
        """
        if definition not in self._automatic_of:
            self._automatic_of[definition] = [
                (word, type_name, titles)
                for word, titles_by_type in definition.automatic.items()
                for type_name, titles in titles_by_type.items()
                if type_name in self._types
            ]
        return self._automatic_of[definition]

    def _automatic(self, entry: Entry, relationships: Sequence[tuple[str, str, object]]) -> Iterator[Edge]:
        """Yield the edges of a resource's automatic relationships, such as ``autorequires``, to declared resources.

        The word of a relationship has the same direction and refresh as the metaparameter: ``require`` puts its target
        first.
        """
        for word, type_name, titles in relationships:
            first, refresh = _RELATIONSHIPS[word]
            for target in self._find_titled(type_name, self._titles(entry, word, titles)):
                if target is not entry:
                    # A resource that should be absent goes after those that need it, not before them.
                    target_first = first and not target.absent
                    before, after = (target, entry) if target_first else (entry, target)
                    yield Edge(before.index, after.index, refresh, automatic=True)

    def _titles(self, entry: Entry, word: str, titles: Any) -> tuple[str, ...]:
        """Return the titles of the targets of an automatic relationship, from texts or a function of values.

        A failure of the function is reported, unless an unknown value or a reported error may be its cause.
        """
        if not callable(titles):
            return tuple(_declared_titles(titles, entry.should))
        try:
            return tuple(titles(entry.should))
        except Exception as error:  # noqa: BLE001 - an author's function may raise anything
            # With an unknown value there may be no title.
            if not (any(map(is_unknown, entry.should.values())) or has_unsuitable_identity(entry)):
                self._error(entry, None, f"auto{word} of its type failed: {reason(error)}", "type")
            return ()

    def _find_titled(self, type_name: str, titles: tuple[str, ...]) -> Sequence[Entry]:
        """Return the declared resources of a type with these titles, cached: many resources have the same titles."""
        key = type_name, titles
        if key not in self._titled:
            entries = (self._table.find(Reference(type_name, title)) for title in titles)
            self._titled[key] = [target for target in entries if target is not None]
        return self._titled[key]


def _declared_titles(titles: str | Sequence[str], should: Mapping[str, object]) -> Iterator[str]:
    """Yield the titles of the targets of an automatic relationship, as a type declares them.

    The title ``$owner`` stands for the value of the attribute ``owner``, or for the items of its list.
    """
    for title in [titles] if isinstance(titles, str) else titles:
        if not title.startswith("$"):
            yield title
            continue
        value = unwrapped(should.get(title[1:]))
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item is not UNKNOWN:
                yield str(item)


def _list_hint(text: str) -> str:
    """Return the hint to write a list, for a text such as ``Package[a], Package[b]``, or ""."""
    parts = [f'"{part.strip()}"' for part in text.replace("],", "],\n").replace(",\n", "\n").split("\n")]
    return f"write a list: [{', '.join(parts)}]" if len(parts) > 1 else ""


class FailureHandlerCheck:
    """Checks that nothing needs a handler (``on_failure``): mostly it is not carried out, because nothing fails.

    Only a handler of the same failures can require one.
    """

    def __init__(self, edges: Sequence[Edge], table: ResourceTable, diagnostics: Diagnostics) -> None:
        """Find the handlers in the ``edges``; mistakes are reported to ``diagnostics``."""
        self._edges = edges
        self._table = table
        self._diagnostics = diagnostics
        #: Index of a handler → the indexes of the resources of which one must have failed.
        self._handled: dict[int, set[int]] = {}
        for edge in edges:
            if edge.on_failure:
                self._handled.setdefault(edge.then, set()).add(edge.first)

    def check(self, scope: Scope) -> list[Edge]:
        """Return the edges for the order: automatic ones that contradict ``on_failure`` are dropped.

        Nothing can depend on a handler, which mostly does not run: report declared requirements of one and outputs of
        its values. Report also handlers that can never be carried out.
        """
        remaining = [edge for edge in self._edges if not (edge.automatic and self._contradicts(edge))]
        requirements = [edge for edge in remaining if not edge.on_failure]
        for edge in requirements:
            if self._is_forbidden(edge):
                self._report_requirement(edge)
        self._report_impossible(requirements)
        self._report_outputs(scope)
        return remaining

    def _contradicts(self, edge: Edge) -> bool:
        """Return whether an edge makes a resource require a handler, or a handler one whose failure it needs."""
        return edge.first in self._handled.get(edge.then, ()) or self._is_forbidden(edge)

    def _is_forbidden(self, edge: Edge) -> bool:
        """Return whether an edge makes a resource require a handler, which mostly is not carried out.

        Only a handler may require another one, and only if every failure that starts it starts the other one too: then
        the required handler is always carried out first.
        """
        if edge.first not in self._handled:
            return False
        return not (edge.then in self._handled and self._handled[edge.then] <= self._handled[edge.first])

    def _report_requirement(self, edge: Edge) -> None:
        """Report that a resource requires a handler, at the first declaration that may have made the ``edge``.

        If no attribute or metaparameter of the two has made it, as in a component, report it at the resource.
        """
        handler, dependent = self._table.entries[edge.first], self._table.entries[edge.then]
        error = self._error(handler)
        for resource, attribute in _requiring_declarations(handler, dependent):
            hint = "give it the same on_failure" if resource is dependent else ""
            self._diagnostics.resource_error(resource, attribute, f"{attribute}: {error}", "on_failure", hint)
            return
        self._diagnostics.resource_error(dependent, None, f"requires {handler.reference}: {error}", "on_failure")

    def _report_impossible(self, requirements: Iterable[Edge]) -> None:
        """Report handlers that can never run, as they require the success of all resources whose failure starts them.

        A single other resource, whose failure starts it too, makes the handler possible.
        """
        before: dict[int, list[int]] = {}
        for edge in requirements:
            before.setdefault(edge.then, []).append(edge.first)
        for index, failing in self._handled.items():
            if failing <= descendants([index], before) - {index}:
                message = f"on_failure: it requires {self._names(failing, ' and ')}, so it could never be done"
                self._diagnostics.resource_error(self._table.entries[index], "on_failure", message, "on_failure")

    def _report_outputs(self, scope: Scope) -> None:
        """Report outputs that refer to a handler; an invalid output is reported elsewhere.

        The value would be missing whenever nothing fails.
        """
        for name, value in self._diagnostics.manifest.outputs.items():
            with suppress(ValueError):
                roots = [path.root for path in scope.paths(value)]
                for entry in dict.fromkeys(self._table.find(root) for root in roots if isinstance(root, Reference)):
                    if entry is not None and entry.index in self._handled:
                        self._diagnostics.output_error(name, self._error(entry))

    def _error(self, handler: Entry) -> str:
        """Return the message that nothing can require a handler."""
        names = self._names(self._handled[handler.index], " or ")
        return f"{handler.reference} is done only if {names} fails, so nothing else can require it"

    def _names(self, indexes: Iterable[int], word: str) -> str:
        """Return the references of entries, joined by ``word``."""
        return word.join(str(self._table.entries[index].reference) for index in sorted(indexes))


def _requiring_declarations(handler: Entry, dependent: Entry) -> Iterator[tuple[Entry, str]]:
    """Yield each declaration by which ``dependent`` may require ``handler``, to report the requirement there.

    An edge does not have its origin, so any metaparameter with a fitting direction may be it. A declaration is a
    resource with the name of its attribute or metaparameter.
    """
    for name, sources in dependent.sources.items():
        if handler in sources:
            yield dependent, name
    yield from ((dependent, word) for word in ("require", "subscribe") if word in dependent.declaration.meta)
    yield from ((handler, word) for word in ("before", "notify") if word in handler.declaration.meta)
