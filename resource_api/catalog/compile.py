"""Compile a manifest and its types to a catalog: validated, canonical resources in the order of execution.

The stages are named values, names, entries, values, configured providers, relationships, order. Every problem is
collected with its position, and all are raised at once. Pure: types come in as functions. A catalog and its entries are
not changed afterwards.

``declaration_problems`` checks names and literal values without a host. Whatever the facts of a host are, compiling
reports these problems, too.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import failure_handlers, for_each, graph, provider_config, purges
from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.entries import EntryBuilder
from resource_api.catalog.entry_values import Evaluator, check_named_values
from resource_api.catalog.expression_scope import NameEvaluator, Scope
from resource_api.catalog.graph import Edge
from resource_api.catalog.resource_table import (
    Definitions,
    LeftOut,
    LeftOuts,
    ResourceTable,
    has_unsuitable_identity,
    matching_entries,
)
from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.entry import NO_META, ComponentInstance
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values import expression, reference
from resource_api.model.values.errors import ManifestError, Problem, hint, reason, suggestion
from resource_api.model.values.reference import split_component
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN, Sensitive, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.graph import Order
    from resource_api.catalog.purges import PurgeRule
    from resource_api.model.declaration import Manifest, ProviderInstance
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.reference import Reference


class Catalog(NamedTuple):
    """The resources that should be: entries in the order of execution, and their relationships by index."""

    manifest: Manifest
    entries: Sequence[Entry]
    #: Index → the indexes that must come before it, directly.
    requires: Mapping[int, Sequence[int]]
    #: Index → the indexes whose changes refresh it.
    subscribes: Mapping[int, Sequence[int]]
    #: The pairs of indexes, first and then, whose relationship only a type declares.
    automatic: Collection[tuple[int, int]]
    scope: Scope
    #: Returns the entry with a title, an alias or a canonical name.
    find: Callable[[Reference], Entry | None]
    #: Components by reference and alias.
    components: Mapping[Reference, ComponentInstance] = {}
    warnings: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    #: The provider instances that are named or needed, by name.
    instances: Mapping[str, ProviderInstance] = {}
    #: Provider instance → the reason that its provider cannot be made yet, before an installation. The values and names
    #: of its resources are as written: they are canonicalized and decided at their turn.
    missing: Mapping[str, str] = {}
    #: Index → the indexes of which one must have failed before it is carried out (contract §10.8).
    on_failure: Mapping[int, Collection[int]] = {}
    #: The declarations whose conditions do not hold.
    left_out: LeftOuts = LeftOuts()
    purges: Sequence[PurgeRule] = ()


def compile_catalog(manifest: Manifest, scope: Scope, definitions: Definitions) -> Catalog:
    """Return the catalog of a manifest. Raises ``ManifestError`` with every problem and every warning.

    ``scope``: resolves the names in its expressions; ``definitions``: types and components by name.
    """
    diagnostics = Diagnostics(manifest, [*manifest.problems, *scope.problems])
    if manifest.values:
        scope.calls = provider_config.find_calls(diagnostics, definitions)
        unread = scope.resolver(lambda _path: UNKNOWN, expand_components=False, once=True)
        check_named_values(diagnostics, scope, unread)
    names = NameEvaluator(diagnostics, scope)
    manifest = names.evaluate_name_changes(manifest)
    table = ResourceTable(scope, definitions)
    table.incomplete.update(manifest.incomplete)
    scope.find = table.find
    for skipped in manifest.skipped_includes:
        table.left_out.add(LeftOut(skipped.file, skipped.reason, skipped.origin.place()))
    EntryBuilder(table, diagnostics, scope, names).build(manifest)
    if manifest.order:
        _arrange(table.entries, manifest.order)
    evaluator = Evaluator(table, diagnostics, scope)
    evaluator.recheck_named_values()
    evaluator.check_calls()
    evaluator.check_without_resource()
    evaluator.check_components()
    evaluator.evaluate_entries()
    rules = purges.purge_rules(table, diagnostics, scope) if manifest.purges else ()
    purged = {rule.definition.instance: (rule.position, rule.subject) for rule in rules}
    instances = provider_config.build_instances(table, evaluator, diagnostics, scope.calls, purged)
    builder = _EdgeBuilder(table, diagnostics)
    edges = list(builder.edges(evaluator.references))
    if any(map(attrgetter("on_failure"), edges)):
        edges = failure_handlers.checked_edges(edges, table, scope, diagnostics)
    order = graph.order(len(table.entries), edges)
    _check_cycles(table.entries, order, diagnostics)
    _check_moves(manifest, table, diagnostics)
    _check_removals(manifest, table, diagnostics)
    if manifest.output_conditions:
        manifest = for_each.choose_outputs(manifest, table, diagnostics, scope)
    _check_outputs(manifest, evaluator, diagnostics)
    evaluator.check_unused_values()
    evaluator.check_unused_defaults()
    if diagnostics.problems:
        _warn_of_missing(table, diagnostics)
        raise ManifestError(diagnostics.distinct)
    catalog = _catalog(manifest, table, order, scope)
    return catalog._replace(
        warnings=diagnostics.warnings,
        notes=[*catalog.notes, *builder.notes],
        instances=instances,
        missing=table.missing,
        left_out=table.left_out,
        purges=rules,
        # What is left out cannot fail, nor can a component without resources.
        on_failure={**{entry.index: () for entry in builder.failure_handlers}, **catalog.on_failure},
    )


def _check_outputs(manifest: Manifest, evaluator: Evaluator, diagnostics: Diagnostics) -> None:
    """Report outputs that cannot be evaluated, and those that would record an ephemeral input."""
    for name, value in manifest.outputs.items():
        try:
            evaluator.refuse_ephemeral(value)
            evaluator.evaluate(value)
        except ValueError as error:
            diagnostics.output_error(name, str(error))


def _arrange(entries: list[Entry], order: Sequence[str]) -> None:
    """Sort and number entries by the ``order`` of their references, those that are not in it last."""
    positions = {reference: index for index, reference in enumerate(order)}
    entries.sort(key=lambda entry: positions.get(str(entry.reference), len(positions)))
    for index, entry in enumerate(entries):
        entry.index = index


def _warn_of_missing(table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report, beside errors, resources whose provider cannot be made; without errors the plan decides."""
    for entry in table.entries:
        if message := table.missing.get(entry.instance):
            diagnostics.add(entry, Problem(None, message, "warning", code="type"))


def _check_moves(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report a moved name that is still declared or of another type, and two names moved to one."""
    targets = set()
    for move in manifest.moved:
        source, target = (table.components.get(name) or table.find(name) for name in (move.source, move.target))
        if source is not None and source is not target:
            message = f"{move.source} is still declared, so it has not moved to {move.target}"
            diagnostics.name_change_error(move, message)
        elif (resource := table.find(move.target)) and not _may_have_moved(move.source, resource):
            message = f"{move.source} cannot have moved to {move.target}: a resource keeps its type"
            diagnostics.name_change_error(move, message)
        if move.target in targets:
            diagnostics.name_change_error(move, f"two names have moved to {move.target}")
        targets.add(move.target)


def _may_have_moved(source: Reference, entry: Entry) -> bool:
    """Return whether a resource may have had a former name: it keeps its type, unless that takes others over."""
    former_type = split_component(source, entry.type)[1].type
    return former_type == entry.type or entry.definition.takes_over(former_type)


def _check_removals(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report a removed name that is still declared, or to which another name moved."""
    for removal in manifest.removed:
        declared = table.components.get(removal.reference) or table.find(removal.reference)
        if declared is not None:
            title = "" if declared.reference == removal.reference else f" as {declared.reference}"
            message = f"{removal.reference} is removed, and still declared{title} at {diagnostics.location(declared)}"
            diagnostics.name_change_error(removal, message)
            continue
        for move in manifest.moved:
            if f"{move.target}/".startswith(f"{removal.reference}/"):
                message = f"{removal.reference} is removed, and {move.source} has moved to {move.target}"
                diagnostics.name_change_error(removal, f"{message} at {move.origin.place()}")


def _check_cycles(entries: Sequence[Entry], order: Order, diagnostics: Diagnostics) -> None:
    """Report each cycle at its first resource."""
    for cycle in order.cycles:
        names = [str(entries[number].reference) for number in (*cycle, cycle[0])]
        diagnostics.resource_error(entries[cycle[0]], None, f"dependency cycle: {' => '.join(names)}", "cycle")


def _catalog(manifest: Manifest, table: ResourceTable, order: Order, scope: Scope) -> Catalog:
    """Number the entries and their relationships in the order of execution."""
    entries, index_of = table.entries, order.sequence
    if not isinstance(order.sequence, range):  # nearly always it is the manifest's own order
        entries = [table.entries[number] for number in order.sequence]
        index_of = [0] * len(entries)
        for index, number in enumerate(order.sequence):
            entries[index].index = index_of[number] = index
    requires: dict[int, list[int]] = {}
    subscribes: dict[int, list[int]] = {}
    on_failure: dict[int, set[int]] = {}
    for first, then, refresh, _, needs_failure in order.edges:
        before, index = index_of[first], index_of[then]
        if needs_failure:
            on_failure.setdefault(index, set()).add(before)
            continue
        requires.setdefault(index, []).append(before)
        if refresh:
            subscribes.setdefault(index, []).append(before)
    for index, firsts in requires.items():
        if len(firsts) > 1:
            requires[index] = list(dict.fromkeys(firsts))
    automatic = {(index_of[edge.first], index_of[edge.then]) for edge in order.edges if edge.automatic}
    if automatic:  # only pairs that no explicit edge joins too
        automatic -= {(index_of[edge.first], index_of[edge.then]) for edge in order.edges if not edge.automatic}
    pairs = (
        f"{table.entries[edge.first].reference} before {table.entries[edge.then].reference}" for edge in order.yielded
    )
    notes = [f"the automatic relationship {pair} gives way to explicit ones that contradict it" for pair in pairs]
    return Catalog(
        manifest,
        entries,
        requires,
        subscribes=subscribes,
        automatic=automatic,
        scope=scope,
        find=table.find,
        components=table.components,
        notes=notes,
        on_failure=on_failure,
    )


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


class _EdgeBuilder:
    """Builds the edges among the entries of a table, and reports invalid references."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics) -> None:
        """Build the relationships between the entries of ``table``."""
        self._table = table
        self._diagnostics = diagnostics
        self._error = diagnostics.resource_error
        self._types = {entry.definition.name for entry in table.entries}
        #: The relationships that are dropped, because nothing that is declared, or not left out, is their target.
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
        """Yield every edge, by the entries' indices; ``references``: entry → the entries that its values use."""
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

    def _explicit(self, declared: Entry | ComponentInstance, subjects: Sequence[Entry]) -> Iterator[Edge]:
        """Yield the edges of metaparameters; ``subjects``: the resource itself, or all resources of a component."""
        meta = declared.declaration.meta
        for word, (first, refresh) in _RELATIONSHIPS.items():
            if (value := meta.get(word)) is None:
                continue
            for text in (value,) if type(value) is str else value:
                for target in self._resolved.get(text) or self._resolve(declared, word, text):
                    for subject in subjects:
                        before, after = (target, subject) if first else (subject, target)
                        yield Edge(before.index, after.index, refresh)
        if declared.meta is not NO_META:
            yield from self._lifecycle(declared, subjects)
            if not declared.meta.on_failure:
                return
            self.failure_handlers += [subject for subject in subjects if subject.meta.on_failure]
            for text in self._own(declared, declared.meta.on_failure, lambda outer: outer.meta.on_failure):
                for target in self._resolve(declared, "on_failure", text):
                    handlers = (subject for subject in subjects if text in subject.meta.on_failure)
                    yield from (Edge(target.index, subject.index, on_failure=True) for subject in handlers)

    def _lifecycle(self, declared: Entry | ComponentInstance, subjects: Sequence[Entry]) -> Iterator[Edge]:
        """Yield the edges of ``replace_triggered_by`` and ``deleted_with``: their targets come first."""
        triggers = declared.meta.lifecycle.replace_triggered_by
        for text in self._own(declared, triggers, lambda outer: outer.meta.lifecycle.replace_triggered_by):
            for target in self._resolve(declared, "lifecycle", text):
                yield from (Edge(target.index, subject.index) for subject in subjects)
        host = self._host(declared)
        if host is not None:
            yield from (Edge(host.index, subject.index, automatic=True) for subject in subjects if subject is not host)

    def _own(
        self,
        declared: Entry | ComponentInstance,
        references: Sequence[str],
        inherited_from: Callable[[ComponentInstance], Sequence[str]],
    ) -> Sequence[str]:
        """Return references without inherited ones: the enclosing component yields those edges."""
        outer = self._component_around(declared) if references else None
        inherited = inherited_from(outer) if outer is not None else ()
        return [text for text in references if text not in inherited] if inherited else references

    def _component_around(self, declared: Entry | ComponentInstance) -> ComponentInstance | None:
        return self._table.components.get(reference.parse(declared.parent)) if declared.parent else None

    def _host(self, declared: Entry | ComponentInstance) -> Entry | None:
        """Return the resource of ``deleted_with``; None without it, or inherited, or for an invalid one, reported."""
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
        """Return the resources of a reference in a metaparameter; report an invalid one, note one that is left out."""
        try:
            name = reference.parse(text)
        except ValueError as error:
            hint = _list_hint(text) or self._by_title(text, declared)
            self._error(declared, word, f"{word}: {error}", "reference", hint)
            return ()
        if (component := self._table.components.get(name)) is not None:
            return component.members
        target = self._table.find(name)
        if target is None and word in RELATIONSHIPS and (many := self._matching(declared, word, name)) is not None:
            return many
        if target is None and (left_out := self._table.left_out.find(name)) is not None:
            self.notes.append(f"{declared.reference}: {word}: {name} is left out: {left_out.reason}")
            return ()
        if target is None and (skipped := self._diagnostics.manifest.skipped_includes):
            files = " or ".join(include.file for include in skipped)
            self.notes.append(f"{declared.reference}: {word}: {name} is not declared; {files} is left out")
            return ()
        if target is None:
            if not self._table.is_broken(name.type):
                names = () if self._diagnostics.many else self._table.references()
                hint = _list_hint(text) or suggestion(str(name), map(str, names)) or suggestion(name.type, (), "type")
                if {"*", "?"}.intersection(name.title):
                    hint = "no title of a declared resource matches" if name.type in self._types else hint or _NO_TYPE
                self._error(declared, word, f"{word}: unknown resource '{name}'", "unknown_resource", hint)
            return ()
        self._resolved[text] = [target]
        return self._resolved[text]

    def _matching(self, declared: Entry | ComponentInstance, word: str, name: Reference) -> Sequence[Entry] | None:
        """Return the resources that a reference with wildcards names, or None if it names one title or is a mistake.

        A resource, or a component with its resources, does not name itself. It may name none where a
        declaration of its type is left out, or made for each element of an empty collection.
        """
        if not {"*", "?"}.intersection(name.title):
            return None
        if name not in self._matched:
            self._matched[name] = matching_entries(name, self._table.entries)
        if entries := self._matched[name]:
            subjects = declared.members if isinstance(declared, ComponentInstance) else [declared]
            if self._is_beyond_limit(declared, word, name, len(entries) * len(subjects)):
                return ()
            return [entry for entry in entries if entry not in subjects]
        without = self._table.left_out.declarations() + self._table.empty
        if all(declaration.type != name.type for declaration in without):
            return None
        self.notes.append(f"{declared.reference}: {word}: nothing that is declared matches {name}")
        return ()

    def _is_beyond_limit(self, declared: Entry | ComponentInstance, word: str, name: Reference, count: int) -> bool:
        """Return whether ``count`` further relationships by wildcards are too many, which is reported once."""
        before = self._by_wildcards
        self._by_wildcards += count
        if before <= _MOST_BY_WILDCARDS < self._by_wildcards:
            message = f"{word}: {name} and the wildcards before it make more than {_MOST_BY_WILDCARDS:,} relationships"
            advice = "let one resource require them, and the others that one"
            self._error(declared, word, message, "reference", advice)
        return self._by_wildcards > _MOST_BY_WILDCARDS

    def _by_title(self, title: str, declared: Entry | ComponentInstance) -> str:
        """Return the hint with the resources of a title, for a reference without its type."""
        entries = (entry for entry in self._table.entries if entry is not declared)
        references = [f"'{entry.reference}'" for entry in entries if entry.title == title]
        return f"did you mean {' or '.join(references)}?" if references else ""

    def _automatic_relationships(self, definition: TypeDefinition) -> Sequence[tuple[str, str, Any]]:
        """Return the automatic relationships of a type to types in the catalog: metaparameter, type, titles."""
        if definition not in self._automatic_of:
            self._automatic_of[definition] = [
                (word, type_name, titles)
                for word, titles_by_type in definition.automatic.items()
                for type_name, titles in titles_by_type.items()
                if type_name in self._types
            ]
        return self._automatic_of[definition]

    def _automatic(self, entry: Entry, relationships: Sequence[tuple[str, str, object]]) -> Iterator[Edge]:
        """Yield the edges that the type declares to resources in the catalog."""
        for word, type_name, titles in relationships:
            first, refresh = _RELATIONSHIPS[word]
            for target in self._find_titled(type_name, self._titles(entry, word, titles)):
                if target is not entry:
                    # A resource that should be absent goes after those that need it, not before them.
                    target_first = first and not target.absent
                    before, after = (target, entry) if target_first else (entry, target)
                    yield Edge(before.index, after.index, refresh, automatic=True)

    def _titles(self, entry: Entry, word: str, titles: Any) -> tuple[str, ...]:
        """Return the titles of an automatic relationship: declared ones, or a function's result."""
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
        """Return the declared resources of a type among ``titles``; the same tuple is looked up once."""
        key = type_name, titles
        if key not in self._titled:
            entries = (self._table.find(reference.Reference(type_name, title)) for title in titles)
            self._titled[key] = [target for target in entries if target is not None]
        return self._titled[key]


def _declared_titles(titles: str | Sequence[str], should: Mapping[str, object]) -> Iterator[str]:
    """Yield titles, with ``$name`` replaced by an attribute's value, or by the items of a list."""
    for title in [titles] if isinstance(titles, str) else titles:
        if not title.startswith("$"):
            yield title
            continue
        value = should.get(title[1:])
        value = value.reveal() if isinstance(value, Sensitive) else value
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item is not UNKNOWN:
                yield str(item)


def _list_hint(text: str) -> str:
    """Return the hint for text with more than one reference, as ``Package[a], Package[b]``, or an empty string."""
    parts = [f'"{part.strip()}"' for part in text.replace("],", "],\n").replace(",\n", "\n").split("\n")]
    return f"write a list: [{', '.join(parts)}]" if len(parts) > 1 else ""


def declaration_problems(
    manifest: Manifest, find_type: Callable[[str], TypeDefinition], is_component: Callable[[str], bool]
) -> Sequence[Problem]:
    """Return the problems of a manifest that hold on every host; ``find_type`` may raise ``DefinitionError``."""
    if any(declared.is_program for declared in manifest.providers.values()):
        return ()  # the types of Terraform providers are known when these are started
    selected = {declared.type for declared in manifest.providers.values()}
    resources = [
        declared for declared in manifest.resources if declared.type not in selected and not is_component(declared.type)
    ]
    diagnostics = Diagnostics(manifest)
    scope = Scope(manifest, {}, {})
    table = ResourceTable(scope, Definitions(lambda name: ProviderFunctions(find_type(name), {})))
    table.empty += resources  # as if no resource were made of them: only their literal values are checked
    Evaluator(table, diagnostics, scope).check_without_resource()
    for declared in resources:
        for name, value in declared.attributes.items():
            for message in _unknown_inputs(manifest, value):
                diagnostics.declaration_error(declared, message, "expression", name)
    for name, value in manifest.outputs.items():
        for message in _unknown_inputs(manifest, value):
            diagnostics.output_error(name, message)
    return diagnostics.distinct


def _unknown_inputs(manifest: Manifest, value: object) -> Iterator[str]:
    """Yield the error of each path in a value to an input that the manifest does not declare."""
    for path in expression.find_paths(value):
        if path.root == "inputs" and path.keys[0] not in manifest.inputs:
            yield f"{path}: unknown input '{path.keys[0]}'{hint(path.keys[0], manifest.inputs, 'input')}"
