"""Every kind of value comes back from JSON as it went there, and nothing goes there in clear or unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model import codec
from resource_api.model.datatypes import build as datatypes
from resource_api.model.values.assets import Archive, Asset
from resource_api.model.values.values import UNKNOWN, Sensitive, same_value
from resource_api.testing import examples

SALT = b"salt"
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
ASSETS = st.builds(Asset, DIGESTS) | st.builds(Asset, DIGESTS, st.sampled_from(["text", "file", "url"]), st.text())
FILES = st.dictionaries(st.text(), ASSETS, max_size=3).map(lambda files: tuple(sorted(files.items())))
ARCHIVES = st.builds(Archive, DIGESTS, st.sampled_from(["file", "directory"]), st.text()) | st.builds(
    Archive, DIGESTS, st.just("files"), FILES
)
KEYS = st.text() | st.sampled_from(["$resource_api", "$$resource_api", "sha256", "digest"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
LEAVES = PLAIN | ASSETS | ARCHIVES | st.sampled_from(["sealed", "asset"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)
KINDS = [
    *("Any", "Data", "Undef", "String", "Integer", "Float", "Numeric", "Boolean", "Scalar", "Regexp", "Timestamp"),
    *("Timespan", "Asset", "Archive", "Enum[a, b]", "Pattern[/^a/]", "Optional[Asset]", "Variant[String, Archive]"),
    *(
        "NotUndef[Integer]",
        "Reference[disk]",
        "Array[Asset]",
        "Tuple[String, Asset]",
        "Hash[String, Variant[Asset, Float]]",
    ),
    *("Struct[{a => Archive, b => Optional[Asset]}]", "Sensitive[String]", "Array[Sensitive[Asset]]"),
]


@given(VALUES)
def test_every_value_comes_back(value: Any) -> None:
    """Whatever is nested in what, and whatever keys a user's mapping has."""
    text = codec.encode(value)
    assert same_value(codec.decode(text), value)
    assert codec.encode(codec.decode(text)) == text


@given(st.lists(VALUES | st.lists(st.just("\0") | st.lists(st.just("\0"))) | st.just(',"\0",')))
def test_many_values_are_spelled_as_each_is(values: list[Any]) -> None:
    """Also those that hold what stands between two of them while they are spelled together."""
    assert codec.encode_all(values) == list(map(codec.encode, values))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_data_type_comes_back(kind: str, data: st.DataObject) -> None:
    """What a data type accepts can be kept, its secrets sealed."""
    datatype = datatypes.parse(kind)
    value = data.draw(examples.values(datatype).filter(datatype.accepts))
    kept = codec.seal_secrets(Sensitive(value) if datatype.sensitive else value, SALT)
    assert same_value(codec.decode(codec.encode(kept)), kept)


@given(VALUES)
def test_a_secret_is_kept_sealed(value: Any) -> None:
    """In JSON there is a digest in its place, which is the same for the same secret alone."""
    kept = codec.seal_secrets({"a": [Sensitive(value)], "b": 1}, SALT)
    found = codec.decode(codec.encode(kept))
    assert found == kept
    assert found["a"] == [codec.digest_secret(value, SALT)]
    assert found["a"] != [codec.digest_secret([value], SALT)]


@given(VALUES, st.booleans())
def test_an_unknown_and_a_secret_in_clear_are_never_kept(value: Any, unknown: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever they are nested in, they are refused."""
    bad = UNKNOWN if unknown else Sensitive(value)
    for nested in (bad, [value, bad], {"a": {"b": bad}}):
        with pytest.raises(TypeError, match="cannot be kept"):
            codec.encode(nested)
        with pytest.raises(TypeError, match="cannot be kept"):
            codec.check_encodable(nested)


def test_a_sealed_asset_is_told_by_its_content_alone() -> None:
    """The same bytes from another place are the same secret."""
    one, two, other = Asset("a" * 64, "file", "x"), Asset("a" * 64, "text", "y"), Asset("b" * 64, "file", "x")
    assert codec.digest_secret(one, SALT) == codec.digest_secret(two, SALT) != codec.digest_secret(other, SALT)


def test_json_says_what_an_asset_is_and_where_it_comes_from() -> None:
    """State and plans name the digest in full; a text is told, a file's content is not."""
    inner = Asset("a" * 64, "text", "hi")
    told = json.loads(codec.encode(Archive("b" * 64, "files", (("x", inner),))))
    assert told == {
        "$resource_api": "archive",
        "sha256": "b" * 64,
        "files": [["x", {"$resource_api": "asset", "sha256": "a" * 64, "text": "hi"}]],
    }
