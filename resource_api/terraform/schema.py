"""Schemas of Terraform's blocks: their attributes and nested blocks, complete configurations, and schemas as JSON.

A configuration has every attribute, None where nothing is declared, and empty collections for missing blocks. The JSON
has the format of ``terraform providers schema -json``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.terraform import cty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.terraform.messages import Message

#: Nesting modes by their numbers in the protocol.
_NESTING: Final = {1: "single", 2: "list", 3: "set", 4: "map", 5: "group"}
#: The value of a nested block that is not declared, by nesting mode.
_EMPTY: Final[Mapping[str, object]] = {"list": [], "set": [], "map": {}}
_FLAGS: Final = ("required", "optional", "computed", "sensitive", "deprecated", "write_only")
#: Kinds of schemas, as the protocol and the format call them.
_KINDS: Final = ("resource_schemas", "data_source_schemas", "ephemeral_resource_schemas", "list_resource_schemas")


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
    """Return the fields of a resource; the ``id`` that the SDK adds to each is only the provider's.

    The SDK declares it as optional and refuses it in a configuration. One of a resource's own has a description.
    """
    fields = fields_of_block(block)
    identifier = fields.get("id")
    if identifier is not None and identifier.optional and identifier.computed and not identifier.docs:
        fields["id"] = identifier._replace(optional=False)
    return fields


def _attribute(attribute: Message) -> SchemaField:
    """Return the field of an attribute, with the members of a nested type."""
    flags: dict[str, Any] = {
        flag: bool(attribute.get(flag)) for flag in ("required", "optional", "computed", "sensitive", "write_only")
    }
    docs = attribute.get("description", "")
    if "nested_type" not in attribute:
        return SchemaField(attribute["name"], cty.parse_type(attribute["type"]), docs, **flags)
    members = {member["name"]: _attribute(member) for member in attribute["nested_type"]["attributes"]}
    nesting = _NESTING[attribute["nested_type"]["nesting"]]
    return SchemaField(
        attribute["name"], _nested_type(members, nesting), docs, **flags, nesting=nesting, members=members
    )


def _nested_block(nested: Message) -> SchemaField:
    """Return the field of a nested block, whose number may be bounded."""
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


def complete(fields: Mapping[str, SchemaField], declared: Mapping[str, object]) -> dict[str, Any]:
    """Return declared values as a configuration, with secrets in clear text."""
    return {name: _complete(field, declared.get(name)) for name, field in fields.items()}


def _complete(field: SchemaField, value: Any) -> Any:
    """Return the configured value of an attribute or block with all members; an absent block is an empty collection."""
    if isinstance(value, Sensitive):
        value = value.reveal()
    if value is None and field.is_block:
        return complete(field.members, {}) if field.nesting == "group" else _EMPTY.get(field.nesting)
    if value is None or value is UNKNOWN or not field.members:
        return value
    return map_objects(field, value, lambda members, item: item if item is UNKNOWN else complete(members, item))


def map_objects(field: SchemaField, value: Any, change: Callable[[Mapping[str, SchemaField], Any], Any]) -> Any:
    """Return the value of a nested field with ``change(members, item)`` for each object in its list, set or map."""
    if isinstance(value, list):
        return [change(field.members, item) for item in value]
    if field.nesting == "map":
        return {key: change(field.members, item) for key, item in value.items()}
    return change(field.members, value)


def propose(
    fields: Mapping[str, SchemaField], prior: Mapping[str, object] | None, config: Mapping[str, object]
) -> dict[str, Any]:
    """Return the proposed new state: the configuration, and the prior values of the computed fields.

    Source: Terraform's ``objchange.ProposedNew``, by its documented result.
    """
    prior = prior or {}
    return {name: _propose(field, prior.get(name), config.get(name)) for name, field in fields.items()}


def _propose(field: SchemaField, prior: Any, config: Any) -> Any:
    """Return the proposed value of an attribute or block: the configured one, and computed ones of the prior state."""
    if config is None:
        return prior if field.computed else None
    if not field.members or config is UNKNOWN or prior is None:
        return config
    if field.nesting == "map":
        return {key: propose(field.members, prior.get(key), item) for key, item in config.items()}
    if field.nesting == "list":
        priors = [*prior, *[None] * len(config)]  # elements beyond the prior ones are new
        return [
            item if item is UNKNOWN else propose(field.members, old, item)
            for item, old in zip(config, priors, strict=False)
        ]
    if field.nesting == "set":
        return [_propose_element(field, prior, item) for item in config]
    return propose(field.members, prior, config)


def _propose_element(field: SchemaField, prior: list[Any], item: Any) -> Any:
    """Return an element of a set with the computed values of the equal one before."""
    matches = (old for old in prior if item is not UNKNOWN and _is_same(field.members, old, item))
    return next((propose(field.members, old, item) for old in matches), item)


def _is_same(members: Mapping[str, SchemaField], old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether two elements of a set are equal but for the computed members that ``new`` does not declare."""
    return all(
        new[name] == old.get(name) for name, field in members.items() if not (field.computed and new[name] is None)
    )


def sealed(fields: Mapping[str, SchemaField], state: Mapping[str, object]) -> dict[str, Any]:
    """Return a state with its secrets wrapped."""
    return {name: sealed_value(fields[name], value) for name, value in state.items()}


def sealed_value(field: SchemaField, value: Any) -> Any:
    """Return a value of a field with its secrets wrapped."""
    if value is None or field.sensitive:
        return None if value is None else Sensitive(value)
    return map_objects(field, value, sealed) if field.members else value


def declared_values(fields: Mapping[str, SchemaField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a state that a manifest would declare: neither computed ones, nor empty ones."""
    declared = {}
    for name, field in fields.items():
        value = values.get(name)
        if field.required or (field.is_declarable and not field.computed):
            value = _declared_value(field, value)
            if field.required or value not in (None, "", [], {}):
                declared[name] = value
    return declared


def _declared_value(field: SchemaField, value: Any) -> Any:
    """Return a value of a state file as a manifest declares it, secrets marked."""
    if value is None or field.write_only:
        return None
    if field.sensitive:
        return Sensitive(value)
    return map_objects(field, value, declared_values) if field.members else value


def schema_document(name: str, schema: Message) -> dict[str, object]:
    """Return the schemas of a provider, under its name or address."""
    provider: dict[str, object] = {"provider": _versioned_block(schema["provider"])} if "provider" in schema else {}
    provider |= {
        kind: {key: _versioned_block(value) for key, value in schema[kind].items()} for kind in _KINDS if schema[kind]
    }
    if schema["functions"]:
        provider["functions"] = {key: _function_document(value) for key, value in schema["functions"].items()}
    return {"format_version": "1.0", "provider_schemas": {name: provider}}


def _versioned_block(schema: Message) -> dict[str, object]:
    return {"version": schema.get("version", 0), "block": _block_document(schema.get("block", {}))}


def _block_document(block: Message) -> dict[str, object]:
    """Return a block as ``terraform providers schema -json`` shows it, without empty parts."""
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
