"""Check ``on_failure``: resources that are carried out only if another one has failed in the run (contract §10.8).

Such a resource comes after those whose failure it needs. Nothing can require it, because it is mostly not carried out.
Pure.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from resource_api.catalog.graph import descendants
from resource_api.model.values.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.graph import Edge
    from resource_api.catalog.resource_table import ResourceTable
    from resource_api.model.entry import Entry


def checked_edges(edges: Sequence[Edge], table: ResourceTable, scope: Scope, diagnostics: Diagnostics) -> list[Edge]:
    """Return the edges without the automatic ones that contradict ``on_failure``; report the declared ones.

    A resource with ``on_failure`` can be required by one that is only carried out together with it.
    """
    #: Index → the indexes of the resources of which one must have failed.
    handled: dict[int, set[int]] = {}
    for edge in edges:
        if edge.on_failure:
            handled.setdefault(edge.then, set()).add(edge.first)
    remaining = [
        edge
        for edge in edges
        if not (edge.automatic and (edge.first in handled.get(edge.then, ()) or _is_forbidden(edge, handled)))
    ]
    before: dict[int, list[int]] = {}
    for edge in remaining:
        if not edge.on_failure:
            before.setdefault(edge.then, []).append(edge.first)
            if _is_forbidden(edge, handled):
                _report_requirement(table.entries, edge, handled[edge.first], diagnostics)
    for index, failing in handled.items():
        if failing <= descendants([index], before) - {index}:
            message = f"on_failure: it requires {_names(table.entries, failing)}, so it could never be done"
            diagnostics.resource_error(table.entries[index], "on_failure", message, "on_failure")
    for name, value in diagnostics.manifest.outputs.items():
        for handler in _handlers_in(value, table, scope, handled):
            diagnostics.output_error(name, _sentence(table.entries, handler, handled[handler.index]))
    return remaining


def _handlers_in(
    value: object, table: ResourceTable, scope: Scope, handled: Mapping[int, Collection[int]]
) -> Iterator[Entry]:
    """Yield the resources with ``on_failure`` that an output refers to; an invalid output has been reported."""
    with suppress(ValueError):
        roots = [path.root for path in scope.paths(value)]
        entries = dict.fromkeys(table.find(root) for root in roots if isinstance(root, Reference))
        yield from (entry for entry in entries if entry is not None and entry.index in handled)


def _is_forbidden(edge: Edge, handled: Mapping[int, Collection[int]]) -> bool:
    """Return whether an edge leads from a handler to a resource that may be carried out without it."""
    if edge.first not in handled:
        return False
    return not (edge.then in handled and set(handled[edge.then]) <= set(handled[edge.first]))


def _report_requirement(
    entries: Sequence[Entry], edge: Edge, failing: Collection[int], diagnostics: Diagnostics
) -> None:
    """Report a resource that requires a failure handler, at the first declaration that may be the cause."""
    handler, dependent = entries[edge.first], entries[edge.then]
    for subject, attribute in _declarations(handler, dependent):
        message = f"{attribute}: {_sentence(entries, handler, failing)}"
        hint = "give it the same on_failure" if subject is dependent else ""
        diagnostics.resource_error(subject, attribute, message, "on_failure", hint)
        return
    message = f"requires {handler.reference}: {_sentence(entries, handler, failing)}"
    diagnostics.resource_error(dependent, None, message, "on_failure")


def _declarations(handler: Entry, dependent: Entry) -> Iterator[tuple[Entry, str]]:
    """Yield the resource and the attribute or metaparameter that may declare the requirement."""
    for name, sources in dependent.sources.items():
        if handler in sources:
            yield dependent, name
    yield from ((dependent, word) for word in ("require", "subscribe") if word in dependent.declaration.meta)
    yield from ((handler, word) for word in ("before", "notify") if word in handler.declaration.meta)


def _sentence(entries: Sequence[Entry], handler: Entry, failing: Collection[int]) -> str:
    """Return the reason that nothing can require a handler, which is done after a failure only."""
    names = _names(entries, failing, " or ")
    return f"{handler.reference} is done only if {names} fails, so nothing else can require it"


def _names(entries: Sequence[Entry], indexes: Collection[int], word: str = " and ") -> str:
    return word.join(str(entries[index].reference) for index in sorted(indexes))
