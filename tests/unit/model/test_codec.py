"""The laws of the codec: every value is restored from JSON, and no secret is encoded in clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model import codec
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.sealed_secrets import digest_secret, seal_secrets
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
def test_every_value_is_restored(value: Any) -> None:
    """For any nesting and any keys of a user's mapping."""
    text = codec.encode(value)
    assert same_value(codec.decode(text), value)
    assert codec.encode(codec.decode(text)) == text


@given(st.lists(VALUES | st.lists(st.just("\0") | st.lists(st.just("\0"))) | st.just(',"\0",')))
def test_values_encoded_together_are_encoded_as_each_alone(values: list[Any]) -> None:
    """Also values that contain the separator."""
    assert codec.encode_all(values) == list(map(codec.encode, values))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_values_of_every_data_type_are_restored(kind: str, data: st.DataObject) -> None:
    """Every value that a data type accepts can be encoded, its secrets sealed."""
    datatype = datatypes.parse(kind)
    value = data.draw(examples.values(datatype).filter(datatype.accepts))
    stored = seal_secrets(Sensitive(value) if datatype.sensitive else value, SALT)
    assert same_value(codec.decode(codec.encode(stored)), stored)


@given(VALUES)
def test_a_secret_is_encoded_as_its_digest(value: Any) -> None:
    """JSON has a digest in its place, which is equal for equal secrets only."""
    stored = seal_secrets({"a": [Sensitive(value)], "b": 1}, SALT)
    text = codec.decode(codec.encode(stored))
    assert text == stored
    assert text["a"] == [digest_secret(value, SALT)]
    assert text["a"] != [digest_secret([value], SALT)]


@given(VALUES, st.booleans())
def test_unknown_values_and_secrets_in_clear_are_never_encoded(value: Any, unknown: bool) -> None:  # noqa: FBT001 - drawn
    """They are refused at any depth."""
    bad = UNKNOWN if unknown else Sensitive(value)
    for nested in (bad, [value, bad], {"a": {"b": bad}}):
        with pytest.raises(TypeError, match="cannot be kept"):
            codec.encode(nested)
        with pytest.raises(TypeError, match="cannot be kept"):
            codec.check_encodable(nested)


def test_json_contains_kind_digest_and_origin_of_an_asset() -> None:
    """State and plans contain the whole digest, the content of a text, and no content of a file."""
    inner = Asset("a" * 64, "text", "hi")
    encoded = json.loads(codec.encode(Archive("b" * 64, "files", (("x", inner),))))
    assert encoded == {
        "$resource_api": "archive",
        "sha256": "b" * 64,
        "files": [["x", {"$resource_api": "asset", "sha256": "a" * 64, "text": "hi"}]],
    }
