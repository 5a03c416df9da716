"""Schemas of a Terraform provider as JSON, in the format of ``terraform providers schema -json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from resource_api.terraform.messages import Message

#: Nesting modes by their numbers in the protocol.
_NESTING: Final = {1: "single", 2: "list", 3: "set", 4: "map", 5: "group"}
_FLAGS: Final = ("required", "optional", "computed", "sensitive", "deprecated", "write_only")
#: Kinds of schemas, as the protocol and the format call them.
_KINDS: Final = ("resource_schemas", "data_source_schemas", "ephemeral_resource_schemas", "list_resource_schemas")


def document(name: str, schema: Message) -> dict[str, object]:
    """Return the schemas of a provider, under its name or address."""
    provider: dict[str, object] = {"provider": _schema(schema["provider"])} if "provider" in schema else {}
    provider |= {kind: {key: _schema(value) for key, value in schema[kind].items()} for kind in _KINDS if schema[kind]}
    if schema["functions"]:
        provider["functions"] = {key: _function(value) for key, value in schema["functions"].items()}
    return {"format_version": "1.0", "provider_schemas": {name: provider}}


def _schema(schema: Message) -> dict[str, object]:
    return {"version": schema.get("version", 0), "block": _block(schema.get("block", {}))}


def _block(block: Message) -> dict[str, object]:
    members: dict[str, object] = {}
    if attributes := block.get("attributes"):
        members["attributes"] = {attribute["name"]: _attribute(attribute) for attribute in attributes}
    if nested := block.get("block_types"):
        members["block_types"] = {item["type_name"]: _nested_block(item) for item in nested}
    return {**members, **_words(block, "description")}


def _attribute(attribute: Message) -> dict[str, object]:
    flags = {flag: True for flag in _FLAGS if attribute.get(flag)}
    if "nested_type" not in attribute:
        return {"type": json.loads(attribute["type"]), **_words(attribute, "description"), **flags}
    members = {member["name"]: _attribute(member) for member in attribute["nested_type"]["attributes"]}
    nested = {"attributes": members, "nesting_mode": _NESTING[attribute["nested_type"]["nesting"]]}
    return {"nested_type": nested, **_words(attribute, "description"), **flags}


def _nested_block(nested: Message) -> dict[str, object]:
    limits = {name: nested[name] for name in ("min_items", "max_items") if nested.get(name)}
    return {"nesting_mode": _NESTING[nested["nesting"]], "block": _block(nested.get("block", {})), **limits}


def _function(function: Message) -> dict[str, object]:
    variadic = function.get("variadic_parameter")
    return {
        **_words(function, "summary", "description"),
        "return_type": json.loads(function["return"]["type"]),
        "parameters": [_parameter(parameter) for parameter in function["parameters"]],
        **({"variadic_parameter": _parameter(variadic)} if variadic else {}),
    }


def _parameter(parameter: Message) -> dict[str, object]:
    return {**_words(parameter, "name", "description"), "type": json.loads(parameter["type"])}


def _words(message: Message, *names: str) -> dict[str, object]:
    return {name: message[name] for name in names if message.get(name)}
