"""A catalog's relationships as a drawing or as data: the order of resources, and which of them refresh others.

Every edge points from the resource that comes first to the one that comes after it. The order and the relationships
are the catalog's; nothing is decided here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal

from resource_api.catalog.graph import Edge
from resource_api.model.values.reference import enclosing_components
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry

    Form = Literal["dot", "mermaid", "json", "html"]


def render(catalog: Catalog, form: Form) -> str:
    """Return the relationships of ``catalog`` as text; equal catalogs have equal texts.

    ``html`` is a page that needs no network, ``dot`` Graphviz's language, ``mermaid`` a flowchart, ``json`` a mapping
    of ``nodes`` (``reference``, ``type``, ``title``, ``index`` in the order of execution, ``parent`` within a
    component) and ``edges`` (``from``, ``to``, ``kind``: ``require``, or ``notify`` where a change of the first
    refreshes the second; ``automatic`` where only a type declares it).
    """
    return _html(catalog) if form == "html" else _FORMS[form](catalog.entries, _edges(catalog))


def _edges(catalog: Catalog) -> list[Edge]:
    refreshing = {(first, then) for then, firsts in catalog.subscribes.items() for first in firsts}
    pairs = {(first, then) for then, firsts in catalog.requires.items() for first in firsts} | refreshing
    return [Edge(*pair, pair in refreshing, pair in catalog.automatic) for pair in sorted(pairs)]


def _json(entries: Sequence[Entry], edges: Iterable[Edge]) -> str:
    names = [str(entry.reference) for entry in entries]
    document = {
        "nodes": [
            {
                "reference": name,
                "type": entry.type,
                "title": entry.title,
                "index": index,
                **({"parent": entry.parent} if entry.parent else {}),
            }
            for index, (name, entry) in enumerate(zip(names, entries, strict=True))
        ],
        "edges": [
            {
                "from": names[edge.first],
                "to": names[edge.then],
                "kind": "notify" if edge.refresh else "require",
                **({"automatic": True} if edge.automatic else {}),
            }
            for edge in edges
        ],
    }
    return json.dumps(document, indent=2)


def _html(catalog: Catalog) -> str:
    from resource_api.render.html import relationships

    names = [str(entry.reference) for entry in catalog.entries]
    return relationships.page(catalog.manifest.project, names, _edges(catalog))


def _dot(entries: Sequence[Entry], edges: Iterable[Edge]) -> str:
    lines = ["digraph catalog {", '  node [shape=box, style=rounded, fontname="sans-serif"]']
    lines += _boxed(
        entries,
        lambda index, entry: f'n{index} [label="{_escaped(str(entry.reference), _DOT)}"]',
        lambda number, name: f'subgraph cluster_{number} {{ label="{_escaped(name, _DOT)}"',
        "}",
    )
    for edge in edges:
        style = ["color=blue", "label=notify"] * edge.refresh + ["style=dashed"] * edge.automatic
        lines.append(f"  n{edge.first} -> n{edge.then}" + (f" [{', '.join(style)}]" if style else ""))
    return "\n".join([*lines, "}"])


def _mermaid(entries: Sequence[Entry], edges: Iterable[Edge]) -> str:
    lines = ["flowchart TD"]
    lines += _boxed(
        entries,
        lambda index, entry: f'n{index}["{_escaped(str(entry.reference), _MERMAID)}"]',
        lambda number, name: f'subgraph c{number}["{_escaped(name, _MERMAID)}"]',
        "end",
    )
    for edge in edges:
        arrow = ("-.->" if edge.automatic else "-->") + ("|notify|" if edge.refresh else "")
        lines.append(f"  n{edge.first} {arrow} n{edge.then}")
    return "\n".join(lines)


#: Special characters within quotes: Graphviz also interprets HTML entities, Mermaid also Markdown and its own ones.
_DOT: Final = {'"': '\\"', "\\": "\\\\", "&": "&amp;"}
_MERMAID: Final = {character: f"#{ord(character)};" for character in '"#&<>`\\*_~$'}


def _escaped(name: str, special: Mapping[str, str]) -> str:
    """Return a reference on one line, with everything escaped that the drawing's language or a terminal interprets."""
    return "".join(special.get(character, character) for character in escape(name))


def _boxed(
    entries: Sequence[Entry], node: Callable[[int, Entry], str], begin: Callable[[int, str], str], end: str
) -> Iterator[str]:
    """Yield the nodes outside of components, then each component as a box around its resources."""
    inside: dict[str, list[tuple[int, Entry]]] = {"": []}
    boxes: dict[str, dict[str, None]] = {}
    for index, entry in enumerate(entries):
        outer = ""
        for name in reversed(enclosing_components(entry.parent)):
            boxes.setdefault(outer, {})[name] = None
            outer = name
        inside.setdefault(entry.parent, []).append((index, entry))
    numbers = {name: number for number, name in enumerate(name for names in boxes.values() for name in names)}

    def draw(parent: str, margin: str) -> Iterator[str]:
        yield from (margin + node(index, entry) for index, entry in inside.get(parent, ()))
        for name in boxes.get(parent, ()):
            yield margin + begin(numbers[name], name)
            yield from draw(name, margin + "  ")
            yield margin + end

    return draw("", "  ")


_FORMS: Final = {"dot": _dot, "mermaid": _mermaid, "json": _json}
