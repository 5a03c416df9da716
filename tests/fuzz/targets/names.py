"""Small languages in texts: data types, references, targets and tags, expressions."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from resource_api.manifest.read import read_mapping
from resource_api.manifest.sections import assemble
from resource_api.model.datatypes import datatype, from_text, json_schema, messages
from resource_api.model.options import Options
from resource_api.model.values import expression, reference
from resource_api.model.values.values import UNKNOWN, Sensitive, escape_expressions
from resource_api.plan import targets
from resource_api.plugins.provider_pool import ProviderPool
from tests.fuzz import things
from tests.fuzz.target import target
from tests.fuzz.targets.manifests import PATHS, REFERENCES, TEXTS

if TYPE_CHECKING:
    from resource_api.catalog.compile import Catalog

VALUES: Final[list[Any]] = [
    *(None, True, 0, -1, 2**70, 1.5, "", "a", "0644", "2026-02-28T12:00:00.5+01:00", "1-02:03:04.5"),
    *([], ["a"], [["a"], 1], {}, {"a": 1}, {"sides": 1, "colour": "red"}, [[[]]], "\n", "é\U0001f600"),
]
ATOMS: Final = st.one_of(
    st.sampled_from(sorted(datatype.KINDS)),
    st.builds("Integer[{}, {}]".format, st.integers(-9, 9), st.integers(-9, 99) | st.just("default")),
    st.builds("String[{}]".format, st.integers(-1, 9)),
    st.builds("Enum[{}]".format, st.lists(st.sampled_from(["a", "'b c'", '"d"', "true"]), max_size=3).map(", ".join)),
    st.builds(
        "Pattern[/{}/]".format,
        st.sampled_from(
            [r"\A[a-z]+\z", "(a+)+b", "a|b", "[[:alpha:]]", r"\h", "(?<n>x)\\k<n>", "(?i:x)", "[", "a{2,1}"]
        ),
    ),
)
DATA_TYPES: Final = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(
            "{}[{}]".format,
            st.sampled_from(["Optional", "NotUndef", "Sensitive", "Variant", "Array", "Tuple", "Hash", "Reference"]),
            st.lists(inner, min_size=1, max_size=3).map(", ".join),
        ),
        st.builds("Hash[{}, {}]".format, inner, inner),
        st.builds("Struct[{{a => {}, Optional[b] => {}}}]".format, inner, inner),
        st.builds("Array[{}, {}, {}]".format, inner, st.integers(0, 3), st.integers(0, 9)),
    ),
    max_leaves=8,
)


@target(
    generate=st.one_of(DATA_TYPES, st.builds("{}{}".format, DATA_TYPES, TEXTS)).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    ),
    words=" ".join(sorted(datatype.KINDS)) + r" [ ] { } => , / default '' \A \z \h [[:alpha:]] (?<n>) (?i) {2,3} 1e9",
)
def data_type(data: bytes) -> None:
    """Data type expressions, and what is done with the type: check values, explain them, coerce text, JSON Schema."""
    text = data.decode("utf-8", "surrogateescape")
    datatype.parse.cache_clear()
    result = datatype.parse(text)
    assert datatype.parse(result.text).text == result.text, "the text of a data type is another data type"
    json_schema.schema(result)
    json_schema.schema(result, draft7=True)
    for value in VALUES:
        if not result.accepts(value):
            assert messages.refusal(result, value), "a refused value is not described"
            assert messages.explain(result, value), "a refused value is not explained"
    for value in ("", "1", "true", "a,b", "[1]", "{", "null"):
        with suppress(ValueError):
            from_text.coerce(result, value)


@target(
    generate=st.one_of(
        REFERENCES, TEXTS, st.builds("urn:resource:{}::{}::{}::{}".format, TEXTS, TEXTS, TEXTS, TEXTS)
    ).map(lambda text: text.encode("utf-8", "surrogatepass")),
    words="Thing[a] Web_site[b]/Thing[c] urn:resource:default::p::thing::a $ :: ]/ ]. [ ] ' \" * ?",
)
def names(data: bytes) -> None:
    """Names of resources: references, URNs, former names."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        result = reference.parse(text)
        assert reference.parse(str(result)) == result, "a reference is not its text"
        reference.split_component(result, "thing")
    with suppress(ValueError):
        urn = reference.parse_urn(text)
        assert reference.parse_urn(str(urn)) == urn, "a URN is not its text"
        reference.parse(str(urn.reference))
    with suppress(ValueError):
        reference.parse_alias(text, "Web_site[b]", "thing")
    reference.title_problem(text)
    with suppress(ValueError):
        reference.component_chain(text)
        reference.enclosing_components(text)


@cache
def _catalog() -> Catalog:
    runtime = things.runtime()
    resources = {f"Thing[{'a' * 40}{title}]": {"tag": ["web", "db"]} for title in ("", "/etc/motd", "[x]", "é", "aab")}
    with ProviderPool(runtime.registry, runtime.run) as providers:
        return runtime.catalog(assemble([read_mapping({"resources": resources}, "site")]), {}, providers)


@target(
    generate=st.lists(st.one_of(REFERENCES, st.text("a*?T[]", max_size=30), TEXTS), min_size=1, max_size=3).map(
        lambda item: "\0".join(item).encode("utf-8", "surrogatepass")
    ),
    words="Thing[*] Thing * ? [ ] urn:resource:default::p::thing::a web , aaaa *a*a*a*a*b",
    readings=4,
)
def selectors(data: bytes) -> None:
    """Selections of resources: `--target`, `--exclude`, `--tags` and `--skip-tags`."""
    words = data.decode("utf-8", "surrogateescape").split("\0")
    tags = frozenset(words[-1].lower().split(","))
    targets.select(_catalog(), Options(tags=tags))
    targets.select(_catalog(), Options(skip_tags=tags))
    targets.select(_catalog(), Options(targets=tuple(words), with_dependencies=True, with_dependents=True))
    targets.select(_catalog(), Options(excludes=tuple(words)))


def _resolve(path: expression.ExpressionPath) -> Any:
    result = {"inputs": "text", "values": {"x": ["y", Sensitive("z")]}, "facts": UNKNOWN}.get(str(path.root))
    return expression.follow_keys({"size": 1, "x": result} if result is None else result, path, path.keys[:2])


@target(
    generate=st.lists(st.one_of(PATHS, TEXTS), max_size=5).map(
        lambda item: "".join(item).encode("utf-8", "surrogatepass")
    ),
    words="${ $${ } ${inputs.a} ${values.x.0} ${facts.os} ${Thing[a].size} ${Thing[${inputs.a}].x} ]. [ . $",
    readings=8,
)
def expressions(data: bytes) -> None:
    """References in values: parsed, written again, found at any depth, evaluated."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        result = expression.parse(text)
        if isinstance(result, expression.Expression):
            assert expression.parse(str(result)) == result, "an expression is not its text"
        assert expression.parse(escape_expressions(text)) == text, "an escaped text is not itself"
        list(expression.find_paths({"a": [text, {"b": text}]}))
        expression.evaluate([text, {"a": text}], _resolve)
