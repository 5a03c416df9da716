"""Make a JSON Schema of manifests, for completion, documentation and error marks in editors.

It must not refuse a manifest that the loader accepts, except for useless parts (an attribute in ``defaults`` that its
type does not have) and for another version of a type than the first on the module path. It accepts more where a schema
cannot decide: another file, a reference or another version of a type may fulfil a condition. It is of draft-07, which
every editor supports.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.sections import LOGLEVELS, REPLACEMENTS
from resource_api.model.attribute import OPERATIONS
from resource_api.model.datatypes import json_schema as schemas
from resource_api.model.datatypes import parser
from resource_api.model.datatypes.parser import END
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.reference import capitalize_type
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.component import ComponentDefinition

    Schema = dict[str, Any]

    Definition = TypeDefinition | ComponentDefinition

    #: Type → the names of its providers.
    Implementations = Mapping[str, Sequence[str]]


def manifest_schema(
    definitions: Iterable[TypeDefinition | ComponentDefinition],
    implementations: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the JSON Schema of manifests with the types and components of ``definitions``, and no others.

    ``implementations`` has the names of providers by type; for a type without names, any provider is accepted.
    """
    types = sorted(definitions, key=lambda definition: definition.name)
    by_type, by_name = _provider_conditions(types, implementations)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A manifest of resource-api",
        "type": ["object", "null"],
        "properties": _sections(types, by_name),
        "additionalProperties": False,
        "allOf": _resource_conditions(types, _TITLE, implementations),
        "definitions": _SHARED
        | {name: body for definition in types for name, body in _type(definition).items()}
        | {
            "provider": {**_SHARED["provider"], "allOf": by_type},
            "call": {**_SHARED["call"], "allOf": _call_conditions(types)},
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _one_or_list(shape: Schema) -> Schema:
    return {"anyOf": [shape, _list(shape)]}


def _or_null(docs: str, shape: Schema) -> Schema:
    """Return a shape that also accepts null."""
    if isinstance(shape.get("type"), str) and "enum" not in shape:
        return {"description": docs, **shape, "type": [shape["type"], "null"]}
    if not shape:
        return {"description": docs}
    alternatives = shape["anyOf"] if shape.keys() == {"anyOf"} else [shape]
    return {"description": docs, "anyOf": [*alternatives, *([] if _NULL in alternatives else [_NULL])]}


def _closed(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _named(docs: str, patterns: Schema) -> Schema:
    """Return the shape of a section: a mapping whose keys match ``patterns``."""
    return _or_null(docs, {"type": "object", "patternProperties": patterns, "additionalProperties": False})


_NULL: Final[Schema] = {"type": "null"}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_SECONDS: Final[Schema] = {"type": "number", "minimum": 0}
#: A title may hold any text, but not within quotes. (Without groups, because validators join patterns.)
_TITLE: Final = rf"""\[(?!"[\s\S]*"\]{END}|'[\s\S]*'\]{END})[\s\S]+\]{END}"""
_NAME: Final = rf"^[A-Za-z0-9_][A-Za-z0-9_-]*{END}"
_PROJECT: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}{END}"
_FILE: Final = rf"^(?!\/)(?![\s\S]*\$\{{)[\s\S]*\.([Yy][Aa]?[Mm][Ll]|[Jj][Ss][Oo][Nn]){END}"
_REFERENCE: Final[Schema] = {"type": "string", "pattern": r"^[A-Za-z][a-z0-9_]*" + _TITLE}
#: Text without references, for values in which none is resolved.
_WORD: Final[Schema] = {"type": "string", "pattern": r"^(?![\s\S]*\$\{)[\s\S]"}
_TAG: Final[Schema] = {"type": "string", "pattern": rf"^[A-Za-z0-9_][A-Za-z0-9_:.-]*{END}"}
#: Text with a reference; ``$${`` is an escaped one.
_EXPRESSION: Final[Schema] = {"type": "string", "pattern": r"(^|[^$])\$\{"}

_LIFECYCLE: Final[Schema] = {
    "protect": _or_null("What would delete it fails.", _BOOLEAN),
    "retain": _or_null("Forget it instead of deleting it.", _BOOLEAN),
    "owned": _or_null("Whether it counts as ours: only what is ours is ever deleted unasked.", _BOOLEAN),
    "ignore_changes": _or_null("Attributes whose difference is no reason to change it.", _list(_WORD)),
    "replace": _or_null("How to replace it when an init_only attribute differs.", {"enum": list(REPLACEMENTS)}),
    "replace_on_changes": _or_null("Attributes whose change replaces it.", _list(_WORD)),
    "replace_triggered_by": _or_null("Resources whose change replaces it.", _list(_ref("reference"))),
    "deleted_with": _or_null("When both go, this one is forgotten without a call.", _REFERENCE),
    "aliases": _or_null("Names that it had in state.", _list(_WORD)),
    "import": _or_null("Take over what exists under this name.", _WORD),
    "external": _or_null("Read it, never change it.", _BOOLEAN),
}
_OPERATIONS: Final[Schema] = {item: _or_null(f"Seconds to {item} it.", _SECONDS) for item in OPERATIONS}
_METAPARAMETERS: Final[Schema] = {
    "require": _or_null("What comes before it: a reference or a list.", _ref("references")),
    "before": _or_null("What comes after it: a reference or a list.", _ref("references")),
    "notify": _or_null("What comes after it and is refreshed when it changes.", _ref("references")),
    "subscribe": _or_null("What comes before it and refreshes it by changing.", _ref("references")),
    "noop": _or_null("Change nothing, only report what would happen.", _BOOLEAN),
    "tag": _or_null("Words to select it by: one or a list.", _one_or_list(_TAG)),
    "loglevel": _or_null("The level of the lines about its changes.", {"enum": list(LOGLEVELS)}),
    "alias": _or_null("Further names for references in this manifest: one or a list.", _one_or_list(_WORD)),
    "provider": _or_null("The entry of providers to use.", _WORD),
    "implementation": _or_null("Which of several providers of its type manages it.", _WORD),
    "timeout": _or_null(
        "Seconds for a change, or by operation; 0: no limit.", {"anyOf": [_SECONDS, _closed(_OPERATIONS)]}
    ),
    "lifecycle": _or_null("How it may be replaced, deleted and identified.", _closed(_LIFECYCLE)),
}
_INPUT: Final[Schema] = {
    "type": _or_null("Its data type, as in Integer[1, 9]; Any unless given.", {"type": "string"}),
    "default": {"description": "Its value unless given; without a default it must be given."},
    "docs": _or_null("What it is for.", {"type": "string"}),
    "sensitive": _or_null("Whether it is a secret, whatever its data type; false unless given.", _BOOLEAN),
    "ephemeral": _or_null("Whether nothing of its value is ever recorded; false unless given.", _BOOLEAN),
}
#: A type's name has no hyphen, so these names cannot clash with one.
_SHARED: Final[Schema] = {
    "expression": _EXPRESSION,
    "reference": _REFERENCE,
    "references": _one_or_list(_ref("reference")),
    "input": _or_null("An input.", _closed(_INPUT)),
    "provider": _closed(
        {
            "type": _or_null("The type that it is for; its own name unless given.", {"type": "string"}),
            "version": _or_null("The accepted versions: '>=1.2', '~=1.4'.", {"type": "string"}),
            "config": _or_null("What it is configured with.", {"type": "object"}),
            "implementation": _or_null("Which of several providers of the type it is.", {"type": "string"}),
        }
    ),
    "value": {"if": {"type": "object", "required": ["invoke"]}, "then": _ref("call")},
    "call": _closed(
        {
            "invoke": {"description": "The function of a provider: FUNCTION or TYPE.FUNCTION.", "type": "string"},
            "with": _or_null("Its inputs.", {"type": "object"}),
            "provider": _or_null("The entry of providers that answers.", _WORD),
        }
    ),
    "output": {
        "if": {"type": "object", "required": ["sensitive", "value"], "maxProperties": 2},
        "then": {"properties": {"sensitive": _BOOLEAN}},
    },
    "move": _closed({"from": _ref("reference"), "to": _ref("reference")}, required=["from", "to"]),
    **{f"metaparameter-{name}": body for name, body in _METAPARAMETERS.items()},
}


def _sections(types: Sequence[TypeDefinition | ComponentDefinition], providers: Schema) -> Schema:
    """Return the sections; ``providers`` holds for providers of these names."""
    heads = {definition.name: _head(definition.name) for definition in types}
    resources = {head + _TITLE: _ref(f"type-{name}") for name, head in heads.items()}
    defaults = {head + END: _ref(f"defaults-{name}") for name, head in heads.items()}
    files = _list({"type": "string", "pattern": _FILE})
    return {
        "project": _or_null(
            "The name that state is kept under; the file's stem unless given.", {"type": "string", "pattern": _PROJECT}
        ),
        "include": _or_null("Files beneath this one's directory whose resources come before its own.", files),
        "inputs": _named("What is given from outside, with -i NAME=VALUE.", {_NAME: _ref("input")}),
        "defaults": _named("Attributes of all resources of a type in this file: Type, then attributes.", defaults),
        "providers": _named(
            "Configured providers, that the metaparameter provider names.", {_NAME: _ref("provider"), **providers}
        ),
        "values": _named("Values with a name, to be used as ${values.NAME}.", {_NAME: _ref("value")}),
        "resources": {
            **_named("What should be, in the order of execution: Type[title], then attributes.", resources),
            "defaultSnippets": _snippets(types),
        },
        "moved": _or_null("Resources with a new name; what is recorded of them is kept.", _list(_ref("move"))),
        "removed": _or_null("Resources to forget.", _list(_ref("reference"))),
        "outputs": _named("Values for others: name, then value.", {_NAME: _ref("output")}),
    }


def _type(definition: TypeDefinition | ComponentDefinition) -> Schema:
    """Return the definitions of a type's resources and of its defaults, which cannot have an alias."""
    resource = f"type-{definition.name}"
    attributes = {name: _attribute(attribute) for name, attribute in definition.attributes.items()}
    metas = {name: _ref(f"metaparameter-{name}") for name in _METAPARAMETERS}
    shared = {name: _ref(f"{resource}/properties/{name}") for name in (*attributes, *metas) if name != "alias"}
    return {
        resource: _or_null(cleandoc(definition.docs), _closed(attributes | metas)),
        f"defaults-{definition.name}": _closed(shared),
        **(_provider_shapes(definition) if isinstance(definition, TypeDefinition) else {}),
    }


def _provider_shapes(definition: TypeDefinition) -> Schema:
    """Return the definitions of the configuration of a type's provider, and of the inputs of its functions."""
    config = {name: _attribute(item) for name, item in definition.config.attributes.items()}
    shapes = {f"config-{definition.name}": _or_null("What it is configured with.", _closed(config))} if config else {}
    for name, function in definition.functions.items():
        inputs = _closed({key: _attribute(item) for key, item in function.inputs.attributes.items()})
        mandatory = list(function.inputs.mandatory)
        docs = cleandoc(function.docs)
        shape = {"description": docs, **inputs, "required": mandatory} if mandatory else _or_null(docs, inputs)
        shapes[f"inputs-{definition.name}.{name}"] = shape
    return shapes


def _attribute(attribute: Attribute) -> Schema:
    """Return the shape of an attribute: null (not managed), a value, or a reference unless it is read_only."""
    datatype = attribute.datatype
    docs = f"{cleandoc(attribute.docs)}\n\n{datatype.text}: {describe.attribute_facts(attribute)}".strip()
    if attribute.kind == "read_only":
        return {"description": docs, **_NULL}
    shape = _or_null(docs, _open(schemas.schema(datatype, draft7=True)))
    if attribute.has_default and not datatype.sensitive:
        shape["default"] = attribute.default
    return shape


def _open(schema: Schema) -> Schema:
    """Return a shape that also accepts a reference, and references in its parts; any text includes them already."""
    within = _within(schema)
    alternatives = within["anyOf"] if within.keys() == {"anyOf"} else [within]
    if any(shape.keys() <= {"type"} and "string" in shape.get("type", "string") for shape in alternatives):
        return within
    return {"anyOf": [*alternatives, _ref("expression")]}


def _within(schema: Schema) -> Schema:
    shape = dict(schema)
    for word in ("items", "additionalItems", "additionalProperties"):
        if isinstance(part := shape.get(word), dict):
            shape[word] = _open(part)
        elif isinstance(part, list):
            shape[word] = [_open(item) for item in part]
    if "properties" in shape:
        shape["properties"] = {name: _open(part) for name, part in shape["properties"].items()}
    for word in ("anyOf", "allOf"):
        if word in shape:
            shape[word] = [_within(part) for part in shape[word]]
    return shape


#: The parts of an untranslatable title pattern: anchors, references to groups, brackets in a set.
_UNTRANSLATED: Final = re.compile(r"(?<!\[)\^|\$|\\[1-9]|\[[^\]]*[()|]")


def _head(name: str) -> str:
    """Return the pattern of a type at the start of a text, its first letter in either case."""
    return f"^[{name[0].upper()}{name[0]}]{name[1:]}"


def _resource_conditions(types: Iterable[Definition], any_title: str, implementations: Implementations) -> list[Schema]:
    """Return the conditions for resources of types without ``defaults`` in the same file.

    ``any_title`` is the pattern of a title in brackets.
    """
    conditions = []
    for item in types:
        patterns = dict(_resource_patterns(item, any_title, implementations.get(item.name, ())))
        if patterns:
            without_defaults = {"properties": {"defaults": {"patternProperties": {_head(item.name) + END: False}}}}
            conditions.append(
                {"if": without_defaults, "then": {"properties": {"resources": {"patternProperties": patterns}}}}
            )
    return conditions


def _resource_patterns(
    definition: Definition, any_title: str, implementations: Sequence[str]
) -> Iterator[tuple[str, Schema]]:
    """Yield patterns of resources' keys, and the conditions for these resources."""
    start = _head(definition.name)
    shape: Schema = {}
    if mandatory := _mandatory(definition):
        shape |= {"if": _absence(definition), "else": {"type": "object", "required": mandatory}}
    if isinstance(definition, TypeDefinition):
        if implementations and not definition.config.attributes:
            shape["properties"] = {"implementation": {"enum": [*implementations, None]}}
        if untitled := _titles_without_names(definition):
            yield start + untitled, {"type": "object", "required": list(definition.namevars)}
    if shape:
        yield start + any_title, shape


def _mandatory(definition: Definition) -> list[str]:
    return [name for name, attribute in definition.attributes.items() if attribute.mandatory]


def _absence(definition: Definition) -> Schema | bool:
    """Return the shape of a resource that is absent, or may be: nothing is mandatory for it."""
    if "ensure" not in definition.attributes:
        return False
    absent: Schema = {"anyOf": [{"const": "absent"}, {"$ref": "#/definitions/expression"}]}
    if definition.attributes["ensure"].default == "absent":
        return {"type": "object", "properties": {"ensure": {"anyOf": [*absent["anyOf"], _NULL]}}}
    return {"type": "object", "properties": {"ensure": absent}, "required": ["ensure"]}


def _titles_without_names(definition: TypeDefinition) -> str:
    """Return the pattern of titles that no title pattern matches, or an empty string if undecidable.

    Only titles in printable ASCII without references are decided: for other titles Python's dialect differs.
    """
    if not definition.title_regexes or any(definition.attributes[name].has_default for name in definition.namevars):
        return ""
    patterns = [_in_brackets(item["pattern"]) for item in definition.title_patterns]
    if None in patterns:
        return ""
    return rf"\[(?=[ -~]+\]{END})(?![ -~]*\$\{{)(?!{'|'.join(map(str, patterns))})"


def _in_brackets(source: str) -> str | None:
    """Return a title pattern without groups, to be matched after ``[``, or None if it is too complicated."""
    try:
        pattern = parser.translate(re.sub(r"\(\?P?<[A-Za-z_]\w*>", "(", source)).pattern
    except parser.PatternError:
        return None
    body = pattern.removeprefix("^").removesuffix(END)
    outside, inner = "", body
    while inner != outside:
        outside, inner = inner, re.sub(r"\([^()]*\)", "", inner)
    if _UNTRANSLATED.search(body) or "|" in outside:
        return None
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", body) + (rf"\]{END}" if pattern.endswith(END) else "")


def _provider_conditions(types: Iterable[Definition], implementations: Implementations) -> tuple[list[Schema], Schema]:
    """Return the conditions for providers by ``type``, and by name for providers without one.

    A provider with a ``version`` may be for another version of the type.
    """
    by_type: list[Schema] = []
    by_name: Schema = {}
    for item in types:
        if isinstance(item, TypeDefinition):
            names = [item.name, capitalize_type(item.name)]
            shape = {"properties": _provider_properties(item, implementations.get(item.name, ()))}
            stated = {"properties": {"type": {"enum": names}, "version": _NULL}, "required": ["type"]}
            by_type.append({"if": stated, "then": shape})
            by_name[_head(item.name) + END] = {"if": {"properties": {"type": _NULL, "version": _NULL}}, "then": shape}
    return by_type, by_name


def _provider_properties(definition: TypeDefinition, implementations: Sequence[str]) -> Schema:
    config = (
        {"$ref": f"#/definitions/config-{definition.name}"} if definition.config.attributes else {"maxProperties": 0}
    )
    return {"config": config, **({"implementation": {"enum": [*implementations, "", None]}} if implementations else {})}


def _call_conditions(types: Iterable[Definition]) -> list[Schema]:
    """Return the conditions for calls: a function of the types unless a ``provider`` is named, and its inputs."""
    functions = [
        (item.name, name, function.inputs.mandatory)
        for item in types
        if isinstance(item, TypeDefinition)
        for name, function in item.functions.items()
    ]
    bare = [name for _, name, _ in functions]
    conditions: list[Schema] = []
    every: list[str] = []
    for type_name, name, mandatory in functions:
        names = [
            f"{type_name}.{name}",
            f"{capitalize_type(type_name)}.{name}",
            *([name] if bare.count(name) == 1 else []),
        ]
        every += names
        shape: Schema = {"properties": {"with": {"$ref": f"#/definitions/inputs-{type_name}.{name}"}}}
        if mandatory:
            shape["required"] = ["with"]
        conditions.append({"if": {"properties": {"invoke": {"enum": names}}}, "then": shape})
    names_shape = {"enum": every} if every else False
    return [{"if": {"properties": {"provider": _NULL}}, "then": {"properties": {"invoke": names_shape}}}, *conditions]


def _snippets(types: Iterable[Definition]) -> list[Schema]:
    """Return the new resources that editors offer: ``Type[title]`` and the mandatory attributes."""
    snippets = []
    for item in types:
        namevars: Sequence[str] = getattr(item, "namevars", ())
        title = namevars[0] if len(namevars) == 1 else "title"
        needed = [*(["ensure"] if "ensure" in item.attributes else []), *_mandatory(item)]
        body = {name: _stop(item, name, number) for number, name in enumerate(dict.fromkeys(needed), 2)}
        snippets.append(
            {
                "label": f"{capitalize_type(item.name)}[{title}]",
                "description": describe.summary(item),
                "body": {f"{capitalize_type(item.name)}[${{1:{title}}}]": body},
            }
        )
    return snippets


def _stop(definition: Definition, name: str, number: int) -> str:
    """Return the placeholder of a value in a snippet, with the type's default."""
    default = definition.attributes[name].default
    return f"${{{number}:{default}}}" if isinstance(default, str) and default.isalnum() else f"${number}"
