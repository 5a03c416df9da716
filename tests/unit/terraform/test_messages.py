"""The codec of Terraform's protocol beside protobuf's own library, for every message of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from resource_api.terraform.messages import MESSAGES, METHODS, Field, decode, encode

if TYPE_CHECKING:
    from google.protobuf.message import Message

_KINDS: Final = {"int": 3, "bool": 8, "str": 9, "bytes": 12}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def protobuf_classes() -> dict[str, type[Message]]:
    """Return the classes that protobuf makes of the table."""
    file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="test", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.values():
            row = message.field.add(
                name=field.name, number=field.number, label=_REPEATED if field.container else _OPTIONAL
            )
            kind = field.kind
            if field.container == "<":
                kind = f"{name}.{field.name.title().replace('_', '')}Entry"
                entry = message.nested_type.add(name=kind.partition(".")[2])
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=_OPTIONAL, type=_KINDS["str"])
                entry.field.add(name="value", number=2, label=_OPTIONAL, type=_MESSAGE, type_name=f".test.{field.kind}")
            if kind in _KINDS:
                row.type = _KINDS[kind]
            else:
                row.type, row.type_name = _MESSAGE, f".test.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{name}")) for name in MESSAGES}


CLASSES: Final = protobuf_classes()
_SCALARS: Final = {
    "int": st.integers(-(1 << 63), (1 << 63) - 1),
    "bool": st.booleans(),
    "str": st.text(),
    "bytes": st.binary(),
}


def values(name: str, depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for the fields of a message, nested to a depth."""
    fields = [field for field in MESSAGES[name].values() if depth or field.kind in _SCALARS]
    return st.fixed_dictionaries({}, optional={field.name: _field(field, depth) for field in fields})


def _field(field: Field, depth: int) -> st.SearchStrategy[Any]:
    value = _SCALARS[field.kind] if field.kind in _SCALARS else values(field.kind, depth - 1)
    if field.container == "<":
        return st.dictionaries(st.text(), value, max_size=2)
    return st.lists(value, max_size=2) if field.container else value


def fill(message: Any, name: str, content: dict[str, Any]) -> None:
    """Set the fields of a message of protobuf."""
    for key, value in content.items():
        field, target = MESSAGES[name][key], getattr(message, key)
        if field.container == "<":
            for entry, member in value.items():
                target[entry].SetInParent()
                fill(target[entry], field.kind, member)
        elif field.container and field.kind not in _SCALARS:
            for member in value:
                fill(target.add(), field.kind, member)
        elif field.container:
            target.extend(value)
        elif field.kind in _SCALARS:
            setattr(message, key, value)
        else:
            target.SetInParent()
            fill(target, field.kind, value)


def with_empty_containers(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return content as it is decoded: missing lists and maps are empty."""
    fields = MESSAGES[name]
    decoded: dict[str, Any] = {
        field.name: [] if field.container == "*" else {} for field in fields.values() if field.container
    }
    for key, value in content.items():
        kind = fields[key].kind
        if kind in _SCALARS:
            decoded[key] = value
        elif fields[key].container == "<":
            decoded[key] = {entry: with_empty_containers(kind, member) for entry, member in value.items()}
        elif fields[key].container:
            decoded[key] = [with_empty_containers(kind, member) for member in value]
        else:
            decoded[key] = with_empty_containers(kind, value)
    return decoded


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_protobuf_reads_what_is_encoded_and_the_codec_what_protobuf_writes(name: str, data: st.DataObject) -> None:
    """Every field of every message, in both directions."""
    content = data.draw(values(name))
    message = CLASSES[name]()
    fill(message, name, content)
    assert CLASSES[name].FromString(encode(name, content)) == message
    assert decode(name, message.SerializeToString()) == with_empty_containers(name, content)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """Damaged bytes raise ``ValueError`` and nothing else."""
    for name in ("SchemaResponse", "PlanResponse"):
        try:
            decode(name, data)
        except ValueError:
            continue


def test_unknown_fields_are_skipped() -> None:
    """Fields of newer versions, of each wire type, change nothing."""
    data = encode("Step", {"attribute_name": "id"})
    newer = b"\xf8\x01\x05" + b"\xf9\x01" + bytes(8) + b"\xfa\x01\x02ab" + b"\xfd\x01" + bytes(4)
    assert decode("Step", newer + data) == {"attribute_name": "id"}


def test_each_method_has_a_path_in_both_versions() -> None:
    """The two protocols name some methods differently."""
    assert METHODS["schema"].path(5) == "/tfplugin5.Provider/GetSchema"
    assert METHODS["schema"].path(6) == "/tfplugin6.Provider/GetProviderSchema"
    assert {message for method in METHODS.values() for message in (method.request, method.response)} <= set(MESSAGES)


def test_a_schema_is_decoded_when_its_type_is_asked_for() -> None:
    """A damaged one is no obstacle to the others; their names are known."""
    schema = encode("Schema", {"version": 3, "block": {"description": "x"}})
    entries = [(b"good", schema), (b"bad", b"\x0a\xff")]
    rows = [b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(body)]) + body for name, body in entries]
    decoded = decode("SchemaResponse", b"".join(b"\x12" + bytes([len(row)]) + row for row in rows))
    schemas = decoded["resource_schemas"]
    assert (list(schemas), len(schemas), "bad" in schemas, "other" in schemas) == (["good", "bad"], 2, True, False)
    assert schemas["good"]["version"] == 3
    with pytest.raises(ValueError, match="damaged"):
        schemas["bad"]
