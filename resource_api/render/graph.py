"""Render a catalog's relationships as a drawing, as an HTML page, or as data.

Every edge points from the resource that comes first to the one after it. ``anchors``: reference → id of its row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal

from resource_api.catalog.graph import Edge
from resource_api.model.values.reference import enclosing_components
from resource_api.model.values.text import counted, escape
from resource_api.render import json as documents
from resource_api.render.html.elements import Page, PageRow, Section, e, links, row_anchors, rows_section, write
from resource_api.render.plan import left_out_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry

    Form = Literal["dot", "mermaid", "json", "html"]


def render(catalog: Catalog, form: Form) -> str:
    """Return the relationships of ``catalog`` as text; equal catalogs have equal texts.

    ``html`` is a page that needs no network, ``dot`` Graphviz's language, ``mermaid`` a flowchart, ``json`` a mapping
    of ``nodes`` (``reference``, ``type``, ``title``, ``index`` in the order of execution, ``parent`` within a
    component, ``origin`` in ``for_each``), ``left_out`` (``reference``, ``why``) and ``edges`` (``from``, ``to``,
    ``kind``: ``require``, or ``notify`` where a change of the first refreshes the second, ``on_failure`` where its
    failure is needed; ``automatic`` where only a type declares it).
    """
    return _FORMS[form](catalog, _edges(catalog))


def _edges(catalog: Catalog) -> list[Edge]:
    """Return the relationships of a catalog as edges for all forms of the graph, one for each pair of resources.

    The catalog has them by kind, as index of the later resource → indices of the earlier ones. The edges are sorted, so
    that equal catalogs give equal texts.
    """
    refreshing = {(first, then) for then, firsts in catalog.subscribes.items() for first in firsts}
    pairs = {(first, then) for then, firsts in catalog.requires.items() for first in firsts} | refreshing
    failing = {(first, then) for then, firsts in catalog.on_failure.items() for first in firsts}
    return [
        Edge(*pair, pair in refreshing, pair in catalog.automatic, pair in failing) for pair in sorted(pairs | failing)
    ]


def _kind(edge: Edge) -> str:
    """Return the kind of an edge as JSON has it, the strongest of several."""
    return "on_failure" if edge.on_failure else "notify" if edge.refresh else "require"


def _json(catalog: Catalog, edges: Iterable[Edge]) -> str:
    """Return the graph as JSON: nodes are the resources in their order, edges their relationships."""
    names = [str(entry.reference) for entry in catalog.entries]
    document = {
        "nodes": [_node(index, entry) for index, entry in enumerate(catalog.entries)],
        "edges": [
            {
                "from": names[edge.first],
                "to": names[edge.then],
                "kind": _kind(edge),
                **({"automatic": True} if edge.automatic else {}),
            }
            for edge in edges
        ],
        "left_out": documents.left_out(catalog),
    }
    return json.dumps(document, indent=2)


def _node(index: int, entry: Entry) -> dict[str, object]:
    """Return a resource as a node of the graph's JSON; ``index``: in the order of execution."""
    element = entry.declaration.element
    return {
        "reference": str(entry.reference),
        "type": entry.type,
        "title": entry.title,
        "index": index,
        **({"parent": entry.parent} if entry.parent else {}),
        **({"origin": documents.origin(entry.declaration, element)} if element is not None else {}),
    }


def _left_out(catalog: Catalog) -> Iterator[str]:
    """Return the lines of the omitted parts of a manifest, for comments."""
    return left_out_lines((part.name, part.located_reason) for part in catalog.left_out.all)


def _dot(catalog: Catalog, edges: Iterable[Edge]) -> str:
    """Return the graph in the language of Graphviz: resources as nodes, components as clusters, colours for kinds."""
    lines = ["digraph catalog {", '  node [shape=box, style=rounded, fontname="sans-serif"]']
    lines += [f"  // {line}" for line in _left_out(catalog)]
    lines += _boxed(
        catalog.entries,
        lambda index, entry: f'n{index} [label="{_label(entry, _DOT)}"]',
        lambda number, name: f'subgraph cluster_{number} {{ label="{_escaped(name, _DOT)}"',
        "}",
    )
    for edge in edges:
        styles = (
            ("color=blue, label=notify", edge.refresh),
            ("style=dashed", edge.automatic),
            ("color=red, label=on_failure", edge.on_failure),
        )
        style = ", ".join(text for text, applies in styles if applies)
        lines.append(f"  n{edge.first} -> n{edge.then}" + (f" [{style}]" if style else ""))
    return "\n".join([*lines, "}"])


def _mermaid(catalog: Catalog, edges: Iterable[Edge]) -> str:
    """Return the graph in the language of Mermaid, with components as subgraphs."""
    lines = ["flowchart TD"]
    lines += [f"  %% {line}" for line in _left_out(catalog)]
    lines += _boxed(
        catalog.entries,
        lambda index, entry: f'n{index}["{_label(entry, _MERMAID)}"]',
        lambda number, name: f'subgraph c{number}["{_escaped(name, _MERMAID)}"]',
        "end",
    )
    for edge in edges:
        word = "" if _kind(edge) == "require" else f"|{_kind(edge)}|"
        arrow = ("-.->" if edge.automatic else "-->") + word
        lines.append(f"  n{edge.first} {arrow} n{edge.then}")
    return "\n".join(lines)


#: Special characters within quotes: Graphviz also interprets HTML entities, Mermaid also Markdown and its own ones.
_DOT: Final = {'"': '\\"', "\\": "\\\\", "&": "&amp;"}
_MERMAID: Final = {character: f"#{ord(character)};" for character in '"#&<>`\\*_~$'}


def _escaped(name: str, special: Mapping[str, str]) -> str:
    """Return a reference on one line, escaped for terminals and by ``special``: character → its escape."""
    return "".join(special.get(character, character) for character in escape(name))


def _label(entry: Entry, special: Mapping[str, str]) -> str:
    """Return the text of a node: its reference, and below it the element of ``for_each`` that it was made of, if any.

    ``special``: the characters to escape in the language, and their replacements.
    """
    element = entry.declaration.element
    lines = [str(entry.reference), *([element.origin] if element is not None else [])]
    return ("\\n" if special is _DOT else "<br>").join(_escaped(line, special) for line in lines)


def _boxed(
    entries: Sequence[Entry], node: Callable[[int, Entry], str], begin: Callable[[int, str], str], end: str
) -> Iterator[str]:
    """Yield the lines of a drawing's nodes: those outside of components, then components as boxes around theirs.

    ``node`` makes the line of a resource, ``begin`` the first line of a box from its number and name, ``end`` is the
    last one: these differ between Graphviz and Mermaid.
    """
    #: Component → its own resources, and component → the components directly within it; "" is outside of all.
    inside: dict[str, list[tuple[int, Entry]]] = {"": []}
    boxes: dict[str, dict[str, None]] = {}
    for index, entry in enumerate(entries):
        outer = ""
        for name in reversed(enclosing_components(entry.parent)):  # "Site[a]", then "Site[a]/Web[b]"
            boxes.setdefault(outer, {})[name] = None
            outer = name
        # The resource belongs to the innermost component.
        inside.setdefault(entry.parent, []).append((index, entry))
    numbers = {name: number for number, name in enumerate(name for names in boxes.values() for name in names)}

    def draw(parent: str, margin: str) -> Iterator[str]:
        """Yield the lines of the resources directly within a component, then of each component within it."""
        yield from (margin + node(index, entry) for index, entry in inside.get(parent, ()))
        for name in boxes.get(parent, ()):
            yield margin + begin(numbers[name], name)
            yield from draw(name, margin + "  ")
            yield margin + end

    return draw("", "  ")


#: Pixels of one resource of the drawing, as in the style.
_ROW: Final = 22
#: A drawing of more resources shows nothing; a page of more has the list alone.
_MOST: Final = 1000
#: The widest arc in pixels, and the width of the drawing.
_REACH: Final = 150
_WIDTH: Final = _REACH + 10


def _page(catalog: Catalog, edges: Sequence[Edge]) -> str:
    """Return the HTML page of the graph: a drawing, and a row for each resource in the order of execution."""
    project, names = catalog.manifest.project, [str(entry.reference) for entry in catalog.entries]
    anchors = row_anchors(names)
    after: dict[int, list[Edge]] = {}
    before: dict[int, list[Edge]] = {}
    for edge in edges:
        after.setdefault(edge.then, []).append(edge)
        before.setdefault(edge.first, []).append(edge)
    rows = [
        PageRow(
            name,
            str(number + 1),
            f"{len(before[number])} after it" if number in before else "",
            _body(number, names, (after, before), anchors),
        )
        for number, name in enumerate(names)
    ]
    notifying = sum(edge.refresh for edge in edges)
    outcome = f"{counted(len(names), 'resource')}, {counted(len(edges), 'relationship')}, {notifying} of them notify"
    left_out = "".join(
        f"<li><code>{e(part.name)}</code>: {e(part.located_reason)}</li>" for part in catalog.left_out.all
    )
    drawing = _drawing(names, edges, anchors) if len(names) <= _MOST else ""
    sections = [
        Section("Order and relationships", drawing),
        rows_section("Resources", rows, anchors),
        Section("Left out", f"<ul>{left_out}</ul>" if left_out else ""),
    ]
    return write(Page(f"Relationships of {project}", outcome, (), sections))


def _body(
    number: int,
    names: Sequence[str],
    edges: tuple[Mapping[int, Sequence[Edge]], Mapping[int, Sequence[Edge]]],
    anchors: Mapping[str, str],
) -> str:
    """Return the details of the resource with this ``number`` on the page: links to those before and after it.

    ``edges``: two mappings by number, of the edges in which the resource is the later one, ``after``, and of those in
    which it is the earlier one, ``before``.
    """
    after, before = (side.get(number, ()) for side in edges)
    return "".join((
        links("requires", [names[edge.first] for edge in after if _kind(edge) == "require"], anchors),
        links("only if this fails", [names[edge.first] for edge in after if edge.on_failure], anchors),
        links("notified by", [names[edge.first] for edge in after if edge.refresh], anchors),
        links("required by", [names[edge.then] for edge in before if _kind(edge) == "require"], anchors),
        links("when it fails", [names[edge.then] for edge in before if edge.on_failure], anchors),
        links("notifies", [names[edge.then] for edge in before if edge.refresh], anchors),
    ))  # fmt: skip


def _drawing(names: Sequence[str], edges: Sequence[Edge], anchors: Mapping[str, str]) -> str:
    """Return the drawing: the resources as a column, with an arc of SVG on the left for each relationship."""
    longest = max((edge.then - edge.first for edge in edges), default=1)
    arcs = "".join(_arc(edge, names, anchors, longest) for edge in edges)
    items = "".join(
        f'<li id="g{anchors[name]}"><a href="#{anchors[name]}"><code>{e(name)}</code></a></li>' for name in names
    )
    drawn = f'<svg width="{_WIDTH}" height="{len(names) * _ROW}" aria-hidden="true">{arcs}</svg>'
    legend = '<span class="key"></span>requires<span class="key path"></span>notifies; dashed: declared by a type'
    return f'<p class="legend">{legend}</p><div class="arcs">{drawn}<ol>{items}</ol></div>'


def _arc(edge: Edge, names: Sequence[str], anchors: Mapping[str, str], longest: int) -> str:
    """Return the SVG arc of an edge, with an arrowhead at the later resource.

    It reaches further to the left the more rows it spans, so that arcs do not coincide; ``longest``: the most rows.
    """
    top, bottom = (position * _ROW + _ROW // 2 for position in (edge.first, edge.then))
    reach = max(14.0, _REACH * ((edge.then - edge.first) / longest) ** 0.5)
    x = _WIDTH - 4
    curve = f"M{x} {top}C{x - reach:.0f} {top} {x - reach:.0f} {bottom} {x} {bottom}"
    kind = " ".join(filter(None, ("notify" if edge.refresh else "", "automatic" if edge.automatic else "")))
    # The page's script marks the arcs of the resource under the pointer by their ends.
    ends = " ".join(f"g{anchors[names[position]]}" for position in (edge.first, edge.then))
    return f'<path class="{kind}" data-ends="{ends}" d="{curve}l-5 -3m5 3l-5 3"/>'


_FORMS: Final = {"dot": _dot, "mermaid": _mermaid, "json": _json, "html": _page}
