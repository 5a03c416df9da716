"""Types made of a Terraform provider's schema: one for each resource, and one with its data sources and functions.

A field called like an attribute that each of these types has gets a trailing underscore. Manifests write attributes
that are called like a metaparameter so, too; that is a rule for all types (``AttributeSet.spelt``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import Function, TypeDefinition
from resource_api.terraform import cty
from resource_api.terraform.schema import fields_of_block, fields_of_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.terraform.messages import Message
    from resource_api.terraform.schema import SchemaField

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
_EMPTY: Final = "Hash[String, Any, 0, 0]"
#: The attributes that each type has beside the fields of its schema.
_TAKEN: Final = frozenset({"ensure", NAMEVAR})


def attribute_name(name: str) -> str:
    """Return the attribute of a field.

    Examples:
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
        schema_version=schema.get("version", 0) + 1,
        identity="title",
        features=_FEATURES | secrets,
    )


def function_type(name: str, schema: Message, config: Mapping[str, SchemaField]) -> TypeDefinition:
    """Return the type, called like the provider, with its data sources, functions and ephemeral resources."""
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
    """Return the attributes of a configuration."""
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
    inputs = {
        attribute_name(parameter["name"]): Attribute(data_type(parameter_type), parameter.get("description", ""))
        for parameter, parameter_type in parameters(schema)
    }
    return Function(
        schema.get("summary", ""), inputs=inputs, output=data_type(cty.parse_type(schema["return"]["type"]))
    )


def parameters(schema: Message) -> Iterable[tuple[Message, cty.Type]]:
    """Yield the parameters of a function with their types; the variadic one is a list."""
    for parameter in schema["parameters"]:
        yield parameter, cty.parse_type(parameter["type"])
    if variadic := schema.get("variadic_parameter"):
        yield variadic, ("list", cty.parse_type(variadic["type"]))


def _property(field: SchemaField) -> Attribute:
    """Return the attribute of a resource for a field: read-only where only the provider sets it."""
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
    """Return the data type of a nested field as text."""
    members = field.members.values()
    parts = [
        f"{member.name if member.required else f'Optional[{member.name}]'} => {_field_type(member)}"
        for member in members
    ]
    struct = f"Struct[{{{', '.join(parts)}}}]"
    if field.nesting in {"list", "set"}:
        return f"Array[{struct}, {field.min_items}, {field.max_items or 'default'}]"
    return f"Hash[String, {struct}]" if field.nesting == "map" else struct


def data_type(kind: cty.Type) -> str:
    """Return the data type of values of a type of cty.

    Examples:
        >>> data_type(("map", ("list", "number")))
        'Hash[String, Array[Numeric]]'

    """
    if isinstance(kind, str):
        return _SCALARS[kind]
    word, inner = kind
    if word == "object":
        members = [f"Optional[{name}] => {data_type(member)}" for name, member in inner.items()]
        return f"Struct[{{{', '.join(members)}}}]" if members else _EMPTY
    if word == "tuple":
        return f"Tuple[{', '.join(map(data_type, inner))}]"
    return f"Hash[String, {data_type(inner)}]" if word == "map" else f"Array[{data_type(inner)}]"
