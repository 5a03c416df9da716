"""What becomes of a value of a reference where a data type takes it: text, or an error before anything is read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

#: A type that yields what is known only after it was created, of several data types.
SOURCE = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "number": Attribute("Optional[Integer]", "n", kind="read_only"),
    "truth": Attribute("Optional[Boolean]", "t", kind="read_only"),
    "word": Attribute("Optional[String]", "w", kind="read_only"),
    "list": Attribute("Optional[Array[Integer]]", "l", kind="read_only"),
    "map": Attribute("Optional[Hash[String, Integer]]", "m", kind="read_only"),
    "part": Attribute("Optional[Struct[{id => Integer, tags => Array[String]}]]", "p", kind="read_only"),
    "small": Attribute("Optional[Integer[500, 600]]", "s", kind="read_only"),
    "either": Attribute("Optional[Variant[Integer, String]]", "v", kind="read_only"),
"""
PROVIDER = """
    def _file(self): return Path(os.environ["BENCH"], "source.json")
    def get(self, context, names=None):
        row = {"ensure": "present", "number": 80, "truth": True, "word": "w", "list": [1, 2], "map": {"a": 1},
               "part": {"id": 3, "tags": ["t"]}, "small": 500, "either": 4}
        return [{"name": each, **row} for each in (["s"] if self._file().exists() else [])]
    def create(self, context, name, should): self._file().write_text(json.dumps([name]))
    def delete(self, context, name): self._file().unlink()
"""
INPUTS = {"n": {"type": "Integer", "default": 80}, "t": {"type": "Boolean", "default": True}}


@pytest.fixture
def source(bench: Bench) -> Bench:
    """Return the bench with the type ``source``."""
    bench.type("source", SOURCE, provider=PROVIDER)
    return bench


def site(body: dict[str, Any], values: dict[str, Any] | None = None) -> str:
    """Return a manifest of a source and a widget that may refer to it."""
    resources = {"Source[s]": {}, "Widget[w]": body}
    return json.dumps(
        {"inputs": INPUTS, "values": {"all": {"p": 80, "q": True}, **(values or {})}, "resources": resources}
    )


@pytest.mark.parametrize("of", ["inputs", "values", "source"])
def test_a_number_or_truth_is_text_where_only_text_is_taken(source: Bench, of: str) -> None:
    """At any depth, known when the manifest is compiled or only at the turn; a type that takes it gets it as it is."""
    number = {"inputs": "${inputs.n}", "values": "${values.all.p}", "source": "${Source[s].number}"}[of]
    truth = {"inputs": "${inputs.t}", "values": "${values.all.q}", "source": "${Source[s].truth}"}[of]
    body = {"colour": number, "parts": [number, truth, "x"], "labels": {"a": number}, "mixed": truth, "size": number}
    result = source.apply(site(body))
    assert result.code == 0, result.err
    expected = {"colour": "80", "parts": ["80", "true", "x"], "labels": {"a": 80}, "mixed": True, "size": 80}
    assert expected.items() <= source.things("widget")["w"].items()
    assert source.apply(site(body)).out.endswith(" 2 unchanged.\n")


def test_parts_of_what_a_reference_yields_are_text_too(source: Bench) -> None:
    """A whole list of numbers goes into a list of texts; a literal number there is refused as ever."""
    assert source.apply(site({"parts": "${Source[s].list}"})).code == 0
    assert source.things("widget")["w"]["parts"] == ["1", "2"]
    assert source.apply(site({"parts": "${values.l}"}, {"l": [3, False]})).code == 0
    assert source.things("widget")["w"]["parts"] == ["3", "false"]
    refused = source.apply(site({"parts": ["${inputs.n}", 5]}))
    assert (refused.code, "parts[1] must be a string, not an integer" in refused.err) == (65, True)
    assert "parts[0]" not in refused.err


def test_a_component_gets_text_too(source: Bench) -> None:
    """An input of a component that takes text alone."""
    source.write(
        "modules/components/box.py",
        """
        "A box."
        from resource_api import Attribute, ComponentDefinition
        COMPONENT = ComponentDefinition(name="box", docs="A box.", inputs={"tint": Attribute("String", "Its colour.")})
        def build(m):
            m.widget("in", name=m.title, colour=m.inputs.tint)
        """,
    )
    boxes = {"Box[b]": {"tint": "${inputs.n}"}, "Box[c]": {"tint": "${Source[s].number}"}}
    result = source.apply(json.dumps({"inputs": INPUTS, "resources": {"Source[s]": {}, **boxes}}))
    assert result.code == 0, result.err
    assert [row["colour"] for row in source.things("widget").values()] == ["80", "80"]


NEVER: list[tuple[dict[str, Any], str]] = [
    ({"size": "s${Source[s].word}"}, "size must be an integer from 0 to 100, and text around ${Source[s].word} is"),
    ({"size": "${Source[s].number}${Source[s].number}"}, "text around ${Source[s].number} is a string"),
    ({"size": "${Source[s].word}"}, "size must be an integer from 0 to 100, and ${Source[s].word} is a string"),
    ({"size": "${Source[s].small}"}, "and ${Source[s].small} is an integer from 500 to 600"),
    ({"size": "${Source[s].list}"}, "and ${Source[s].list} is a list"),
    ({"size": "${Source[s].part.tags[0]}"}, "and ${Source[s].part.tags[0]} is a string"),
    ({"size": "${values.t}"}, "and ${values.t} is a string"),
    ({"size": "${values.deep.x}"}, "and ${values.deep.x} is a string"),
    ({"weight": "${Source[s].number}"}, "weight must be a float such as 1.0, and ${Source[s].number} is an integer"),
    ({"force": "${Source[s].number}"}, "force must be true or false, and ${Source[s].number} is an integer"),
    ({"labels": {"x": "${Source[s].word}"}}, "labels.x must be an integer, and ${Source[s].word} is a string"),
    ({"parts": "${Source[s].word}"}, "parts must be a list, and ${Source[s].word} is a string"),
    ({"parts": [["${Source[s].word}"], "${Source[s].map}"]}, "parts[1] must be a string, and ${Source[s].map}"),
    ({"colour": "in ${Source[s].list}"}, "colour must be a string, and ${Source[s].list} is a list"),
    ({"ensure": "x${Source[s].word}"}, "ensure must be one of present, absent, and text around ${Source[s].word} is"),
    ({"ensure": "${Source[s].word}sent${Source[s].word}s"}, "ensure must be one of present, absent, and text around"),
    ({"ensure": "${Source[s].truth}"}, "ensure must be one of present, absent, and ${Source[s].truth} is true or"),
]


@pytest.mark.parametrize(("body", "expected"), NEVER)
def test_what_can_never_fit_is_refused_before_anything(source: Bench, body: dict[str, Any], expected: str) -> None:
    """In validate, plan and apply: 65 with the place, and no provider is called."""
    values = {"t": "s${Source[s].word}", "deep": {"x": "${Source[s].word}"}}
    for command in ("validate", "plan", "apply"):
        result = source.run(command, source.write("site.json", site(body, values)))
        assert (result.code, expected in result.err, source.things("widget")) == (65, True, {}), result.err
        assert "site.json:1:" in result.err
    assert not (source.things_of / "source.json").exists()


@pytest.mark.parametrize(
    "body",
    [
        {"size": "${Source[s].either}"},
        {"size": "${Source[s].part.id}"},
        {"labels": "${Source[s].map}"},
        {"colour": "${Source[s].number} and ${Source[s].truth}"},
        {"mixed": "${Source[s].number}"},
        {"parts": ["${Source[s].part.tags[0]}", "a ${Source[s].word}"]},
    ],
)
def test_what_may_fit_is_left_to_the_run(source: Bench, body: dict[str, Any]) -> None:
    """Some value of the declared data type fits."""
    assert source.run("validate", source.write("site.json", site(body))).code == 0
    result = source.apply(site(body))
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("word.x", "there is no 'x'; it is a string"),
        ("number[0]", "there is no '0'; it is an integer"),
        ("map.a.b", "there is no 'b'; it is an integer"),
        ("list.a", "there is no 'a'; it is a list"),
        ("part.ids", "there is no 'ids'; did you mean 'id'?"),
        ("part.tags[0].x", "there is no 'x'; it is a string"),
    ],
)
def test_a_key_that_no_value_can_have_is_an_error_before_anything_is_read(source: Bench, path: str, words: str) -> None:
    """In a value, in text and in an output."""
    for value in (f"${{Source[s].{path}}}", f"x ${{Source[s].{path}}}"):
        result = source.validate(site({"colour": value}))
        assert (result.code, f"Widget[w]: ${{Source[s].{path}}}: {words}" in result.err) == (65, True), result.err


def test_a_missing_key_found_at_the_turn_has_one_place(source: Bench) -> None:
    """In the plan of what exists, and in the first apply."""
    body = {"colour": "${Source[s].map.zz}"}
    for result in (source.apply(site(body)), source.plan(site(body))):
        assert result.code == 1
        [line] = [line for line in result.err.splitlines() if line.startswith("Error")]
        assert re.sub(r"\(/.*/", "(", line) == "Error: Widget[w]: ${Source[s].map.zz}: there is no 'zz' (site.yaml:1)"
