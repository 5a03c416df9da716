"""Declarations and types → a catalog: validated, canonical resources in the order of execution.

Pure: no clock, no random, no log, no I/O. Canonicalizers and validators come in as plain functions. All problems
are collected, each with its place, and raised at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import defaults as inherited
from resource_api.catalog import functions as invoking
from resource_api.catalog import graph, provider_config
from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.edges import build_edges
from resource_api.catalog.evaluate import Evaluator
from resource_api.catalog.resources import ResourceTable
from resource_api.catalog.titles import Names
from resource_api.manifest.scope import Scope
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.graph import Edge, Order
    from resource_api.catalog.resources import Definitions
    from resource_api.manifest.scope import Contents
    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.provider_instance import ProviderInstance
    from resource_api.model.values.errors import Problem
    from resource_api.model.values.reference import Reference


class Catalog(NamedTuple):
    """What should be: entries in the order of execution, and the relationships among them by index."""

    manifest: Manifest
    entries: Sequence[Entry]
    #: index → the indexes that must come before it, directly.
    requires: Mapping[int, Sequence[int]]
    #: index → the indexes that refresh it when they change.
    subscribes: Mapping[int, Sequence[int]]
    scope: Scope
    #: Give the entry that a reference means: by title, by an alias, or by its identity.
    find: Callable[[Reference], Entry | None]
    #: Components by reference and alias.
    components: Mapping[Reference, ComponentInstance] = {}
    warnings: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    #: The configured providers that are named or needed, by what their resources are told apart by.
    instances: Mapping[str, ProviderInstance] = {}


def compile_catalog(
    manifest: Manifest,
    inputs: Mapping[str, Any],
    facts: Any,
    definitions: Definitions,
    contents: Contents | None = None,
) -> Catalog:
    """Give the catalog of a manifest. Raises ``ManifestError`` with every problem, and every warning beside them.

    ``inputs``: values by name; ``facts``: a mapping of facts; ``definitions``: types and components by name;
    ``contents``: makes assets and archives of their descriptions in the manifest.
    """
    scope = Scope(manifest, inputs, facts, contents)
    diagnostics = Diagnostics(manifest, scope.problems)
    scope.calls = invoking.calls(diagnostics, definitions)
    manifest = Names(diagnostics, scope).manifest(manifest)
    table = ResourceTable(diagnostics, scope, definitions)
    table.enter(manifest)
    evaluator = Evaluator(table, diagnostics, scope)
    evaluator.values()
    evaluator.value()
    instances = provider_config.build_instances(table, evaluator, diagnostics)
    edges = build_edges(table.entries, evaluator.references, table, diagnostics.of)
    order = graph.order(len(table.entries), edges)
    _cycles(table.entries, order, diagnostics)
    _moves(manifest, table, diagnostics)
    for name, value in manifest.outputs.items():
        try:
            evaluator.check(value)
        except ValueError as error:
            diagnostics.of_output(name, str(error))
    evaluator.unused()
    inherited.check(table, evaluator, diagnostics)
    if diagnostics.problems:
        raise ManifestError([*diagnostics.problems, *diagnostics.warnings])
    made = _catalog(manifest, table, order, scope)
    return made._replace(warnings=diagnostics.warnings, instances=instances)


def _moves(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """A name that is still declared has not moved, and two cannot move to one."""
    targets = set()
    for wish in manifest.moved:
        still, now = (table.components.get(name) or table.find(name) for name in wish[:2])
        if still is not None and still is not now:
            diagnostics.of_wish(wish, f"{wish.source} is still declared, so it has not moved to {wish.target}")
        if wish.target in targets:
            diagnostics.of_wish(wish, f"two names have moved to {wish.target}")
        targets.add(wish.target)


def _cycles(entries: Sequence[Entry], order: Order, diagnostics: Diagnostics) -> None:
    for cycle in order.cycles:
        names = [str(entries[number].reference) for number in (*cycle, cycle[0])]
        diagnostics.of(entries[cycle[0]], None, f"dependency cycle: {' => '.join(names)}", "cycle")


def _catalog(manifest: Manifest, table: ResourceTable, order: Order, scope: Scope) -> Catalog:
    """Number the entries in the order of execution, and the relationships with them."""
    entries, index_of = table.entries, order.sequence
    if not isinstance(order.sequence, range):  # nearly always it is the manifest's own
        entries = [table.entries[number] for number in order.sequence]
        index_of = [0] * len(entries)
        for index, number in enumerate(order.sequence):
            entries[index].index = index_of[number] = index
    requires: dict[int, list[int]] = {}
    subscribes: dict[int, list[int]] = {}
    for first, then, refresh, _ in order.edges:
        before, index = index_of[first], index_of[then]
        if (found := requires.get(index)) is None:
            requires[index] = [before]
        else:
            found.append(before)
        if refresh:
            subscribes.setdefault(index, []).append(before)
    for index, found in requires.items():
        if len(found) > 1:
            requires[index] = list(dict.fromkeys(found))
    notes = [_note(table.entries, edge) for edge in order.yielded]
    return Catalog(manifest, entries, requires, subscribes, scope, table.find, table.components, notes=notes)


def _note(entries: Sequence[Entry], edge: Edge) -> str:
    pair = f"{entries[edge.first].reference} before {entries[edge.then].reference}"
    return f"the automatic relationship {pair} gives way to explicit ones that say the contrary"
