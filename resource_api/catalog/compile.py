"""A manifest and its types → a catalog: validated, canonical resources in the order of execution.

The stages are the modules of this package, in this order: function calls, names, entries, values, configured
providers, edges, order. Every problem is collected with its position, and all are raised at once. Pure: no clock, no
random, no log, no input or output; types come in as functions. A catalog and its entries are not changed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog import defaults, graph, provider_config
from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.edges import build_edges
from resource_api.catalog.entries import EntryBuilder, ResourceTable
from resource_api.catalog.entry_values import Evaluator
from resource_api.catalog.name_expressions import NameEvaluator
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.reference import split_component

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.entries import Definitions
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.graph import Edge, Order
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import ComponentInstance, Entry
    from resource_api.model.provider_instance import ProviderInstance
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
    #: Provider instance → why its provider cannot be made before something is installed. The values and names of its
    #: resources are as written: their canonical form is found, and they are decided, at their turn.
    missing: Mapping[str, str] = {}


def compile_catalog(manifest: Manifest, scope: Scope, definitions: Definitions) -> Catalog:
    """Return the catalog of a manifest. Raises ``ManifestError`` with every problem and every warning.

    ``scope``: what the names in its expressions mean; ``definitions``: types and components by name.
    """
    diagnostics = Diagnostics(manifest, [*manifest.problems, *scope.problems])
    if manifest.values:
        from resource_api.catalog.functions import find_calls

        scope.calls = find_calls(diagnostics, definitions)
    names = NameEvaluator(diagnostics, scope)
    manifest = names.evaluate_name_changes(manifest)
    table = ResourceTable(scope, definitions)
    table.incomplete.update(manifest.incomplete)
    EntryBuilder(table, diagnostics, scope, names).build(manifest)
    if manifest.order:
        _arrange(table.entries, manifest.order)
    evaluator = Evaluator(table, diagnostics, scope)
    evaluator.check_named_values()
    evaluator.check_calls()
    evaluator.check_components()
    evaluator.evaluate_entries()
    instances = provider_config.build_instances(table, evaluator, diagnostics, scope.calls)
    edges = build_edges(table, evaluator.references, diagnostics)
    order = graph.order(len(table.entries), edges)
    _check_cycles(table.entries, order, diagnostics)
    _check_moves(manifest, table, diagnostics)
    _check_removals(manifest, table, diagnostics)
    for name, value in manifest.outputs.items():
        try:
            evaluator.refuse_ephemeral(value)
            evaluator.evaluate(value)
        except ValueError as error:
            diagnostics.output_error(name, str(error))
    evaluator.check_unused_values()
    defaults.check_unused(table, evaluator, diagnostics)
    if diagnostics.problems:
        _warn_of_missing(table, diagnostics)
        raise ManifestError(diagnostics.distinct)
    catalog = _catalog(manifest, table, order, scope)
    return catalog._replace(warnings=diagnostics.warnings, instances=instances, missing=table.missing)


def _arrange(entries: list[Entry], order: Sequence[str]) -> None:
    place = {reference: index for index, reference in enumerate(order)}
    entries.sort(key=lambda entry: place.get(str(entry.reference), len(place)))
    for index, entry in enumerate(entries):
        entry.index = index


def _warn_of_missing(table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report, beside errors, resources whose provider cannot be made: only a plan can tell whether that is one."""
    for entry in table.entries if table.missing else ():
        if why := table.missing.get(entry.instance):
            diagnostics.add(entry, Problem(None, why, "warning", code="type"))


def _check_moves(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report a moved name that is still declared or of another type, and two names that have moved to one."""
    targets = set()
    for move in manifest.moved:
        source, target = (table.components.get(name) or table.find(name) for name in (move.source, move.target))
        if source is not None and source is not target:
            message = f"{move.source} is still declared, so it has not moved to {move.target}"
            diagnostics.name_change_error(move, message)
        elif (found := table.find(move.target)) and split_component(move.source, found.type)[1].type != found.type:
            message = f"{move.source} cannot have moved to {move.target}: a resource keeps its type"
            diagnostics.name_change_error(move, message)
        if move.target in targets:
            diagnostics.name_change_error(move, f"two names have moved to {move.target}")
        targets.add(move.target)


def _check_removals(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report a removed name that is still declared, as itself or as another name of it, or to which one has moved."""
    for removal in manifest.removed:
        named = table.components.get(removal.reference) or table.find(removal.reference)
        if named is not None:
            title = "" if named.reference == removal.reference else f" as {named.reference}"
            message = f"{removal.reference} is removed, and still declared{title} at {diagnostics.location(named)}"
            diagnostics.name_change_error(removal, message)
            continue
        for move in manifest.moved:
            if f"{move.target}/".startswith(f"{removal.reference}/"):
                message = f"{removal.reference} is removed, and {move.source} has moved to {move.target}"
                diagnostics.name_change_error(removal, f"{message} at {move.origin.place()}")


def _check_cycles(entries: Sequence[Entry], order: Order, diagnostics: Diagnostics) -> None:
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
    for first, then, refresh, _ in order.edges:
        before, index = index_of[first], index_of[then]
        requires.setdefault(index, []).append(before)
        if refresh:
            subscribes.setdefault(index, []).append(before)
    for index, found in requires.items():
        if len(found) > 1:
            requires[index] = list(dict.fromkeys(found))
    automatic = {(index_of[edge.first], index_of[edge.then]) for edge in order.edges if edge.automatic}
    if automatic:
        automatic -= {(index_of[edge.first], index_of[edge.then]) for edge in order.edges if not edge.automatic}
    notes = [_yielded_note(table.entries, edge) for edge in order.yielded]
    return Catalog(manifest, entries, requires, subscribes, automatic, scope, table.find, table.components, notes=notes)


def _yielded_note(entries: Sequence[Entry], edge: Edge) -> str:
    pair = f"{entries[edge.first].reference} before {entries[edge.then].reference}"
    return f"the automatic relationship {pair} gives way to explicit ones that contradict it"
