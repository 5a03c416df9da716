"""A catalog's relationships as a drawing or as data: the order of resources, and which of them refresh others.

Every edge points from the resource that comes first to the one that comes after it. The order and the relationships
are the catalog's; nothing is decided here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import enclosing_components
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry

    Form = Literal["dot", "mermaid", "json", "html"]


class _Link(NamedTuple):
    first: int
    then: int
    kind: str
    automatic: bool


def render(catalog: Catalog, form: Form) -> str:
    """Return the relationships of ``catalog`` as text; equal catalogs have equal texts.

    ``html`` is a page that needs no network, ``dot`` Graphviz's language, ``mermaid`` a flowchart, ``json`` a mapping
    of ``nodes`` (``reference``, ``type``, ``title``, ``index`` in the order of execution, ``parent`` within a
    component) and ``edges`` (``from``, ``to``, ``kind``: ``require``, or ``notify`` where a change of the first
    refreshes the second; ``automatic`` where only a type declares it).
    """
    return _html(catalog) if form == "html" else _FORMS[form](catalog.entries, _links(catalog))


def _links(catalog: Catalog) -> list[_Link]:
    refreshing = {(first, then) for then, firsts in catalog.subscribes.items() for first in firsts}
    pairs = {(first, then) for then, firsts in catalog.requires.items() for first in firsts} | refreshing
    kinds = {True: "notify", False: "require"}
    return [_Link(*pair, kinds[pair in refreshing], pair in catalog.automatic) for pair in sorted(pairs)]


def _json(entries: Sequence[Entry], links: Iterable[_Link]) -> str:
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
                "from": names[link.first],
                "to": names[link.then],
                "kind": link.kind,
                **({"automatic": True} if link.automatic else {}),
            }
            for link in links
        ],
    }
    return json.dumps(document, indent=2)


def _html(catalog: Catalog) -> str:
    from resource_api.render.html import relationships  # noqa: PLC0415 - only for a page

    edges = [relationships.Edge(*link) for link in _links(catalog)]
    return relationships.page(catalog.manifest.project, [str(entry.reference) for entry in catalog.entries], edges)


def _dot(entries: Sequence[Entry], links: Iterable[_Link]) -> str:
    lines = ["digraph catalog {", '  node [shape=box, style=rounded, fontname="sans-serif"]']
    lines += _boxed(
        entries,
        lambda index, entry: f'n{index} [label="{_escaped(str(entry.reference), _DOT)}"]',
        lambda number, name: f'subgraph cluster_{number} {{ label="{_escaped(name, _DOT)}"',
        "}",
    )
    for link in links:
        style = ["color=blue", "label=notify"] * (link.kind == "notify") + ["style=dashed"] * link.automatic
        lines.append(f"  n{link.first} -> n{link.then}" + (f" [{', '.join(style)}]" if style else ""))
    return "\n".join([*lines, "}"])


def _mermaid(entries: Sequence[Entry], links: Iterable[_Link]) -> str:
    lines = ["flowchart TD"]
    lines += _boxed(
        entries,
        lambda index, entry: f'n{index}["{_escaped(str(entry.reference), _MERMAID)}"]',
        lambda number, name: f'subgraph c{number}["{_escaped(name, _MERMAID)}"]',
        "end",
    )
    for link in links:
        arrow = ("-.->" if link.automatic else "-->") + ("|notify|" if link.kind == "notify" else "")
        lines.append(f"  n{link.first} {arrow} n{link.then}")
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
