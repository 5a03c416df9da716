"""The relationships of a catalog as an HTML page: resources in their order, and an arc for each relationship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.render.html.elements import Page, Row, Section, e, links, row_ids, rows_section, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.catalog.graph import Edge

#: Pixels of one resource of the drawing, as in the style.
_ROW: Final = 22
#: A drawing of more resources shows nothing; a page of more has the list alone.
_MOST: Final = 1000
#: The widest arc in pixels, and the width of the drawing.
_REACH: Final = 150
_WIDTH: Final = _REACH + 10


def page(project: str, names: Sequence[str], edges: Sequence[Edge]) -> str:
    """Return the page of the resources ``names``, in the order of execution, and their relationships."""
    ids = row_ids(names)
    after: dict[int, list[Edge]] = {}
    before: dict[int, list[Edge]] = {}
    for edge in edges:
        after.setdefault(edge.then, []).append(edge)
        before.setdefault(edge.first, []).append(edge)
    rows = [
        Row(name, str(number + 1), _note(before.get(number, ())), _body(number, names, (after, before), ids))
        for number, name in enumerate(names)
    ]
    notifying = sum(edge.refresh for edge in edges)
    outcome = f"{len(names)} resources, {len(edges)} relationships, {notifying} of them notify"
    drawing = Section("Order and relationships", _drawing(names, edges, ids) if len(names) <= _MOST else "")
    return write(Page(f"Relationships of {project}", outcome, (), [drawing, rows_section("Resources", rows, ids)]))


def _note(edges: Sequence[Edge]) -> str:
    return f"{len(edges)} after it" if edges else ""


def _body(
    number: int,
    names: Sequence[str],
    edges: tuple[Mapping[int, Sequence[Edge]], Mapping[int, Sequence[Edge]]],
    ids: Mapping[str, str],
) -> str:
    after, before = (side.get(number, ()) for side in edges)
    return "".join((
        links("requires", [names[edge.first] for edge in after if not edge.refresh], ids),
        links("notified by", [names[edge.first] for edge in after if edge.refresh], ids),
        links("required by", [names[edge.then] for edge in before if not edge.refresh], ids),
        links("notifies", [names[edge.then] for edge in before if edge.refresh], ids),
    ))  # fmt: skip


def _drawing(names: Sequence[str], edges: Sequence[Edge], ids: Mapping[str, str]) -> str:
    """Return the resources below each other, with an arc on their left for each relationship."""
    longest = max((edge.then - edge.first for edge in edges), default=1)
    arcs = "".join(_arc(edge, names, ids, longest) for edge in edges)
    items = "".join(f'<li id="g{ids[name]}"><a href="#{ids[name]}"><code>{e(name)}</code></a></li>' for name in names)
    drawn = f'<svg width="{_WIDTH}" height="{len(names) * _ROW}" aria-hidden="true">{arcs}</svg>'
    legend = '<span class="key"></span>requires<span class="key path"></span>notifies; dashed: declared by a type'
    return f'<p class="legend">{legend}</p><div class="arcs">{drawn}<ol>{items}</ol></div>'


def _arc(edge: Edge, names: Sequence[str], ids: Mapping[str, str], longest: int) -> str:
    top, bottom = (position * _ROW + _ROW // 2 for position in (edge.first, edge.then))
    reach = max(14.0, _REACH * ((edge.then - edge.first) / longest) ** 0.5)
    x = _WIDTH - 4
    curve = f"M{x} {top}C{x - reach:.0f} {top} {x - reach:.0f} {bottom} {x} {bottom}"
    kind = " ".join(filter(None, ("notify" if edge.refresh else "", "automatic" if edge.automatic else "")))
    ends = " ".join(f"g{ids[names[position]]}" for position in (edge.first, edge.then))
    return f'<path class="{kind}" data-ends="{ends}" d="{curve}l-5 -3m5 3l-5 3"/>'
