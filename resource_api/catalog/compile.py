"""Declarations and types → a catalog: validated, canonical resources in the order of execution.

Pure: no clock, no random, no log, no I/O. Canonicalizers and validators come in as plain functions. All problems
are collected, each with its place, and raised at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import defaults as inherited
from resource_api.catalog import edges as binding
from resource_api.catalog import functions as invoking
from resource_api.catalog import graph as relationships
from resource_api.catalog import provider_config as configuring
from resource_api.catalog.diagnostics import Complaints
from resource_api.catalog.resources import Register
from resource_api.catalog.titles import Names
from resource_api.catalog.values import Valuation
from resource_api.manifest.scope import Scope
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.graph import Edge, Order
    from resource_api.catalog.resources import Kinds
    from resource_api.manifest.scope import Contents
    from resource_api.model.component_instance import Group
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.provider_instance import Instance
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
    groups: Mapping[Reference, Group] = {}
    warnings: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    #: The configured providers that are named or needed, by what their resources are told apart by.
    instances: Mapping[str, Instance] = {}


def compile(  # noqa: A001 - the arrow's name
    manifest: Manifest, inputs: Mapping[str, Any], facts: Any, kinds: Kinds, contents: Contents | None = None
) -> Catalog:
    """Give the catalog of a manifest. Raises ``ManifestError`` with every problem, and every warning beside them.

    ``inputs``: values by name; ``facts``: anything that answers ``[name]``; ``kinds``: types and components by name;
    ``contents``: makes assets and archives of what a file says of them.
    """
    scope = Scope(manifest, inputs, facts, contents)
    complaints = Complaints(manifest, scope.problems)
    scope.calls = invoking.calls(complaints, kinds)
    manifest = Names(complaints, scope).manifest(manifest)
    register = Register(complaints, scope, kinds)
    register.enter(manifest)
    valuation = Valuation(register, complaints, scope)
    valuation.values()
    valuation.value()
    instances = configuring.configure(register, valuation, complaints)
    edges = binding.bind(register.entries, valuation.references, register, complaints.of)
    order = relationships.order(len(register.entries), edges)
    _cycles(register.entries, order, complaints)
    _moves(manifest, register, complaints)
    for name, value in manifest.outputs.items():
        try:
            valuation.check(value)
        except ValueError as error:
            complaints.of_output(name, str(error))
    valuation.unused()
    inherited.check(register, valuation, complaints)
    if complaints.problems:
        raise ManifestError([*complaints.problems, *complaints.warnings])
    made = _catalog(manifest, register, order, scope)
    return made._replace(warnings=complaints.warnings, instances=instances)


def _moves(manifest: Manifest, register: Register, complaints: Complaints) -> None:
    """A name that is still declared has not moved, and two cannot move to one."""
    targets = set()
    for wish in manifest.moved:
        still, now = (register.groups.get(name) or register.find(name) for name in wish[:2])
        if still is not None and still is not now:
            complaints.of_wish(wish, f"{wish.source} is still declared, so it has not moved to {wish.target}")
        if wish.target in targets:
            complaints.of_wish(wish, f"two names have moved to {wish.target}")
        targets.add(wish.target)


def _cycles(entries: Sequence[Entry], order: Order, complaints: Complaints) -> None:
    for cycle in order.cycles:
        names = [str(entries[number].reference) for number in (*cycle, cycle[0])]
        complaints.of(entries[cycle[0]], None, f"dependency cycle: {' => '.join(names)}", "cycle")


def _catalog(manifest: Manifest, register: Register, order: Order, scope: Scope) -> Catalog:
    """Number the entries in the order of execution, and the relationships with them."""
    entries, index_of = register.entries, order.sequence
    if not isinstance(order.sequence, range):  # nearly always it is the manifest's own
        entries = [register.entries[number] for number in order.sequence]
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
    notes = [_note(register.entries, edge) for edge in order.yielded]
    return Catalog(manifest, entries, requires, subscribes, scope, register.find, register.groups, notes=notes)


def _note(entries: Sequence[Entry], edge: Edge) -> str:
    pair = f"{entries[edge.first].reference} before {entries[edge.then].reference}"
    return f"the automatic relationship {pair} gives way to explicit ones that say the contrary"
