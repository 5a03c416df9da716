"""Make a JSON Schema of manifests, for completion, documentation and error marks in editors.

It must not refuse a manifest that the loader accepts, except for useless parts and for another version of a type than
the first on the module path. It accepts more where a schema cannot decide. It is of draft-07, as all editors support.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import EVALUATED
from resource_api.model.datatypes import json_schema as schemas
from resource_api.model.datatypes import parser
from resource_api.model.datatypes.parser import END
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.reference import capitalize_type
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.type_definition import ComponentDefinition

    Schema = dict[str, Any]

    Definition = TypeDefinition | ComponentDefinition

    #: Type → the names of its providers.
    Implementations = Mapping[str, Sequence[str]]

#: The begin of the names of metaparameters in the frame that types are added to; a type's name has no hyphen.
_META: Final = "metaparameter-"
#: The metaparameters of single declarations.
_NO_DEFAULTS: Final = frozenset({"alias", "for_each", "when"})
_NULL: Final[Schema] = {"type": "null"}
#: A title may hold any text, but not within quotes. (Without groups, because validators join patterns.)
_TITLE: Final = rf"""\[(?!"[\s\S]*"\]{END}|'[\s\S]*'\]{END})[\s\S]+\]{END}"""


def manifest_schema(
    definitions: Iterable[TypeDefinition | ComponentDefinition],
    implementations: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the JSON Schema of manifests with the types and components of ``definitions``, and no others.

    ``implementations`` has the names of providers by type; for a type without names, any provider is accepted. The rest
    of the schema, which no type determines, is in the file ``manifest_schema.json``.
    """
    types = sorted(definitions, key=lambda definition: definition.name)
    schema: Schema = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    sections, shared = schema["properties"], schema["definitions"]
    metaparameters = [name.removeprefix(_META) for name in shared if name.startswith(_META)]
    shared |= {_META + name: _evaluated(shared[_META + name]) for name in sorted(EVALUATED)}
    shared["provider"]["allOf"], by_name = _provider_conditions(types, implementations)
    shared["call"]["allOf"] = _call_conditions(types)
    heads = {definition.name: _head(definition.name) for definition in types}
    sections["resources"]["patternProperties"] = {head + _TITLE: _ref(f"type-{name}") for name, head in heads.items()}
    sections["resources"]["defaultSnippets"] = list(_snippets(types))
    sections["defaults"]["patternProperties"] = {head + END: _ref(f"defaults-{name}") for name, head in heads.items()}
    sections["providers"]["patternProperties"] |= by_name
    schema["allOf"] = list(_resource_conditions(types, implementations))
    for definition in types:
        shared |= _type(definition, metaparameters)
    return schema


def _ref(name: str) -> Schema:
    """Return a reference to a definition of the schema."""
    return {"$ref": f"#/definitions/{name}"}


def _or_null(docs: str, shape: Schema) -> Schema:
    """Return a shape with documentation that also accepts null, as ``port: null`` in a manifest declares no value."""
    if isinstance(shape.get("type"), str) and "enum" not in shape:  # an enumeration would still refuse null
        return {"description": docs, **shape, "type": [shape["type"], "null"]}
    if not shape:  # it accepts everything
        return {"description": docs}
    alternatives = shape["anyOf"] if shape.keys() == {"anyOf"} else [shape]
    return {"description": docs, "anyOf": [*alternatives, *([] if _NULL in alternatives else [_NULL])]}


def _closed(properties: Schema) -> Schema:
    """Return the shape of a mapping with these keys and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(definition: TypeDefinition | ComponentDefinition, metaparameters: Iterable[str]) -> Schema:
    """Return the parts of the schema for one type: the shape of its resources, of its ``defaults``, of its provider.

    The other sections of the schema refer to them by name, such as ``type-file``.
    """
    resource = f"type-{definition.name}"
    attributes = {name: _attribute(attribute) for name, attribute in _spelt(definition).items()}
    metas = {name: _ref(_META + name) for name in metaparameters}
    shared = {name: _ref(f"{resource}/properties/{name}") for name in (*attributes, *metas) if name not in _NO_DEFAULTS}
    return {
        resource: _or_null(cleandoc(definition.docs), _closed(attributes | metas)),
        f"defaults-{definition.name}": {**_closed(shared), "type": ["object", "null"]},
        **(_provider_shapes(definition) if isinstance(definition, TypeDefinition) else {}),
    }


def _provider_shapes(definition: TypeDefinition) -> Schema:
    """Return the shapes for the configuration of a type's provider, and for the inputs of each of its functions.

    The conditions for ``providers`` and for calls refer to them, as ``config-TYPE`` and ``inputs-TYPE.FUNCTION``.
    """
    config = {name: _attribute(attribute) for name, attribute in definition.config.attributes.items()}
    shapes = {f"config-{definition.name}": _or_null("What it is configured with.", _closed(config))} if config else {}
    for name, function in definition.functions.items():
        inputs = _closed({key: _attribute(attribute) for key, attribute in function.inputs.attributes.items()})
        mandatory = list(function.inputs.mandatory)
        docs = cleandoc(function.docs)
        shape = {"description": docs, **inputs, "required": mandatory} if mandatory else _or_null(docs, inputs)
        shapes[f"inputs-{definition.name}.{name}"] = shape
    return shapes


def _attribute(attribute: Attribute) -> Schema:
    """Return the shape of an attribute's value, with its documentation; it also accepts null and expressions.

    A ``read_only`` attribute cannot be declared, and accepts null alone.
    """
    datatype = attribute.datatype
    docs = f"{cleandoc(attribute.docs)}\n\n{datatype.text}: {describe.attribute_facts(attribute)}".strip()
    if attribute.kind == "read_only":
        return {"description": docs, **_NULL}
    shape = _or_null(docs, _with_expressions(schemas.schema(datatype, draft7=True)))
    if attribute.has_default and not datatype.sensitive:
        shape["default"] = attribute.default
    return shape


def _with_expressions(schema: Schema) -> Schema:
    """Return the shape of a value that also accepts an expression, ``${...}``, in place of it or of a part of it.

    An expression is a text. Only when the manifest is compiled, its value must have the declared data type.
    """
    shape = _with_inner_expressions(schema)
    docs = {key: shape.pop(key) for key in ("description",) if key in shape}
    alternatives = shape["anyOf"] if shape.keys() == {"anyOf"} else [shape]
    # {} and {"type": "string"} accept any text, and thus any expression.
    if any(part.keys() <= {"type"} and "string" in part.get("type", "string") for part in alternatives):
        return docs | shape
    return {**docs, "anyOf": [*alternatives, _ref("expression")]}


def _evaluated(metaparameter: Schema) -> Schema:
    """Return the shape of a metaparameter that also accepts expressions, for itself and for its options.

    Not for the options ``replace_triggered_by`` and ``deleted_with``: they name resources, which cannot be computed.
    """
    shape = _with_expressions(metaparameter)
    names = metaparameter.get("properties", {})
    for name in names.keys() & {"replace_triggered_by", "deleted_with"}:
        shape["anyOf"][0]["properties"][name] = names[name]  # [0]: the mapping, [1]: an expression
    return shape


def _with_inner_expressions(schema: Schema) -> Schema:
    """Return the shape of a value of which every item and member may be an expression too, but not the whole value.

    ``schema`` is that of a data type: for a list of integers, ``[1, "${inputs.port}"]`` fits the result. The caller
    adds the expression for the whole value once, so that an alternative in ``anyOf`` or ``allOf`` needs none.
    """
    shape = dict(schema)
    for word in ("items", "additionalItems", "additionalProperties"):
        if isinstance(part := shape.get(word), dict):
            shape[word] = _with_expressions(part)
        elif isinstance(part, list):
            shape[word] = [_with_expressions(item) for item in part]
    if "properties" in shape:
        shape["properties"] = {name: _with_expressions(part) for name, part in shape["properties"].items()}
    for word in ("anyOf", "allOf"):
        if word in shape:
            shape[word] = [_with_inner_expressions(part) for part in shape[word]]
    return shape


#: The parts of an untranslatable title pattern: anchors, references to groups, brackets in a set.
_UNTRANSLATED: Final = re.compile(r"(?<!\[)\^|\$|\\[1-9]|\[[^\]]*[()|]")


def _head(name: str) -> str:
    """Return the pattern of a type at the start of a text, its first letter in either case."""
    return f"^[{name[0].upper()}{name[0]}]{name[1:]}"


def _resource_conditions(types: Iterable[Definition], implementations: Implementations) -> Iterator[Schema]:
    """Yield the conditions for the resources of each type, such as that they have the mandatory attributes.

    A file with ``defaults`` for the type is exempt, because its resources may get these attributes from the defaults.
    """
    for definition in types:
        patterns = dict(_resource_patterns(definition, implementations.get(definition.name, ())))
        if patterns:
            defaults = {"patternProperties": {_head(definition.name) + END: False}}  # False: no such key
            resources = {"patternProperties": patterns}
            yield {"if": {"properties": {"defaults": defaults}}, "then": {"properties": {"resources": resources}}}


def _resource_patterns(definition: Definition, implementations: Sequence[str]) -> Iterator[tuple[str, Schema]]:
    """Yield patterns of the keys of a type's resources, ``Type[title]``, each with a shape that these must have.

    Every resource must have the mandatory attributes, unless it is absent, and an ``implementation`` of the type. A
    resource whose title matches no title pattern must declare the namevars too, which the title does not give.
    """
    start = _head(definition.name)
    shape: Schema = {}
    if mandatory := _mandatory(definition):
        shape |= {"if": _absence(definition), "else": {"type": "object", "required": mandatory}}
    if isinstance(definition, TypeDefinition):
        # The implementation of a type with a configuration stands under ``providers`` instead.
        if implementations and not definition.config.attributes:
            shape["properties"] = {"implementation": {"enum": [*implementations, None]}}
        if untitled := _titles_without_names(definition):
            yield start + untitled, {"type": "object", "required": list(map(definition.spelling, definition.namevars))}
    if shape:
        yield start + _TITLE, shape


def _mandatory(definition: Definition) -> list[str]:
    """Return the names of mandatory attributes as manifests write them."""
    return [name for name, attribute in _spelt(definition).items() if attribute.mandatory]


def _spelt(definition: Definition) -> Mapping[str, Attribute]:
    """Return the attributes by the names that authors write in manifests, which the schema must accept.

    An attribute with the name of a metaparameter is written with an underscore, as ``retry_``.
    """
    if not isinstance(definition, TypeDefinition) or not definition.spelt:
        return definition.attributes
    return {definition.spelling(name): attribute for name, attribute in definition.attributes.items()}


def _absence(definition: Definition) -> Schema | bool:
    """Return the shape of a resource that is absent or, by an expression, may be: it needs no mandatory attributes.

    Return False, a shape that no resource has, for a type without ``ensure``.
    """
    if "ensure" not in definition.attributes:
        return False
    absent: Schema = {"anyOf": [{"const": "absent"}, _ref("expression")]}
    if definition.attributes["ensure"].default == "absent":
        return {"type": "object", "properties": {"ensure": {"anyOf": [*absent["anyOf"], _NULL]}}}
    return {"type": "object", "properties": {"ensure": absent}, "required": ["ensure"]}


def _titles_without_names(definition: TypeDefinition) -> str:
    """Return the pattern of titles that none of a type's title patterns matches, or "" if it cannot be written.

    Resources with such a title must declare their namevars. The pattern matches only titles in printable ASCII without
    expressions: about others the regular expressions of editors and of Python differ.
    """
    if not definition.titles.regexes or any(definition.attributes[name].has_default for name in definition.namevars):
        return ""
    # ``None`` is a pattern that cannot be translated: then no title is refused.
    patterns = [_in_brackets(pattern["pattern"]) for pattern in definition.title_patterns]
    if None in patterns:
        return ""
    # "[" in front of a title in ASCII, that contains no "${", and that matches none of the patterns.
    return rf"\[(?=[ -~]+\]{END})(?![ -~]*\$\{{)(?!{'|'.join(map(str, patterns))})"


def _in_brackets(source: str) -> str | None:
    r"""Return a title pattern of a type for the text after ``[`` in a key, in the dialect of JSON Schema.

    ``(?P<path>[^:]+):(?P<name>.+)\Z`` becomes ``(?:[^:]+):(?:.+)\]$(?!\n)``: without capturing groups, because
    validators join patterns, which would change the numbers of groups, and with the bracket that ends the title.
    None if it is too complicated to translate.
    """
    try:
        pattern = parser.translate(re.sub(r"\(\?P?<[A-Za-z_]\w*>", "(", source)).pattern
    except parser.PatternError:
        return None
    body = pattern.removeprefix("^").removesuffix(END)
    # An alternative outside of groups would divide the whole pattern. To find it, all groups are removed, inside out.
    outside, inner = "", body
    while inner != outside:
        outside, inner = inner, re.sub(r"\([^()]*\)", "", inner)
    if _UNTRANSLATED.search(body) or "|" in outside:
        return None
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", body) + (rf"\]{END}" if pattern.endswith(END) else "")


def _provider_conditions(types: Iterable[Definition], implementations: Implementations) -> tuple[list[Schema], Schema]:
    """Return the conditions by which an editor checks the configuration of each entry of ``providers`` by its type.

    An entry declares its type by ``type``, for which the list is, or by its name, for which the mapping is: pattern of
    the name → condition. An entry with a ``version`` may be for another version of the type, and is not checked.
    """
    by_type: list[Schema] = []
    by_name: Schema = {}
    for definition in types:
        if isinstance(definition, TypeDefinition):
            names = [definition.name, capitalize_type(definition.name)]
            config = _ref(f"config-{definition.name}") if definition.config.attributes else {"maxProperties": 0}
            providers = implementations.get(definition.name, ())
            chosen = {"implementation": {"enum": [*providers, "", None]}} if providers else {}
            shape = {"properties": {"config": config, **chosen}}
            stated = {"properties": {"type": {"enum": names}, "version": _NULL}, "required": ["type"]}
            by_type.append({"if": stated, "then": shape})
            unstated = {"properties": {"type": _NULL, "version": _NULL}}
            by_name[_head(definition.name) + END] = {"if": unstated, "then": shape}
    return by_type, by_name


def _call_conditions(types: Iterable[Definition]) -> list[Schema]:
    """Return the conditions by which an editor checks calls, ``{invoke: FUNCTION, with: INPUTS}``.

    There must be such a function, called by its type and name or by a unique name alone, and the inputs must be its
    own. The function of a call with ``provider`` is exempt: it may be of a type that the schema does not have.
    """
    definitions = [definition for definition in types if isinstance(definition, TypeDefinition)]
    # A name that two types use does not identify a function.
    uses = Counter(name for definition in definitions for name in definition.functions)
    conditions: list[Schema] = []
    every: list[str] = []
    for definition in definitions:
        for name, function in definition.functions.items():
            names = [f"{definition.name}.{name}", f"{capitalize_type(definition.name)}.{name}"]
            names += [name] if uses[name] == 1 else []
            every += names
            shape: Schema = {"properties": {"with": _ref(f"inputs-{definition.name}.{name}")}}
            if function.inputs.mandatory:
                shape["required"] = ["with"]
            conditions.append({"if": {"properties": {"invoke": {"enum": names}}}, "then": shape})
    names_shape = {"enum": every} if every else False
    return [{"if": {"properties": {"provider": _NULL}}, "then": {"properties": {"invoke": names_shape}}}, *conditions]


def _snippets(types: Iterable[Definition]) -> Iterator[Schema]:
    """Yield for each type the text that an editor inserts for a new resource: ``Type[title]``, mandatory attributes.

    In it are numbered placeholders, ``${1:title}``, which the user fills in one after the other.
    """
    for definition in types:
        namevars: Sequence[str] = getattr(definition, "namevars", ())
        title = namevars[0] if len(namevars) == 1 else "title"
        needed = [*(["ensure"] if "ensure" in definition.attributes else []), *_mandatory(definition)]
        # The title is the first placeholder to fill in, so that those of values begin at 2.
        values = {name: _placeholder(definition, name, number) for number, name in enumerate(dict.fromkeys(needed), 2)}
        name = capitalize_type(definition.name)
        body = {f"{name}[${{1:{title}}}]": values}
        yield {"label": f"{name}[{title}]", "description": describe.summary(definition), "body": body}


def _placeholder(definition: Definition, name: str, number: int) -> str:
    """Return the placeholder of an attribute's value in a snippet, the ``number``-th to fill in, with its default."""
    default = _spelt(definition)[name].default
    return f"${{{number}:{default}}}" if isinstance(default, str) and default.isalnum() else f"${number}"
