"""Schemas of a Terraform provider: the fields of its blocks, the types made of them, configurations, schemas as JSON.

One type is made for each resource, and one has the data sources and functions. A field called like an attribute that
each of these types has gets a trailing underscore. A configuration has every attribute, None where nothing is declared,
and empty collections for missing blocks. The JSON has the format of ``terraform providers schema -json``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import Function, TypeDefinition
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.terraform import cty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.terraform.messages import Message

#: Nesting modes by their numbers in the protocol.
_NESTING: Final = {1: "single", 2: "list", 3: "set", 4: "map", 5: "group"}
#: The value of a nested block that is not declared, by nesting mode.
_EMPTY: Final[Mapping[str, object]] = {"list": [], "set": [], "map": {}}
_FLAGS: Final = ("required", "optional", "computed", "sensitive", "deprecated", "write_only")
#: Kinds of schemas, as the protocol and the format call them.
_KINDS: Final = ("resource_schemas", "data_source_schemas", "ephemeral_resource_schemas", "list_resource_schemas")
#: The namevar of each type: a resource of Terraform has no name before it is created.
NAMEVAR: Final = "terraform_name"
_FEATURES: Final = frozenset(
    {
        *("simple_get_filter", "validate", "canonicalize", "custom_insync", "plan", "import"),
        *("moved_from_types", "not_rehearsable"),
    }
)
_SCALARS: Final = {"string": "String", "number": "Numeric", "bool": "Boolean", "dynamic": "Data"}
#: The data type of an object without members.
_EMPTY_OBJECT: Final = "Hash[String, Any, 0, 0]"
#: The attributes that each type has beside the fields of its schema.
_TAKEN: Final = frozenset({"ensure", NAMEVAR})


class SchemaField(NamedTuple):
    """An attribute or a nested block of a block; ``members`` are those of a nested one, with ``nesting``."""

    name: str
    type: cty.Type
    docs: str = ""
    required: bool = False
    optional: bool = False
    computed: bool = False
    sensitive: bool = False
    write_only: bool = False
    is_block: bool = False
    nesting: str = ""
    members: Mapping[str, SchemaField] = {}
    min_items: int = 0
    max_items: int = 0

    @property
    def is_declarable(self) -> bool:
        """Whether a manifest can declare it; otherwise only the provider sets it."""
        return self.required or self.optional or self.is_block


def fields_of_block(block: Message) -> dict[str, SchemaField]:
    """Return the attributes and nested blocks of a block by name."""
    attributes = [_attribute(attribute) for attribute in block.get("attributes", ())]
    blocks = [_nested_block(nested) for nested in block.get("block_types", ())]
    return {field.name: field for field in (*attributes, *blocks)}


def fields_of_resource(block: Message) -> dict[str, SchemaField]:
    """Return the fields of a resource; the ``id`` that the SDK for programs adds to each cannot be declared.

    The SDK calls that optional, but refuses it in a configuration. A resource's own ``id`` has a description.
    """
    fields = fields_of_block(block)
    identifier = fields.get("id")
    if identifier is not None and identifier.optional and identifier.computed and not identifier.docs:
        fields["id"] = identifier._replace(optional=False)
    return fields


def _attribute(attribute: Message) -> SchemaField:
    """Return the field for an attribute of a schema; one of a nested type has members."""
    names = ("required", "optional", "computed", "sensitive", "write_only")
    flags: dict[str, Any] = {name: bool(attribute.get(name)) for name in names}
    docs = attribute.get("description", "")
    if "nested_type" not in attribute:
        return SchemaField(attribute["name"], cty.parse_type(attribute["type"]), docs, **flags)
    members = {member["name"]: _attribute(member) for member in attribute["nested_type"]["attributes"]}
    nesting = _NESTING[attribute["nested_type"]["nesting"]]
    kind = _nested_type(members, nesting)
    return SchemaField(attribute["name"], kind, docs, **flags, nesting=nesting, members=members)


def _nested_block(nested: Message) -> SchemaField:
    """Return the field for a nested block of a schema, with its members and their least and largest number."""
    block, nesting = nested.get("block", {}), _NESTING[nested["nesting"]]
    members = fields_of_block(block)
    return SchemaField(
        nested["type_name"],
        _nested_type(members, nesting),
        block.get("description", ""),
        required=nested.get("min_items", 0) > 0,
        is_block=True,
        nesting=nesting,
        members=members,
        min_items=nested.get("min_items", 0),
        max_items=nested.get("max_items", 0),
    )


def _nested_type(members: Mapping[str, SchemaField], nesting: str) -> cty.Type:
    """Return the type of a nested field: an object, or a collection of objects."""
    inner = object_type(members)
    return inner if nesting in {"single", "group"} else (nesting, inner)


def object_type(fields: Mapping[str, SchemaField]) -> cty.Type:
    """Return the type of a block's values."""
    return "object", {name: field.type for name, field in fields.items()}


def attribute_name(name: str) -> str:
    """Return the attribute's name for a field of the schema, different from those that each type has itself.

    >>> attribute_name("ensure"), attribute_name("size")
    ('ensure_', 'size')
    """
    return f"{name}_" if name in _TAKEN else name


def with_field_names(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of attributes by the names of their fields."""
    return {name[:-1] if name[-1] == "_" and name[:-1] in _TAKEN else name: value for name, value in values.items()}


def resource_type(name: str, schema: Message, config: Mapping[str, SchemaField]) -> TypeDefinition:
    """Return the type of a resource; ``config`` has the fields of the provider's configuration."""
    fields = fields_of_resource(schema["block"])
    attributes = {
        NAMEVAR: Attribute("String[1]", "The name of the resource in the manifest.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        **{attribute_name(field.name): _property(field) for field in fields.values()},
    }
    secrets = {"private_secrets"} if any(map(_is_secret, fields.values())) else set()
    return TypeDefinition(
        name=name,
        docs=schema["block"].get("description") or f"The resource `{name}` of a Terraform provider.",
        attributes=attributes,
        config=config_attributes(config),
        schema_version=schema.get("version", 0) + 1,  # ours begin at 1, Terraform's at 0
        identity="title",
        features=_FEATURES | secrets,
    )


def function_type(name: str, schema: Message, config: Mapping[str, SchemaField]) -> TypeDefinition:
    """Return the type, called like the provider, with its data sources, functions and ephemeral resources.

    A manifest reads or calls each of them by `invoke`, like any function of a type. ``schema``: the provider's;
    ``config``: the fields of its configuration.
    """
    declared = dict[str, Function]()
    for source, row in schema["data_source_schemas"].items():
        docs = f"Read the data source {source}."
        declared[source] = Function(docs, inputs=_inputs(row), output="Hash[String, Any]", keeps_secrets=True)
    for kind, row in schema["ephemeral_resource_schemas"].items():
        docs = f"Open the ephemeral resource {kind}; it is closed at the end of the run."
        declared[ephemeral_function(kind)] = Function(docs, inputs=_inputs(row), output="Sensitive[Hash[String, Any]]")
    declared |= {function: _function(row) for function, row in schema["functions"].items()}
    return TypeDefinition(
        name=name,
        docs=f"The data sources, ephemeral resources and functions of the Terraform provider {name}.",
        functions=declared,
        config=config_attributes(config),
    )


def config_attributes(fields: Mapping[str, SchemaField]) -> dict[str, Attribute]:
    """Return the attributes of a provider's configuration by name."""
    return {attribute_name(field.name): _input(field) for field in fields.values()}


def ephemeral_function(name: str) -> str:
    """Return the function that opens an ephemeral resource, which may be called like a data source."""
    return f"ephemeral_{name}"


def _inputs(schema: Message) -> dict[str, Attribute]:
    """Return the declarable fields of a data source or an ephemeral resource as inputs of a function."""
    fields = fields_of_block(schema["block"]).values()
    return {attribute_name(field.name): _input(field) for field in fields if field.is_declarable}


def _function(schema: Message) -> Function:
    """Return a provider's function with its parameters by name."""
    inputs = {}
    for parameter, kind in parameters(schema):
        inputs[attribute_name(parameter["name"])] = Attribute(data_type(kind), parameter.get("description", ""))
    output = data_type(cty.parse_type(schema["return"]["type"]))
    return Function(schema.get("summary", ""), inputs=inputs, output=output)


def parameters(schema: Message) -> Iterable[tuple[Message, cty.Type]]:
    """Yield the parameters of a function with their types, for its inputs and calls; the variadic one is a list."""
    for parameter in schema["parameters"]:
        yield parameter, cty.parse_type(parameter["type"])
    if variadic := schema.get("variadic_parameter"):
        yield variadic, ("list", cty.parse_type(variadic["type"]))


def _property(field: SchemaField) -> Attribute:
    """Return the attribute of a resource type for a field of the schema: read-only where only the provider sets it."""
    kind = _field_type(field)
    if not field.is_declarable:
        return Attribute(f"Optional[{kind}]", field.docs, kind="read_only")
    return Attribute(kind if field.required else f"Optional[{kind}]", field.docs, write_only=field.write_only)


def _input(field: SchemaField) -> Attribute:
    """Return the attribute of a configuration, or the input of a function, for a field."""
    kind = _field_type(field)
    return Attribute(kind if field.required else f"Optional[{kind}]", field.docs)


def _is_secret(field: SchemaField) -> bool:
    """Whether a field, or one of its members at any depth, is sensitive."""
    return field.sensitive or any(map(_is_secret, field.members.values()))


def _field_type(field: SchemaField) -> str:
    """Return the data type of a field, without regard to whether it is required."""
    kind = _nested_data_type(field) if field.members else data_type(field.type)
    return f"Sensitive[{kind}]" if field.sensitive else kind


def _nested_data_type(field: SchemaField) -> str:
    """Return the data type of a nested field as text: a Struct of its members, or a collection of Structs.

    An example of a list of blocks is ``Array[Struct[{size => Numeric}], 0, default]``.
    """
    parts = [
        f"{member.name if member.required else f'Optional[{member.name}]'} => {_field_type(member)}"
        for member in field.members.values()
    ]
    struct = f"Struct[{{{', '.join(parts)}}}]"
    if field.nesting in {"list", "set"}:
        return f"Array[{struct}, {field.min_items}, {field.max_items or 'default'}]"
    return f"Hash[String, {struct}]" if field.nesting == "map" else struct


def data_type(kind: cty.Type) -> str:
    """Return the data type of values of a type of cty.

    >>> data_type(("map", ("list", "number")))
    'Hash[String, Array[Numeric]]'
    """
    if isinstance(kind, str):
        return _SCALARS[kind]
    word, inner = kind
    if word == "object":
        members = [f"Optional[{name}] => {data_type(member)}" for name, member in inner.items()]
        return f"Struct[{{{', '.join(members)}}}]" if members else _EMPTY_OBJECT
    if word == "tuple":
        return f"Tuple[{', '.join(map(data_type, inner))}]"
    return f"Hash[String, {data_type(inner)}]" if word == "map" else f"Array[{data_type(inner)}]"


def complete(fields: Mapping[str, SchemaField], declared: Mapping[str, object]) -> dict[str, Any]:
    """Return declared values as a configuration with all ``fields``, secrets in clear text; a program expects that."""
    return {name: _complete(field, declared.get(name)) for name, field in fields.items()}


def _complete(field: SchemaField, value: Any) -> Any:
    """Return the configured value of a field with all its members, since a program expects an object of its whole type.

    An undeclared block is an empty collection or None, by its nesting.
    """
    if isinstance(value, Sensitive):
        value = value.reveal()
    if value is None and field.is_block:  # a block with the nesting ``group`` always exists
        return complete(field.members, {}) if field.nesting == "group" else _EMPTY.get(field.nesting)
    if value is None or value is UNKNOWN or not field.members:
        return value
    return map_objects(field, value, complete)


def map_objects(field: SchemaField, value: Any, change: Callable[[Mapping[str, SchemaField], Any], Any]) -> Any:
    """Return the value of a nested field, with ``change(members, item)`` in place of each known object in it.

    ``members``: the fields of such an object, by which its values are completed, sealed or selected.
    """
    if value is None or value is UNKNOWN:
        return value
    inner = field._replace(nesting="single")  # the items of a list or map are objects themselves
    if isinstance(value, list):
        return [map_objects(inner, item, change) for item in value]
    if field.nesting == "map":
        return {key: map_objects(inner, item, change) for key, item in value.items()}
    return change(field.members, value)


def propose(
    fields: Mapping[str, SchemaField], prior: Mapping[str, object] | None, config: Mapping[str, object]
) -> dict[str, Any]:
    """Return the proposed new state that a plan request must have: the configuration, and the prior computed values.

    Without these a program would regard computed values as changed. Source: Terraform's ``objchange.ProposedNew``, by
    its documented result.
    """
    prior = prior or {}
    return {name: _propose(field, prior.get(name), config.get(name)) for name, field in fields.items()}


def _propose(field: SchemaField, prior: Any, config: Any) -> Any:
    """Return the proposed value of one attribute or block: the configured one, completed by prior computed ones.

    Elements of a list are matched by position, of a map by key, of a set by their configured values.
    """
    if config is None:
        return prior if field.computed else None
    if not field.members or config is UNKNOWN or prior is None:
        return config
    if field.nesting == "map":
        return {key: _propose_object(field, prior.get(key), item) for key, item in config.items()}
    if field.nesting == "list":
        priors = [*prior, *[None] * len(config)]  # elements beyond the prior ones are new
        return [_propose_object(field, old, item) for item, old in zip(config, priors, strict=False)]
    if field.nesting == "set":
        return [_propose_element(field, prior, item) for item in config]
    return propose(field.members, prior, config)


def _propose_object(field: SchemaField, prior: Mapping[str, object] | None, item: Any) -> Any:
    """Return an object in a list or map, completed by the computed values of the prior one in its place."""
    return item if item is UNKNOWN else propose(field.members, prior, item)


def _propose_element(field: SchemaField, prior: list[Any], item: Any) -> Any:
    """Return an element of a set, completed by the computed values of the prior element that is otherwise equal."""
    for old in prior:
        if item is not UNKNOWN and _is_same(field.members, old, item):
            return propose(field.members, old, item)
    return item


def _is_same(members: Mapping[str, SchemaField], old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether two elements of a set are one: equal but for computed members that ``new`` does not declare."""
    compared = [name for name, field in members.items() if not (field.computed and new[name] is None)]
    return all(new[name] == old.get(name) for name in compared)


def sealed(fields: Mapping[str, SchemaField], state: Mapping[str, object]) -> dict[str, Any]:
    """Return a state's values with its secrets wrapped, by the flags of ``fields``."""
    return {name: sealed_value(fields[name], value) for name, value in state.items()}


def sealed_value(field: SchemaField, value: Any) -> Any:
    """Return a value of a field with its secrets wrapped as ``Sensitive``: no output shows them."""
    if value is not None and field.sensitive:
        return Sensitive(value)
    return map_objects(field, value, sealed) if field.members else value


def declared_values(fields: Mapping[str, SchemaField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a state that a manifest would declare, to write one for existing resources.

    Computed values, which the provider sets, and empty ones are left out.
    """
    declared = {}
    for name, field in fields.items():
        value = values.get(name)
        if field.required or (field.is_declarable and not field.computed):
            value = _declared_value(field, value)
            if field.required or value not in (None, "", [], {}):
                declared[name] = value
    return declared


def _declared_value(field: SchemaField, value: Any) -> Any:
    """Return a value of a state file as a manifest declares it, secrets marked, or None for a write-only one."""
    if value is None or field.write_only:
        return None
    if field.sensitive:
        return Sensitive(value)
    return map_objects(field, value, declared_values) if field.members else value


def schema_document(name: str, schema: Message) -> dict[str, object]:
    """Return the schemas of a provider as ``terraform providers schema -json`` does, under its name or address.

    Tools that read the output of that command can then read ours.
    """
    provider: dict[str, object] = {"provider": _versioned_block(schema["provider"])} if "provider" in schema else {}
    for kind in _KINDS:
        if schema[kind]:
            provider[kind] = {key: _versioned_block(value) for key, value in schema[kind].items()}
    if schema["functions"]:
        provider["functions"] = {key: _function_document(value) for key, value in schema["functions"].items()}
    return {"format_version": "1.0", "provider_schemas": {name: provider}}


def _versioned_block(schema: Message) -> dict[str, object]:
    return {"version": schema.get("version", 0), "block": _block_document(schema.get("block", {}))}


def _block_document(block: Message) -> dict[str, object]:
    """Return a block in the format of ``terraform providers schema -json``, without empty parts."""
    members: dict[str, object] = {}
    if attributes := block.get("attributes"):
        members["attributes"] = {attribute["name"]: _attribute_document(attribute) for attribute in attributes}
    if nested := block.get("block_types"):
        members["block_types"] = {item["type_name"]: _nested_block_document(item) for item in nested}
    return {**members, **_texts(block, "description")}


def _attribute_document(attribute: Message) -> dict[str, object]:
    """Return an attribute as ``terraform providers schema -json`` shows it, with the flags that are set."""
    flags = {flag: True for flag in _FLAGS if attribute.get(flag)}
    if "nested_type" not in attribute:
        return {"type": json.loads(attribute["type"]), **_texts(attribute, "description"), **flags}
    members = {member["name"]: _attribute_document(member) for member in attribute["nested_type"]["attributes"]}
    nested = {"attributes": members, "nesting_mode": _NESTING[attribute["nested_type"]["nesting"]]}
    return {"nested_type": nested, **_texts(attribute, "description"), **flags}


def _nested_block_document(nested: Message) -> dict[str, object]:
    limits = {name: nested[name] for name in ("min_items", "max_items") if nested.get(name)}
    return {"nesting_mode": _NESTING[nested["nesting"]], "block": _block_document(nested.get("block", {})), **limits}


def _function_document(function: Message) -> dict[str, object]:
    """Return a function as ``terraform providers schema -json`` shows it."""
    variadic = function.get("variadic_parameter")
    return {
        **_texts(function, "summary", "description"),
        "return_type": json.loads(function["return"]["type"]),
        "parameters": [_parameter_document(parameter) for parameter in function["parameters"]],
        **({"variadic_parameter": _parameter_document(variadic)} if variadic else {}),
    }


def _parameter_document(parameter: Message) -> dict[str, object]:
    return {**_texts(parameter, "name", "description"), "type": json.loads(parameter["type"])}


def _texts(message: Message, *names: str) -> dict[str, object]:
    """Return the texts of a message by name, without the empty ones, which the format leaves out."""
    return {name: message[name] for name in names if message.get(name)}
