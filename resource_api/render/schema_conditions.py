"""Conditions in the JSON Schema of manifests: what is mandatory, titles, configurations and calls; and snippets.

Each condition leaves open what another file, a reference or another version of a type can decide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import regex_dialect
from resource_api.model.datatypes.regex_dialect import END
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.reference import capitalize_type
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.component import ComponentDefinition

    Schema = dict[str, Any]
    Definition = TypeDefinition | ComponentDefinition
    #: Type → the names of its providers.
    Implementations = Mapping[str, Sequence[str]]

_NULL: Final[Schema] = {"type": "null"}
#: What is inside of a title pattern that is not translated: anchors, references to groups, brackets in a set.
_UNTRANSLATED: Final = re.compile(r"(?<!\[)\^|\$|\\[1-9]|\[[^\]]*[()|]")


def head(name: str) -> str:
    """Return the pattern of a type at the start of a text, its first letter in either case."""
    return f"^[{name[0].upper()}{name[0]}]{name[1:]}"


def resource_conditions(types: Iterable[Definition], any_title: str, known: Implementations) -> list[Schema]:
    """Return what holds for the resources of each type without ``defaults`` in the same file.

    ``any_title`` is the pattern of a title in brackets.
    """
    found = []
    for each in types:
        patterns = dict(_resource_patterns(each, any_title, known.get(each.name, ())))
        if patterns:
            without_defaults = {"properties": {"defaults": {"patternProperties": {head(each.name) + END: False}}}}
            found.append(
                {"if": without_defaults, "then": {"properties": {"resources": {"patternProperties": patterns}}}}
            )
    return found


def _resource_patterns(definition: Definition, any_title: str, known: Sequence[str]) -> Iterator[tuple[str, Schema]]:
    """Yield a pattern of the keys of resources, and what holds for them."""
    start = head(definition.name)
    shape: Schema = {}
    if mandatory := _mandatory(definition):
        shape |= {"if": _absence(definition), "else": {"type": "object", "required": mandatory}}
    if isinstance(definition, TypeDefinition):
        if known and not definition.config.attributes:
            shape["properties"] = {"implementation": {"enum": [*known, None]}}
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
    """Return the pattern of the titles that no title pattern matches; empty where that cannot be said.

    Only titles in printable ASCII without references are decided: for others Python's dialect differs.
    """
    if not definition.title_regexes or any(definition.attributes[name].has_default for name in definition.namevars):
        return ""
    patterns = [_in_brackets(each["pattern"]) for each in definition.title_patterns]
    if None in patterns:
        return ""
    return rf"\[(?=[ -~]+\]{END})(?![ -~]*\$\{{)(?!{'|'.join(map(str, patterns))})"


def _in_brackets(source: str) -> str | None:
    """Return a title pattern without groups, to be matched behind ``[``; None for one that is too complicated."""
    try:
        pattern = regex_dialect.translate(source).pattern
    except regex_dialect.PatternError:
        return None
    body = pattern.removeprefix("^").removesuffix(END)
    outside, inner = "", body
    while inner != outside:
        outside, inner = inner, re.sub(r"\([^()]*\)", "", inner)
    if _UNTRANSLATED.search(body) or "|" in outside:
        return None
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", body) + (rf"\]{END}" if pattern.endswith(END) else "")


def provider_conditions(types: Iterable[Definition], known: Implementations) -> tuple[list[Schema], Schema]:
    """Return what holds for providers by their ``type``, and by their name where they have none.

    One with a ``version`` may be of another version of the type.
    """
    by_type: list[Schema] = []
    by_name: Schema = {}
    for each in types:
        if isinstance(each, TypeDefinition):
            names = [each.name, capitalize_type(each.name)]
            shape = {"properties": _provider_properties(each, known.get(each.name, ()))}
            stated = {"properties": {"type": {"enum": names}, "version": _NULL}, "required": ["type"]}
            by_type.append({"if": stated, "then": shape})
            by_name[head(each.name) + END] = {"if": {"properties": {"type": _NULL, "version": _NULL}}, "then": shape}
    return by_type, by_name


def _provider_properties(definition: TypeDefinition, known: Sequence[str]) -> Schema:
    config = (
        {"$ref": f"#/definitions/config-{definition.name}"} if definition.config.attributes else {"maxProperties": 0}
    )
    return {"config": config, **({"implementation": {"enum": [*known, "", None]}} if known else {})}


def call_conditions(types: Iterable[Definition]) -> list[Schema]:
    """Return what holds for calls: a function of the types unless a ``provider`` is named, and its inputs."""
    functions = [
        (each.name, name, function.inputs.mandatory)
        for each in types
        if isinstance(each, TypeDefinition)
        for name, function in each.functions.items()
    ]
    bare = [name for _, name, _ in functions]
    found: list[Schema] = []
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
        found.append({"if": {"properties": {"invoke": {"enum": names}}}, "then": shape})
    known = {"enum": every} if every else False
    return [{"if": {"properties": {"provider": _NULL}}, "then": {"properties": {"invoke": known}}}, *found]


def snippets(types: Iterable[Definition]) -> list[Schema]:
    """Return what VS Code and its YAML server offer as a new resource: ``Type[title]`` and what is mandatory."""
    found = []
    for each in types:
        namevars: Sequence[str] = getattr(each, "namevars", ())
        title = namevars[0] if len(namevars) == 1 else "title"
        needed = [*(["ensure"] if "ensure" in each.attributes else []), *_mandatory(each)]
        body = {name: _stop(each, name, number) for number, name in enumerate(dict.fromkeys(needed), 2)}
        found.append(
            {
                "label": f"{capitalize_type(each.name)}[{title}]",
                "description": describe.summary(each),
                "body": {f"{capitalize_type(each.name)}[${{1:{title}}}]": body},
            }
        )
    return found


def _stop(definition: Definition, name: str, number: int) -> str:
    """Return the place of a value in a snippet, with the type's default."""
    default = definition.attributes[name].default
    return f"${{{number}:{default}}}" if isinstance(default, str) and default.isalnum() else f"${number}"
