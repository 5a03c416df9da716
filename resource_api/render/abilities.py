"""What a manifest can say of a type's provider and ask it for, in words and as data: configuration and functions."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.attribute import Attribute
    from resource_api.model.function import Function
    from resource_api.model.type_definition import TypeDefinition


def sections(definition: TypeDefinition) -> Iterator[tuple[str, list[str]]]:
    """Give headings and their items, in plain text; none where there is nothing to say."""
    if definition.version is not None:
        yield "Version", [definition.version]
    if definition.config.attributes:
        yield "Configuration", [_input(*each) for each in definition.config.attributes.items()]
    if definition.functions:
        yield "Functions", [_function(*each) for each in definition.functions.items()]


def _input(name: str, attribute: Attribute) -> str:
    datatype = attribute.datatype
    default = "<sensitive>" if datatype.sensitive else show(attribute.default)
    standing = f", default {default}" if attribute.has_default else ", mandatory" if attribute.mandatory else ""
    return f"{name} ({datatype.text}{standing}): {_line(attribute.docs)}"


def _function(name: str, function: Function) -> str:
    inputs = ", ".join(f"{each}: {attribute.datatype.text}" for each, attribute in function.inputs.attributes.items())
    return f"{name}({inputs}) gives {function.datatype.text}: {_line(function.docs)}"


def _line(docs: str) -> str:
    return " ".join(cleandoc(docs).split())


def document(definition: TypeDefinition) -> dict[str, Any]:
    """Give the same as data; nothing where there is nothing to say."""
    found: dict[str, Any] = {} if definition.version is None else {"version": definition.version}
    if definition.config.attributes:
        found["config"] = [_given(*each) for each in definition.config.attributes.items()]
    if definition.functions:
        found["functions"] = [
            {
                "name": name,
                "docs": cleandoc(function.docs),
                "inputs": [_given(*each) for each in function.inputs.attributes.items()],
                "output": function.datatype.text,
            }
            for name, function in definition.functions.items()
        ]
    return found


def _given(name: str, attribute: Attribute) -> dict[str, Any]:
    return attribute_document(name, attribute) | {"kind": "input"}


def attribute_document(name: str, attribute: Attribute) -> dict[str, Any]:
    """Give what is declared of one attribute."""
    found: dict[str, Any] = {
        "name": name,
        "kind": attribute.kind or "property",
        "type": attribute.datatype.text,
        "mandatory": attribute.mandatory,
        "sensitive": attribute.datatype.sensitive,
        "write_only": attribute.write_only,
        "docs": cleandoc(attribute.docs),
    }
    if attribute.has_default:
        found["default"] = "<sensitive>" if attribute.datatype.sensitive else attribute.default
    return found
