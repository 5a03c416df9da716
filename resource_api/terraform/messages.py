"""The messages of Terraform's plugin protocol, versions 5 and 6, by field numbers, in protobuf's wire format.

Sources: ``tfplugin5.proto`` and ``tfplugin6.proto`` to 6.11, and the encoding of protobuf 3. The table has the fields
that a client needs; others are skipped when they come, so newer minor versions of the protocol work. The two versions
differ in names of methods and in nothing else that is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A decoded message: field → value; a repeated field is a list, a map a dict, an absent one of them is empty.
Message: TypeAlias = dict[str, Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_WORD: Final = (1 << 64) - 1
#: A byte of a varint: seven bits of the number, and whether another byte follows; ten of them at most.
_BITS, _MORE, _LONGEST_VARINT = 0x7F, 0x80, 10

#: Message, then its fields as ``name=number:kind``; ``*`` repeated, ``<`` a map from texts.
_TABLE: Final = """
DynamicValue msgpack=1:bytes json=2:bytes
Step attribute_name=1:str element_key_string=2:str element_key_int=3:int
AttributePath steps=1:*Step
Diagnostic severity=1:int summary=2:str detail=3:str attribute=4:AttributePath
RawState json=1:bytes
Attribute name=1:str type=2:bytes nested_type=10:Object description=3:str required=4:bool optional=5:bool\
 computed=6:bool sensitive=7:bool deprecated=9:bool write_only=11:bool
Object attributes=1:*Attribute nesting=3:int
NestedBlock type_name=1:str block=2:Block nesting=3:int min_items=4:int max_items=5:int
Block version=1:int attributes=2:*Attribute block_types=3:*NestedBlock description=4:str deprecated=6:bool
Schema version=1:int block=2:Block
Parameter name=1:str type=2:bytes allow_null_value=3:bool allow_unknown_values=4:bool description=5:str
Return type=1:bytes
Function parameters=1:*Parameter variadic_parameter=2:Parameter return=3:Return summary=4:str description=5:str
ServerCapabilities plan_destroy=1:bool get_provider_schema_optional=2:bool move_resource_state=3:bool
ClientCapabilities deferral_allowed=1:bool write_only_attributes_allowed=2:bool
Deferred reason=1:int
FunctionError text=1:str function_argument=2:int
IdentityAttribute name=1:str type=2:bytes required_for_import=3:bool optional_for_import=4:bool description=5:str
IdentitySchema version=1:int identity_attributes=2:*IdentityAttribute
Identity identity_data=1:DynamicValue
ImportedResource type_name=1:str state=2:DynamicValue private=3:bytes identity=4:Identity
Empty
SchemaResponse provider=1:Schema resource_schemas=2:<Schema data_source_schemas=3:<Schema diagnostics=4:*Diagnostic\
 provider_meta=5:Schema server_capabilities=6:ServerCapabilities functions=7:<Function\
 ephemeral_resource_schemas=8:<Schema list_resource_schemas=9:<Schema
IdentitiesResponse identity_schemas=1:<IdentitySchema diagnostics=2:*Diagnostic
ConfigRequest config=1:DynamicValue
PreparedResponse prepared_config=1:DynamicValue diagnostics=2:*Diagnostic
ConfigureRequest terraform_version=1:str config=2:DynamicValue client_capabilities=3:ClientCapabilities
DiagnosticsResponse diagnostics=1:*Diagnostic
ValidateRequest type_name=1:str config=2:DynamicValue client_capabilities=3:ClientCapabilities
UpgradeRequest type_name=1:str version=2:int raw_state=3:RawState
UpgradeResponse upgraded_state=1:DynamicValue diagnostics=2:*Diagnostic
ReadRequest type_name=1:str current_state=2:DynamicValue private=3:bytes client_capabilities=5:ClientCapabilities\
 current_identity=6:Identity
ReadResponse new_state=1:DynamicValue diagnostics=2:*Diagnostic private=3:bytes deferred=4:Deferred\
 new_identity=5:Identity
PlanRequest type_name=1:str prior_state=2:DynamicValue proposed_new_state=3:DynamicValue config=4:DynamicValue\
 prior_private=5:bytes client_capabilities=7:ClientCapabilities prior_identity=8:Identity
PlanResponse planned_state=1:DynamicValue requires_replace=2:*AttributePath planned_private=3:bytes\
 diagnostics=4:*Diagnostic legacy_type_system=5:bool deferred=6:Deferred planned_identity=7:Identity
ApplyRequest type_name=1:str prior_state=2:DynamicValue planned_state=3:DynamicValue config=4:DynamicValue\
 planned_private=5:bytes planned_identity=7:Identity
ApplyResponse new_state=1:DynamicValue private=2:bytes diagnostics=3:*Diagnostic legacy_type_system=4:bool\
 new_identity=5:Identity
ImportRequest type_name=1:str id=2:str client_capabilities=3:ClientCapabilities identity=4:Identity
ImportResponse imported_resources=1:*ImportedResource diagnostics=2:*Diagnostic deferred=3:Deferred
MoveRequest source_provider_address=1:str source_type_name=2:str source_schema_version=3:int source_state=4:RawState\
 target_type_name=5:str source_private=6:bytes
MoveResponse target_state=1:DynamicValue diagnostics=2:*Diagnostic target_private=3:bytes
DataRequest type_name=1:str config=2:DynamicValue client_capabilities=4:ClientCapabilities
DataResponse state=1:DynamicValue diagnostics=2:*Diagnostic deferred=3:Deferred
OpenRequest type_name=1:str config=2:DynamicValue client_capabilities=3:ClientCapabilities
OpenResponse diagnostics=1:*Diagnostic result=3:DynamicValue private=4:bytes deferred=5:Deferred
CloseRequest type_name=1:str private=2:bytes
ListRequest type_name=1:str config=2:DynamicValue include_resource_object=3:bool limit=4:int
ListEvent identity=1:Identity display_name=2:str resource_object=3:DynamicValue diagnostic=4:*Diagnostic
CallRequest name=1:str arguments=2:*DynamicValue
CallResponse result=1:DynamicValue error=2:FunctionError
StopResponse Error=1:str
"""

#: Method, then its names in protocol 5 and 6, the messages of its request and its response.
_METHODS: Final = """
schema GetSchema GetProviderSchema Empty SchemaResponse
identities GetResourceIdentitySchemas GetResourceIdentitySchemas Empty IdentitiesResponse
check_config PrepareProviderConfig ValidateProviderConfig ConfigRequest PreparedResponse
configure Configure ConfigureProvider ConfigureRequest DiagnosticsResponse
validate ValidateResourceTypeConfig ValidateResourceConfig ValidateRequest DiagnosticsResponse
validate_data ValidateDataSourceConfig ValidateDataResourceConfig ValidateRequest DiagnosticsResponse
upgrade UpgradeResourceState UpgradeResourceState UpgradeRequest UpgradeResponse
read ReadResource ReadResource ReadRequest ReadResponse
plan PlanResourceChange PlanResourceChange PlanRequest PlanResponse
apply ApplyResourceChange ApplyResourceChange ApplyRequest ApplyResponse
import ImportResourceState ImportResourceState ImportRequest ImportResponse
move MoveResourceState MoveResourceState MoveRequest MoveResponse
data ReadDataSource ReadDataSource DataRequest DataResponse
validate_ephemeral ValidateEphemeralResourceConfig ValidateEphemeralResourceConfig ValidateRequest DiagnosticsResponse
open OpenEphemeralResource OpenEphemeralResource OpenRequest OpenResponse
close CloseEphemeralResource CloseEphemeralResource CloseRequest DiagnosticsResponse
list ListResource ListResource ListRequest ListEvent
call CallFunction CallFunction CallRequest CallResponse
stop Stop StopProvider Empty StopResponse
"""


class Field(NamedTuple):
    """A field of a message: ``kind`` is int, bool, bytes, str or a message; ``container``, see ``_TABLE``, or ""."""

    name: str
    number: int
    kind: str
    container: str


class Method(NamedTuple):
    """A method of a provider: its path for a version of the protocol, and its messages."""

    names: tuple[str, str]
    request: str
    response: str

    def path(self, version: int) -> str:
        """Return the path of the method in protocol 5 or 6."""
        return f"/tfplugin{version}.Provider/{self.names[version - 5]}"


def _field(text: str) -> Field:
    """Return the field of a word of ``_TABLE``, in which the protocol's messages are declared.

    ``attributes=2:*Attribute`` is field 2, a list of messages ``Attribute``; ``<`` in place of ``*`` means a map.
    """
    name, _, rest = text.partition("=")
    number, _, kind = rest.partition(":")
    return Field(name, int(number), kind.lstrip("*<"), kind[0] if kind[0] in "*<" else "")


_ROWS: Final = [line.split() for line in _TABLE.strip().splitlines()]
#: Message → field's name, or number, → field.
MESSAGES: Final = {name: {field.name: field for field in map(_field, fields)} for name, *fields in _ROWS}
_BY_NUMBER: Final = {name: {field.number: field for field in fields.values()} for name, fields in MESSAGES.items()}
METHODS: Final = {
    name: Method((five, six), request, response)
    for name, five, six, request, response in map(str.split, _METHODS.strip().splitlines())
}


class MessageMap(Mapping[str, Message]):
    """A map of messages, each decoded at its first use: the schema of a large provider has thousands."""

    def __init__(self, kind: str) -> None:
        """Begin without messages, which are decoded as messages of this ``kind``."""
        self._kind = kind
        #: Key → its message in wire format, and decoded.
        self._encoded: dict[str, bytes] = {}
        self._decoded: dict[str, Message] = {}

    def add(self, content: int | bytes) -> None:
        """Add an entry of a map in wire format, whose message stays encoded. Raise ``ValueError`` for other bytes.

        As protobuf demands, a later entry replaces an earlier one with the same key.
        """
        # a message itself, with the key as field 1 and the value as field 2
        entry = dict(_fields(content)) if isinstance(content, bytes) else {}
        encoded = entry.get(2, b"")
        if isinstance(encoded, int):
            msg = "a message of the protocol has a field of another kind"
            raise ValueError(msg)  # noqa: TRY004 - as for all damaged messages
        key = _decode_value("str", entry.get(1, b""))
        self._encoded[key] = encoded
        self._decoded.pop(key, None)

    def __getitem__(self, key: str) -> Message:
        """Return a key's message, decoded at first use. Raise ``KeyError``, and ``ValueError`` for damaged bytes."""
        if key not in self._decoded:
            self._decoded[key] = decode(self._kind, self._encoded[key])
        return self._decoded[key]

    def __contains__(self, key: object) -> bool:
        """Return whether there is a message, which is not decoded for that."""
        return key in self._encoded

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all messages."""
        return iter(self._encoded)

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._encoded)

    def __repr__(self) -> str:
        """Show the messages."""
        return repr(dict(self))


def encode(message: str, values: Message) -> bytes:
    """Return a message in protobuf's wire format; a field that is None is left out.

    >>> encode("Step", {"attribute_name": "id", "element_key_int": 2}).hex()
    '0a0269641802'
    """
    encoded = bytearray()
    for name, value in values.items():
        field = MESSAGES[message][name]
        for item in _items(field, value) if value is not None else ():
            encoded += _encode_field(field, item)
    return bytes(encoded)


def _items(field: Field, value: Any) -> Iterable[Any]:
    """Return the values of a field that are encoded one by one: a map's pairs, a list's members, or the only value."""
    if field.container == "<":
        return value.items()  # type: ignore[no-any-return]
    return value if field.container else [value]


def _encode_field(field: Field, value: Any) -> bytes:
    """Return one value of a field in the encoding of Protocol Buffers; of a map, a pair."""
    if field.container == "<":
        key, member = value
        return _delimited(field.number, _delimited(1, key.encode()) + _delimited(2, encode(field.kind, member)))
    if field.kind in {"int", "bool"}:
        return _encode_varint(field.number << 3 | _VARINT) + _encode_varint(int(value))
    content = value if field.kind == "bytes" else value.encode() if field.kind == "str" else encode(field.kind, value)
    return _delimited(field.number, content)


def _delimited(number: int, content: bytes) -> bytes:
    """Return a field of bytes: its tag, the length and the bytes."""
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    """Return an integer in protobuf's variable length: seven bits a byte, the lowest first, in two's complement."""
    number &= _WORD
    groups = bytearray()
    while number > _BITS:
        groups.append(number & _BITS | _MORE)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def decode(message: str, data: bytes) -> Message:
    """Return the fields of a message in wire format. Raise ``ValueError`` for other bytes.

    >>> decode("Step", bytes.fromhex("0a0269641802"))
    {'attribute_name': 'id', 'element_key_int': 2}
    """
    fields = _BY_NUMBER[message]
    values: Message = {}
    for field in fields.values():
        if field.container:
            values[field.name] = [] if field.container == "*" else MessageMap(field.kind)
    for number, content in _fields(data):
        # A newer minor version of the protocol has more fields.
        if number not in fields:
            continue
        field = fields[number]
        if field.container == "<":
            values[field.name].add(content)
        elif field.container == "*":
            values[field.name].append(_decode_value(field.kind, content))
        else:
            values[field.name] = _decode_value(field.kind, content)
    return values


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Return the number and the content of each field. Raise ``ValueError`` for a damaged message.

    A field begins with a tag: its number, and in the lowest three bits the kind of its encoding. Fields of a fixed size
    are skipped, because ``_TABLE`` has none: they can only be those of a newer protocol.
    """
    fields: list[tuple[int, int | bytes]] = []
    position = 0
    while position < len(data):
        tag, position = _decode_varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, position = _decode_varint(data, position)
            fields.append((tag >> 3, number))
            continue
        size = _FIXED_SIZES.get(wire_type)
        if wire_type == _BYTES:
            size, position = _decode_varint(data, position)
        if size is None or position + size > len(data):
            raise ValueError("a message of the protocol is damaged")
        if wire_type == _BYTES:
            fields.append((tag >> 3, data[position : position + size]))
        position += size
    return fields


def _decode_value(kind: str, content: int | bytes) -> Any:
    """Return the value of a field of this ``kind`` from a number or bytes. Raise ``ValueError`` for another form."""
    if isinstance(content, int) is not (kind in {"int", "bool"}):
        raise ValueError("a message of the protocol has a field of another kind")
    if kind == "bool":
        return bool(content)
    if isinstance(content, int):
        is_negative = content >> 63  # the highest bit of two's complement
        return content - (_WORD + 1) if is_negative else content
    if kind == "str":
        return content.decode()
    return content if kind == "bytes" else decode(kind, content)


def _decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an integer of protobuf's variable length, and the position after it. Raise ``ValueError`` if endless."""
    number = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        number |= (byte & _BITS) << 7 * index
        if byte < _MORE:
            return number & _WORD, position + index + 1
    raise ValueError("a message of the protocol is damaged")
