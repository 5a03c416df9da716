"""One type's documentation for people, and the list of all types: from definitions alone, nothing is read or run.

Kinds, data types and features are told in words that somebody who writes manifests understands; how providers do
their work does not enter.
"""

from __future__ import annotations

import re
import textwrap
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.component import ComponentDefinition
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.reference import Reference
from resource_api.model.values.text import escape, escape_lines, show
from resource_api.render import abilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry

#: What a feature means to whoever writes a manifest.
FEATURES: Final[Mapping[str, str]] = {
    "refreshable": "can be refreshed: it reacts to notify and subscribe",
    "imperative": "is done when it is due; what it did cannot be read back, so it is not verified",
    "canonicalize": "accepts several spellings of a value; plans, state and references show the canonical one",
    "custom_insync": "has its own notion of which values are equal",
    "validate": "checks how values go together before anything is touched",
    "noop_handler": "takes part in noop, to say more of what would happen",
    "plan": "foretells values and replacements in the plan",
    "simple_get_filter": "is read by name: only what a manifest declares is looked at",
    "parallel": "several can be changed at once with --parallel",
    "upgrade": "understands what older versions have recorded",
}
_RELATIONS: Final[Mapping[str, str]] = {
    "require": "comes after",
    "before": "comes before",
    "subscribe": "comes after, and is refreshed by",
    "notify": "comes before, and refreshes",
}
#: The order in which attributes are shown; None is a property.
_KINDS: Final = ("namevar", None, "init_only", "parameter", "read_only")
_MEANINGS: Final[Mapping[str, str]] = {
    "namevar": "identifies the resource, taken from the title",
    "init_only": "settable at creation only",
    "parameter": "steers how changes are made, never a reason for one",
    "read_only": "reported, never set",
}
_MARGIN: Final = "    "
_WIDEST: Final = 20
#: Below this many columns lines are wrapped as if there were so many.
_NARROWEST: Final = 40


class Listed(NamedTuple):
    """One line of the list of types; ``error`` says why a file cannot be used, empty when it can."""

    name: str
    summary: str
    error: str = ""
    component: bool = False


def types_list(registry: Registry) -> list[Listed]:
    """Give every type and component that can be found, sorted; one whose file is broken comes with its error."""
    found = [_listed(name, registry.type) for name in registry.names()]
    for name in registry.component_names():
        listed = _listed(name, lambda name: definition_of(registry, name))
        text = f"{listed.summary} (component)" if not listed.error else ""
        found.append(listed._replace(summary=text, component=True))
    return sorted(found)


def definition_of(registry: Registry, name: str) -> TypeDefinition | ComponentDefinition:
    """Give the definition of a component, or else of a type. Raises ``DefinitionError``."""
    component = registry.component(name)
    return registry.type(name) if component is None else component[0]


def _listed(name: str, find: Callable[[str], TypeDefinition | ComponentDefinition]) -> Listed:
    try:
        found = find(name)
    except DefinitionError as error:
        return Listed(name, "", str(error))
    return Listed(name, summary(found))


def summary(definition: TypeDefinition | ComponentDefinition) -> str:
    """Give the first sentence of a type's documentation, on one line."""
    paragraph = " ".join(cleandoc(definition.docs).split("\n\n")[0].split())
    return escape(re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0])


def standing(attribute: Attribute) -> str:
    """Give an attribute's kind, and whether it must be given or what it is without: ``property, default present``."""
    default = [f"default {_default(attribute)}"] if attribute.has_default else []
    return ", ".join([*_words(attribute), *default])


def _words(attribute: Attribute) -> list[str]:
    write_only = ["write only"] if attribute.write_only else []
    return [attribute.kind or "property", *write_only, *(["mandatory"] if attribute.mandatory else [])]


def _default(attribute: Attribute) -> str:
    return "<sensitive>" if attribute.datatype.sensitive else show(attribute.default)


def ordered(definition: TypeDefinition | ComponentDefinition) -> list[tuple[str, Attribute]]:
    """Give the attributes as people look for them: namevars, ``ensure``, other properties, and the rest by kind."""
    return sorted(definition.attributes.items(), key=lambda each: (_KINDS.index(each[1].kind), each[0] != "ensure"))


def text(definition: TypeDefinition | ComponentDefinition, width: int = 80) -> str:
    """Give documentation for a terminal of ``width`` columns, without a last line break."""
    width = max(width, _NARROWEST)
    lines = [definition.name, "", *_flowed(definition.docs, width, _MARGIN), _heading(definition).upper(), ""]
    column = min(max(map(len, definition.attributes), default=0), _WIDEST) + 2
    for name, attribute in ordered(definition):
        lines += _attribute(name, attribute, _MARGIN + " " * column, width)
    for heading, items in _sections(definition):
        lines += [heading.upper(), ""]
        for item in items:
            lines += _wrapped(item, width, _MARGIN + "  ", _MARGIN + "- ")
        lines.append("")
    return "\n".join(lines).rstrip()


def _heading(definition: TypeDefinition | ComponentDefinition) -> str:
    return "Inputs" if isinstance(definition, ComponentDefinition) else "Attributes"


def _attribute(name: str, attribute: Attribute, margin: str, width: int) -> Iterator[str]:
    """Give the name, with its kind beside it, what it means, and its data type."""
    head = f"{_MARGIN}{name}"
    first = head.ljust(len(margin)) if len(head) < len(margin) else margin
    if first == margin:
        yield head
    yield from _wrapped(standing(attribute), width, margin, first)
    yield from _flowed(attribute.docs, width, margin)[:-1]
    yield from _wrapped(attribute.datatype.text, width, margin)
    yield ""


def _wrapped(line: str, width: int, margin: str, first: str | None = None) -> list[str]:
    """Wrap one line at spaces; what holds none, a pattern say, is never torn."""
    return textwrap.wrap(
        escape(line),
        width,
        initial_indent=margin if first is None else first,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _blocks(docs: str) -> list[list[str]]:
    """Split documentation at its empty lines."""
    return [block.splitlines() for block in re.split(r"\n\s*\n", escape_lines(cleandoc(docs))) if block.strip()]


def _verbatim(block: Sequence[str]) -> bool:
    """Whether a block is an example, which is indented, or a list: its lines stay as they are."""
    return any(line[:1] in {" ", "\t", "-"} for line in block)


def _flowed(docs: str, width: int, margin: str) -> list[str]:
    """Wrap the paragraphs of documentation, each followed by an empty line."""
    lines: list[str] = []
    for block in _blocks(docs):
        lines += [margin + line for line in block] if _verbatim(block) else _wrapped(" ".join(block), width, margin)
        lines.append("")
    return lines


def _sections(definition: TypeDefinition | ComponentDefinition) -> Iterator[tuple[str, list[str]]]:
    """Give what is said below the attributes, in plain text: headings and their items."""
    if isinstance(definition, ComponentDefinition):
        yield "Outputs", [f"{name}: {docs}" for name, docs in definition.outputs.items()] or ["none"]
        return
    yield "Features", features(definition)
    yield from abilities.sections(definition)
    if relations := relationships(definition):
        yield "Automatic relationships", relations
    if definition.title_regexes:
        yield (
            "Titles",
            [
                f"{regex.pattern} gives {' and '.join(regex.groupindex) or 'nothing'}"
                for regex in definition.title_regexes
            ],
        )
    kinds = [kind for kind in _KINDS if kind and definition.names_of_kind(kind)]
    yield "Kinds", [f"{kind}: {_MEANINGS[kind]}" for kind in kinds]


def features(definition: TypeDefinition) -> list[str]:
    """Say in words what can be expected of resources of a type."""
    ensurable = "can be created and deleted" if definition.ensurable else "is configured only: never created or deleted"
    declared = [f"{words} ({feature})" for feature, words in FEATURES.items() if feature in definition.features]
    return [ensurable, *declared]


def relationships(definition: TypeDefinition) -> list[str]:
    """Say what resources of a type are related to without being asked; ``$name`` stands for an attribute's value."""
    found = []
    for word, types in definition.automatic.items():
        names = [str(Reference(type_name, title)) for type_name, title in _targets(types)]
        if names:
            found.append(f"{_RELATIONS[word]} {', '.join(names)}")
    return found


def _targets(types: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the types and titles of one kind of relationship; titles that a function finds are an ellipsis."""
    for type_name, titles in types.items():
        for title in [titles] if isinstance(titles, str) or callable(titles) else titles:
            yield type_name, "..." if callable(title) else title


def markdown(definition: TypeDefinition | ComponentDefinition) -> str:
    """Give documentation as Markdown, a page of its own, without a last line break."""
    parts = [f"# {definition.name}", *_marked(definition.docs), f"## {_heading(definition)}"]
    for name, attribute in ordered(definition):
        facts = [_code(attribute.datatype.text), *_words(attribute)]
        facts += [f"default {_code(_default(attribute))}"] if attribute.has_default else []
        parts += [f"### {name}", ", ".join(facts), *_marked(attribute.docs)]
    for heading, items in _sections(definition):
        parts += [f"## {heading}", "\n".join(f"- {_literal(item, heading)}" for item in items)]
    return "\n\n".join(parts)


def _literal(item: str, heading: str) -> str:
    """Mark what is code in an item of a section."""
    if heading == "Titles":
        pattern, _, names = item.rpartition(" gives ")
        return f"{_code(pattern)} gives {names}"
    if heading == "Automatic relationships":
        return re.sub(r"[A-Z]\w*\[.*?\](?=, |$)", lambda found: _code(found[0]), item)
    return item


def _code(code: str) -> str:
    """Fence a piece of code so that its own backticks do not end it."""
    fence = "`" * (1 + max(map(len, re.findall("`+", code)), default=0))
    space = " " if code[:1] == "`" or code[-1:] == "`" else ""
    return f"{fence}{space}{escape(code)}{space}{fence}"


def _marked(docs: str) -> Iterator[str]:
    """Give documentation's blocks as Markdown, examples fenced; an angle bracket outside code is text, not HTML."""
    for block in _blocks(docs):
        if any(line[:1] in {" ", "\t"} for line in block) and not block[0].startswith("-"):
            yield f"```yaml\n{textwrap.dedent(chr(10).join(block))}\n```"
        else:
            yield re.sub(r"(`[^`]*`)|<", lambda found: found[1] or "&lt;", "\n".join(block))


def document(definition: TypeDefinition | ComponentDefinition) -> dict[str, Any]:
    """Give the same as data: what ``describe --json`` prints."""
    if isinstance(definition, ComponentDefinition):
        inputs = [abilities.attribute_document(*each) | {"kind": "input"} for each in ordered(definition)]
        head = {"name": definition.name, "docs": cleandoc(definition.docs), "component": True}
        return {**head, "inputs": inputs, "outputs": dict(definition.outputs)}
    return {
        "name": definition.name,
        "docs": cleandoc(definition.docs),
        "schema_version": definition.schema_version,
        "ensurable": definition.ensurable,
        "features": sorted(definition.features),
        "attributes": [abilities.attribute_document(*each) for each in ordered(definition)],
        "relationships": {
            word: [{"type": type_name, "title": title} for type_name, title in _targets(types)]
            for word, types in definition.automatic.items()
            if types
        },
        **abilities.document(definition),
        "title_patterns": [
            {"pattern": regex.pattern, "namevars": list(regex.groupindex)} for regex in definition.title_regexes
        ],
    }
