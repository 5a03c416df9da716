"""Graphs are complete, ordered and reproducible, and no title breaks one."""

from __future__ import annotations

import html
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, Registry, Runtime, SimpleProvider, TypeDefinition
from resource_api.model.values.text import escape
from resource_api.render import graph

if TYPE_CHECKING:
    from resource_api.catalog.compile import Catalog

WIDGET = TypeDefinition(
    name="widget",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "colour": Attribute("Optional[String]"),
        "serial": Attribute("Optional[String]", kind="read_only"),
        "shelf": Attribute("Optional[String]"),
    },
    features={"refreshable"},
    autorequires={"shelf": "$shelf"},
    autosubscribe={"paint": "$colour"},
)


class Still(SimpleProvider):
    """A provider without resources."""

    def get(self, context: object, names: object = None) -> list[dict[str, Any]]:  # noqa: ARG002 - a provider's
        """Return no resources."""
        return []

    def refresh(self, context: object, names: object) -> None:
        """Do nothing."""


class Plain(SimpleProvider):
    """The same provider, for types without features."""

    get = Still.get


def compiled(options: dict[str, Any] | None = None, /, **sections: Any) -> Catalog:
    """Compile a manifest of widgets, shelves and paints."""
    registry = Registry()
    registry.register_type(WIDGET)
    registry.register_provider("widget", Still)
    for name in ("shelf", "paint"):
        attributes = {"name": Attribute("String", kind="namevar")}
        registry.register_type(TypeDefinition(name=name, attributes=attributes))
        registry.register_provider(name, Plain)
    return Runtime(registry).compile(sections, options)


def titled(titles: list[str]) -> Catalog:
    """Compile widgets of these titles; they come from inputs, where ``${`` has no meaning."""
    arguments = {f"title{number}": title for number, title in enumerate(titles)}
    declared = {name: {"type": "String"} for name in arguments}
    return compiled(arguments, inputs=declared, resources={f"Widget[${{inputs.{name}}}]": {} for name in arguments})


def edges(catalog: Catalog) -> set[tuple[str, str, str, bool]]:
    """Return the edges of the JSON form."""
    result = json.loads(graph.render(catalog, "json"))["edges"]
    assert all(edge.keys() <= {"from", "to", "kind", "automatic"} for edge in result)
    return {(edge["from"], edge["to"], edge["kind"], edge.get("automatic", False)) for edge in result}


def labels(dot: str) -> list[str]:
    """Draw with Graphviz and return the texts of the nodes in the drawing."""
    process = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True, timeout=50)
    assert process.stderr == ""
    space = "{http://www.w3.org/2000/svg}"
    nodes = [item for item in ET.fromstring(process.stdout).iter(space + "g") if item.get("class") == "node"]  # noqa: S314 - Graphviz is ours
    return [
        "".join(text.text or "" for text in node.iter(space + "text")).replace("\N{NO-BREAK SPACE}", " ")
        for node in nodes
    ]


def drawn(mermaid: str) -> list[str]:
    """Read the labels of a flowchart as Mermaid does: quotes end them, ``#35;`` is a character."""
    matches = re.findall(r'^  n\d+\["([^"\n]*)"\]$', mermaid, re.MULTILINE)
    return [re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) for label in matches]


FORMS: Final[tuple[graph.Form, ...]] = ("dot", "mermaid")
NASTY: Final = [
    'say "hi"',
    "back\\slash\\",
    "a\u2028b",
    "[x]",
    "&lt;b&gt;",
    "<b>bold</b>",
    "#35;",
    "`code`",
    "\\N",
    "a]; n9 -> n0 [",
]


def test_nodes_are_in_the_order_of_execution() -> None:
    """The index of a node is its position in the run, whatever the file's order."""
    catalog = compiled(resources={"Widget[late]": {"require": "Shelf[early]"}, "Shelf[early]": None, "Paint[x]": None})
    nodes = json.loads(graph.render(catalog, "json"))["nodes"]
    assert [node["reference"] for node in nodes] == ["Shelf[early]", "Widget[late]", "Paint[x]"]
    assert nodes[1] == {"reference": "Widget[late]", "type": "widget", "title": "late", "index": 1}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"Shelf[s]": {}, "Widget[w]": {"require": "Shelf[s]"}}, ("Shelf[s]", "Widget[w]", "require", False)),
        ({"Widget[w]": {}, "Shelf[s]": {"before": "Widget[w]"}}, ("Shelf[s]", "Widget[w]", "require", False)),
        ({"Widget[w]": {}, "Shelf[s]": {"notify": ["Widget[w]"]}}, ("Shelf[s]", "Widget[w]", "notify", False)),
        ({"Widget[w]": {"subscribe": "Shelf[s]"}, "Shelf[s]": {}}, ("Shelf[s]", "Widget[w]", "notify", False)),
        ({"Widget[w]": {"shelf": "s"}, "Shelf[s]": {}}, ("Shelf[s]", "Widget[w]", "require", True)),
        ({"Widget[w]": {"colour": "red"}, "Paint[red]": {}}, ("Paint[red]", "Widget[w]", "notify", True)),
        (
            {"Widget[w]": {"shelf": "s", "require": "Shelf[s]"}, "Shelf[s]": {}},
            ("Shelf[s]", "Widget[w]", "require", False),
        ),
        ({"Widget[w]": {"shelf": "${Shelf[s].name}"}, "Shelf[s]": {}}, ("Shelf[s]", "Widget[w]", "require", False)),
        (
            {"Widget[w]": {"require": "Shelf[other]"}, "Shelf[s]": {"alias": "other"}},
            ("Shelf[s]", "Widget[w]", "require", False),
        ),
    ],
)
def test_an_edge_shows_order_and_kind(resources: dict[str, Any], expected: tuple[str, str, str, bool]) -> None:
    """Each way to relate two resources becomes one edge, automatic only where nothing but the type declares it."""
    assert edges(compiled(resources=resources)) == {expected}


def test_what_values_and_defaults_imply_is_not_automatic() -> None:
    """A reference counts wherever it is written, also where the type declares the same relationship."""
    resources = {"Shelf[s]": {}, "Widget[w]": {}, "Widget[v]": {"shelf": "${values.place}"}}
    catalog = compiled(
        resources=resources, defaults={"Widget": {"shelf": "${Shelf[s].name}"}}, values={"place": "${Shelf[s].name}"}
    )
    assert edges(catalog) == {("Shelf[s]", "Widget[w]", "require", False), ("Shelf[s]", "Widget[v]", "require", False)}


@pytest.mark.parametrize("form", ["dot", "mermaid", "json"])
def test_equal_manifests_have_equal_graphs(form: graph.Form) -> None:
    """Two compilations give one text, so that a drawing can be kept in version control."""
    resources = {f"Widget[{n}]": {"require": [f"Shelf[{m}]" for m in range(5)]} for n in range(5)}
    resources |= {f"Shelf[{m}]": {} for m in range(5)}
    texts = {graph.render(compiled(resources=resources), form) for _ in range(3)}
    assert len(texts) == 1


def test_edges_are_marked_by_kind() -> None:
    """A reader of the drawing sees which edges refresh and which ones a type has added."""
    catalog = compiled(
        resources={
            "Shelf[s]": {},
            "Paint[p]": {"notify": "Widget[w]"},
            "Widget[w]": {"shelf": "s"},
            "Widget[v]": {"require": "Shelf[s]"},
        }
    )
    dot, mermaid = (graph.render(catalog, form).splitlines() for form in FORMS)
    assert {"  n0 -> n2 [style=dashed]", "  n1 -> n2 [color=blue, label=notify]", "  n0 -> n3"} < set(dot)
    assert {"  n0 -.-> n2", "  n1 -->|notify| n2", "  n0 --> n3"} < set(mermaid)


@pytest.mark.process
def test_graphviz_shows_every_title_as_it_is() -> None:
    """Quotes, brackets, backslashes, entities and line breaks in a title reach the drawing as text, not as language."""
    catalog = titled(NASTY)
    assert labels(graph.render(catalog, "dot")) == [escape(f"Widget[{title}]") for title in NASTY]


def test_mermaid_shows_every_title_as_it_is() -> None:
    """Characters that would end a label or become Markdown are written as codes."""
    catalog = titled(NASTY)
    text = graph.render(catalog, "mermaid")
    assert drawn(text) == [escape(f"Widget[{title}]") for title in NASTY]
    assert len(text.splitlines()) == 1 + len(NASTY)
    assert html.unescape(text) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'\""), min_size=1))
def test_no_title_breaks_out_of_its_line(title: str) -> None:
    """Any title is one line, and the label decodes to the title."""
    catalog = titled([title])
    assert drawn(graph.render(catalog, "mermaid")) == [escape(f"Widget[{title}]")]
    assert len(graph.render(catalog, "dot").splitlines()) == 4
    assert json.loads(graph.render(catalog, "json"))["nodes"][0]["title"] == title
