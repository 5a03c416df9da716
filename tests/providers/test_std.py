"""The functions of ``std``: their examples, their laws, and their mistakes."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import subprocess
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api import Runtime
from resource_api.manifest import yaml_reader
from resource_api.model.values import expression
from tests.bundled import execute
from tests.reference import REGISTRY

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS: Final = REGISTRY.type("std").functions
#: A value of an example, and the comment with its result.
EXAMPLE: Final = re.compile(r"^ *(\w+: \{.*\})\n *# \$\{values\.(\w+)\} is (.+)$", re.MULTILINE)


def data(text: str) -> Any:
    """Return what a text is in a manifest."""
    return yaml_reader.read(text.encode(), "").data


def value(tmp_path: Path, function: str, **inputs: Any) -> Any:
    """Return the result of a function in a manifest."""
    call = {"invoke": f"std.{function}", "with": {name.rstrip("_"): item for name, item in inputs.items()}}
    return outputs(tmp_path, {"result": call})["result"]


def outputs(tmp_path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return named values, as the outputs of a manifest."""
    manifest = {"project": "p", "values": values, "outputs": {name: f"${{values.{name}}}" for name in values}}
    plan = Runtime(REGISTRY, state=f"sqlite:{tmp_path}/state.db").plan(manifest)
    return dict(plan.to_dict()["outputs"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_example_yields_what_it_says(name: str, tmp_path: Path) -> None:
    """The documentation of each function has an example, with its result below it."""
    examples = EXAMPLE.findall(FUNCTIONS[name].docs)
    assert len(examples) == FUNCTIONS[name].docs.count("invoke: ") >= 1
    for written, key, result in examples:
        call = data(written)
        assert call[key]["invoke"] == f"std.{name}"
        assert outputs(tmp_path, call) == {key: data(result)}


def test_all_functions_are_pure() -> None:
    """None reads anything but its inputs."""
    assert all(function.pure for function in FUNCTIONS.values())


# The laws

#: The functions themselves: they need no context, as they are pure.
STD: Final = execute("providers", "std").Provider()
CALL: Final[Any] = None
TEXT: Final = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
KEY: Final = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=4)
NUMBER: Final = st.integers(-(2**63), 2**63 - 1)
SCALAR: Final = st.none() | st.booleans() | NUMBER | st.floats(allow_nan=False, allow_infinity=False) | TEXT
DATA: Final = st.recursive(
    SCALAR
    | st.sampled_from(["yes", "0644", "0o17", "1e3", "1:30", "~", "", " a", "a\n", "- b", "null", "\u2028", "=", "#"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=8,
)
LIST: Final = st.lists(DATA, max_size=4)
MAP: Final = st.dictionaries(KEY, DATA, max_size=4)


@given(TEXT, TEXT.filter(bool))
def test_joining_is_the_inverse_of_splitting(text: str, by: str) -> None:
    """For any text and separator."""
    assert STD.join(CALL, list=STD.split(CALL, text, by), by=by) == text


@given(st.lists(st.text("abc", max_size=3), min_size=1, max_size=4))
def test_splitting_is_the_inverse_of_joining(texts: list[str]) -> None:
    """Where no element holds the separator."""
    assert STD.split(CALL, STD.join(CALL, list=texts, by=","), ",") == texts


@given(MAP, MAP, MAP, st.booleans())
def test_merging_is_associative_and_the_later_one_wins(one: Any, two: Any, three: Any, deep: bool) -> None:  # noqa: FBT001 - drawn
    """The empty mapping changes nothing, and a mapping merged with itself is itself."""

    def merge(*maps: Any) -> Any:
        return STD.merge(CALL, list(maps), deep=deep)

    assert merge(one, {}) == merge({}, one) == merge(one, one) == merge(one) == one
    assert deep or merge(merge(one, two), three) == merge(one, merge(two, three)) == merge(one, two, three)
    both = merge(one, two)
    assert list(both) == [*one, *(key for key in two if key not in one)]
    assert all(both[key] == two[key] for key in two if not (deep and type(one.get(key)) is dict))


@given(MAP)
def test_keys_and_values_make_the_mapping(mapping: Any) -> None:
    """In the order written; ``zip`` pairs them."""
    pairs = STD.zip(CALL, [STD.keys(CALL, map=mapping), STD.values(CALL, map=mapping)])
    assert {key: value for key, value in pairs} == mapping  # noqa: C416 - a pair is a list
    assert STD.length(CALL, mapping) == len(pairs)
    assert all(STD.contains(CALL, **{"in": mapping, "item": key}) for key in mapping)


@given(st.lists(LIST, max_size=4))
def test_concatenating_is_flattening(lists: Any) -> None:
    """A list of lists has the same elements both ways, and as many as all of them."""
    assert STD.concat(CALL, lists) == STD.flatten(CALL, list=lists)
    assert STD.length(CALL, STD.concat(CALL, lists)) == sum(map(len, lists))


@given(st.lists(NUMBER) | st.lists(TEXT) | st.lists(st.booleans()))
def test_sorting_keeps_the_elements_and_is_idempotent(elements: Any) -> None:
    """Neighbours are in order; texts by code point."""
    ordered = STD.sort(CALL, list=elements)
    assert Counter(ordered) == Counter(elements)
    assert all(one <= second for one, second in pairwise(ordered))
    assert STD.sort(CALL, list=ordered) == ordered


@given(LIST)
def test_unique_keeps_the_first_of_equal_elements(elements: Any) -> None:
    """Nothing is repeated, nothing is lost, the order stays; 1, 1.0, true and "1" differ."""
    unique = STD.unique(CALL, list=elements)
    assert STD.unique(CALL, list=unique + elements) == unique
    assert all(STD.contains(CALL, **{"in": unique, "item": item}) for item in elements)
    assert [repr(item) for item in unique] == list(dict.fromkeys(repr(item) for item in unique))
    assert STD.unique(CALL, list=[1, 1.0, True, "1", 1]) == [1, 1.0, True, "1"]


@given(LIST | TEXT, st.integers(-6, 6))
def test_two_slices_make_the_whole(of: Any, at: int) -> None:
    """Of a list and of a text, also counted from the end."""
    assert STD.slice(CALL, of, 0, at) + STD.slice(CALL, of, at or 0) == of


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_a_range_is_that_of_python(start: int, stop: int, step: int) -> None:
    """The stop is excluded, a negative step counts down."""
    assert STD.range(CALL, start, stop, step) == list(range(start, stop, step))


@given(DATA)
@example("\x7f\x85\ufeff")
@example({"a": "\x85\n"})
def test_json_and_yaml_are_read_as_they_were_written(written: Any) -> None:
    """Also by PyYAML, whose version of YAML is 1.1."""
    text = STD.to_yaml(CALL, written)
    assert repr(STD.from_json(CALL, STD.to_json(CALL, written))) == repr(written)
    assert repr(STD.from_yaml(CALL, text)) == repr(written)
    assert repr(yaml.safe_load(text)) == repr(written)


@given(TEXT, NUMBER)
def test_encodings_have_inverses(text: str, number: int) -> None:
    """Base64 and decimal digits."""
    assert STD.base64_decode(CALL, STD.base64_encode(CALL, text)) == text
    assert STD.to_integer(CALL, STD.to_text(CALL, number)) == number
    assert STD.sha256(CALL, text) == hashlib.sha256(text.encode()).hexdigest()


@given(st.text("ab.*", max_size=8), st.text("ab.*", min_size=1, max_size=2), st.text("xy\\", max_size=3))
def test_a_literal_replacement_is_that_of_the_escaped_expression(text: str, old: str, new: str) -> None:
    """Without ``regex`` no character is special, in ``from`` and in ``to``."""
    plain = STD.replace(CALL, **{"text": text, "from": old, "to": new, "regex": False})
    assert plain == re.sub(re.escape(old), lambda _match: new, text)


@given(st.dictionaries(st.text("ab{}", max_size=3), SCALAR.filter(lambda item: item is not None), max_size=3))
def test_formatting_fills_in_each_name(values: Any) -> None:
    """A doubled brace is a literal one."""
    names = [name for name in values if not {"{", "}"} & set(name)]
    text = "{{" + "|".join(f"{{{name}}}" for name in names) + "}}"
    assert STD.format(CALL, text, values) == "{" + "|".join(expression.text_of(values[name]) for name in names) + "}"


@given(MAP, st.data())
def test_a_path_leads_where_its_keys_do(mapping: Any, data: st.DataObject) -> None:
    """A path of quoted keys and indices, of any part of the data."""
    keys, part = list[Any](), mapping
    while part and type(part) in {dict, list} and data.draw(st.booleans()):
        keys.append(data.draw(st.sampled_from(list(part) if type(part) is dict else [*range(len(part)), -1])))
        part = part[keys[-1]]
    path = "".join(f"[{key}]" if type(key) is int else "['{}']".format(key.replace("'", "''")) for key in keys)
    if path:
        assert STD.lookup(CALL, **{"in": mapping, "path": path}) == part
    assert STD.lookup(CALL, **{"in": mapping, "path": f"{path}['']", "default": 7}) == 7


@pytest.mark.parametrize(
    "path", ["/", "//", "/a", "a", "a/", "/a/b", "/a//b//", "a/b/", ".", "..", "/..", "a b/c", "///a"]
)
def test_parts_of_paths_are_those_of_the_programs(path: str) -> None:
    """``basename`` and ``dirname`` of the shell."""
    shell = [subprocess.check_output([name, "--", path], text=True)[:-1] for name in ("basename", "dirname")]
    assert [STD.basename(CALL, path), STD.dirname(CALL, path)] == shell


@given(st.ip_addresses(), st.integers(0, 128), st.integers(-(2**130), 2**130))
def test_a_network_contains_its_addresses(address: Any, prefix: int, number: int) -> None:
    """The numbers count from the network's own address, negative ones from the last."""
    network = ipaddress.ip_network((address, min(prefix, address.max_prefixlen)), strict=False)
    number %= network.num_addresses
    host = STD.cidr_host(CALL, str(network), number)
    assert STD.cidr_contains(CALL, str(network), host)
    assert STD.cidr_contains(CALL, str(network), str(network))
    assert int(ipaddress.ip_address(host)) - int(network.network_address) == number
    assert STD.cidr_host(CALL, str(network), number - network.num_addresses) == host


#: In ascending order, from semver.org.
VERSIONS: Final = (
    *("0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"),
    *("1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0"),
)


@given(st.integers(0, len(VERSIONS) - 1), st.integers(0, len(VERSIONS) - 1), st.sampled_from(["", "+build.7"]))
def test_versions_are_in_the_order_of_semantic_versioning(one: int, second: int, build: str) -> None:
    """Numbers by value, pre-releases before their release; a build makes no difference."""
    assert STD.semver_compare(CALL, VERSIONS[one] + build, VERSIONS[second]) == (one > second) - (one < second)
