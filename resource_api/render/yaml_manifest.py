"""Render resources as a YAML manifest, which every reader of YAML 1.2 reads back as the same values.

Text is quoted where needed and ``${`` is escaped; secrets, and values that no manifest can hold, are left out. Only
mappings, lists and scalars are written.
"""

from __future__ import annotations

import json
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from resource_api.model.values import reference
from resource_api.model.values.assets import Content
from resource_api.model.values.document import character_problem
from resource_api.model.values.reference import Reference, split_instance
from resource_api.model.values.start_up import regex
from resource_api.model.values.text import escape, escape_json
from resource_api.model.values.values import is_secret, leaves, literal

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.type_definition import TypeDefinition

#: Texts that need no quotes, and words that look like one and mean another value in YAML 1.1 or 1.2.
_PLAIN: Final = regex(r"[A-Za-z_/][A-Za-z0-9_./+@%=,-]*(?: [A-Za-z0-9_./+@%=,()-]+)*\Z")
_WORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
#: References that need no quotes as a key.
_PLAIN_KEY: Final = regex(r"[A-Z][a-z0-9_]*\[[A-Za-z0-9_./+@%=:-]*[A-Za-z0-9_./+@%=-]\]\Z")
#: Characters that no terminal obeys, and readers of YAML may refuse.
_REFUSED: Final = regex("[\ufffe\uffff\U00010000-\U0010ffff]")


def manifest(
    listed: Iterable[tuple[TypeDefinition, Iterable[Mapping[str, object]]]],
    unlisted: Mapping[str, str] = MappingProxyType({}),
    declared: Mapping[str, Collection[str]] = MappingProxyType({}),
    *,
    project: str = "",
) -> Iterator[str]:
    """Yield the lines of a manifest that declares existing resources as they are, so that applying it changes nothing.

    ``listed``: types with the rows that their providers have listed. ``read_only`` values are comments, and so is the
    reason that a resource or value cannot be declared. Resources of a configured provider name it.

    ``unlisted``: reference → the reason that a resource cannot be declared. ``declared``: attribute → its members that
    are declared elsewhere; the others, which the system made, are comments. ``project``: its name, unless empty.
    """
    if project:
        yield f"project: {_scalar(project)}"
    lines: list[str] = []
    is_empty = True
    for definition, rows in listed:
        # ``ensure`` first, ``read_only`` values, which are comments, last.
        attributes = sorted(
            definition.attributes.items(), key=lambda item: (item[0] != "ensure", item[1].kind == "read_only")
        )
        for title, row in sorted((definition.title_of(row), row) for row in rows):
            reference = str(Reference(definition.name, title))
            if reason := _undeclarable(definition, title, row) or unlisted.get(reference, ""):
                lines.append(f"  # {escape(reference)} is left out: {escape(reason)}")
                continue
            is_empty = False
            lines += _resource(definition, attributes, title, row, declared)
    yield "resources: {}" if is_empty else "resources:"
    yield from lines


def _resource(
    definition: TypeDefinition,
    attributes: Sequence[tuple[str, Attribute]],
    title: str,
    row: Mapping[str, object],
    declared: Mapping[str, Collection[str]],
) -> Iterator[str]:
    """Yield the lines that declare a listed resource, at the end as comments the values that cannot be declared.

    ``attributes`` are in the order of the lines; ``row``: attribute → value; ``declared`` as for ``manifest``. A
    mapping of which the system made some members is divided into both.
    """
    lines, comments = list[str](), list[str]()
    if provider := split_instance(definition.instance)[1]:
        lines.append(f"    provider: {key_text(provider)}")
    for name, attribute, value in _shown_values(definition, attributes, title, row):
        spelt = definition.spelling(name)
        if remark := _remark(attribute, value):
            comments.append(f"    # {spelt}{remark}")
        elif isinstance(value, dict) and name in declared:
            own = {key: member for key, member in value.items() if key in declared[name]}
            lines += entry(spelt, literal(own), "    ")
            undeclared = ((key, member) for key, member in value.items() if key not in own)
            comments += [f"    # {name}.{escape(key)}: {_comment(member)}" for key, member in undeclared]
        else:
            lines += entry(spelt, literal(value), "    ")
    yield f"  {key_text(str(literal(str(Reference(definition.name, title)))))}:{'' if lines else ' {}'}"
    yield from lines
    yield from comments


def _shown_values(
    definition: TypeDefinition, attributes: Sequence[tuple[str, Attribute]], title: str, row: Mapping[str, object]
) -> Iterator[tuple[str, Attribute, object]]:
    """Yield the attributes of a listed resource that its declaration or the comments below have, with their values.

    Left out are secrets, which must not be in a file, parameters, which are no state of the resource, and a single
    namevar that the title gives.
    """
    implied = title if len(definition.namevars) == 1 else None
    for name, attribute in attributes:
        value = row.get(name)
        is_implied = attribute.kind == "namevar" and value == implied
        if value is not None and not is_secret(value) and not is_implied and attribute.kind != "parameter":
            yield name, attribute, value


def _remark(attribute: Attribute, value: object) -> str:
    """Return the text of the comment in place of a value that cannot be declared; "" for a value that can be.

    It is the value itself if a reader may need it, as that of a ``read_only`` attribute, else the reason.
    """
    # Of an asset or an archive only the digest is known.
    if attribute.kind == "read_only" or any(isinstance(part, Content) for _, part in leaves(value)):
        return f": {_comment(value)}"
    reason = _value_problem(value)
    return f" is left out: {reason}" if reason else ""


def _undeclarable(definition: TypeDefinition, title: str, row: Mapping[str, object]) -> str:
    """Return the reason that no manifest can declare a resource as it is: its type, its title or a value; or ""."""
    if "imperative" in definition.features:
        return "what it does cannot be read back"
    try:
        reference.parse(str(Reference(definition.name, title)))
    except ValueError as error:
        return str(error)
    # A resource must have every mandatory attribute but a parameter, unless it is absent.
    read = [name for name in definition.mandatory if definition.attributes[name].kind != "parameter"]
    if missing := [name for name in read if row.get(name) is None and row.get("ensure") != "absent"]:
        return f"'{missing[0]}', which must be declared, has no value that can be read"
    # The values that are written: a secret is left out.
    needed = [name for name in (*definition.namevars, *definition.mandatory) if not is_secret(row.get(name))]
    return character_problem(title, key=True) or _first(_value_problem(row.get(name)) for name in needed)


def _first(reasons: Iterable[str]) -> str:
    """Return the first reason that is not empty, or ""."""
    return next(filter(None, reasons), "")


def _value_problem(value: object) -> str:
    """Return the reason that a provider's value is invalid in a manifest, for a comment in place of it; or "".

    Such values are a text with NUL, and a number that is not finite.
    """
    if isinstance(value, str):
        return character_problem(value, key=False)
    if isinstance(value, float):
        return "" if isfinite(value) else "a number is finite"
    if isinstance(value, dict):
        keys = (character_problem(str(key), key=True) for key in value)
        return _first(keys) or _first(map(_value_problem, value.values()))
    return _first(map(_value_problem, value)) if isinstance(value, list) else ""


def _comment(value: object) -> str:
    """Return a value on one line for a comment of the manifest; only people read it, so it need not be valid YAML."""
    if isinstance(value, (dict, list)):
        return escape(json.dumps(value, ensure_ascii=False, default=str))
    return escape(str(value) if isinstance(value, Content) else _scalar(literal(value)))


def entry(key: str, value: object, indent: str) -> Iterator[str]:
    """Yield the lines of a key with its value: nested mappings, lists of one line each, texts as blocks.

    Each form is the one in which people write it. ``indent``: the spaces before the key.
    """
    quoted = key if _bare(key) else _quoted(key)
    if isinstance(value, dict) and value:
        yield f"{indent}{quoted}:"
        for inner, item in value.items():
            yield from entry(inner, item, indent + "  ")
    elif isinstance(value, list) and value:
        yield f"{indent}{quoted}:"
        for item in value:
            yield f"{indent}- {_flow(item)}"
    elif isinstance(value, str) and "\n" in value and (block := _block(value, indent + "  ")):
        yield f"{indent}{quoted}: {block[0]}"
        yield from block[1:]
    else:
        yield f"{indent}{quoted}: {_flow(value)}"


def _block(value: str, indent: str) -> list[str]:
    """Return the lines of a text as a literal block (``|``), which can be read like the text itself.

    Return [] for a text that only quotes preserve: one with a space or line end at its beginning, spaces at the end of
    a line, several line ends at its end, or characters that must be escaped.
    """
    lines = value.split("\n")
    if value.startswith((" ", "\n")) or any(line != line.rstrip() or not line.isprintable() for line in lines):
        return []
    end = len(value) - len(value.rstrip("\n"))
    if end > 1 or _REFUSED.search(value):
        return []
    body = lines[:-1] if end else lines
    return ["|" if end else "|-", *(indent + line if line else "" for line in body)]


def key_text(text: str) -> str:
    """Return the text of a key, such as a reference, in quotes where YAML needs them."""
    return text if _PLAIN_KEY.match(text) or _bare(text) else _quoted(text)


def _bare(text: str) -> bool:
    """Return whether a text is the same text without quotes in YAML 1.1 and 1.2."""
    return _PLAIN.match(text) is not None and text.lower() not in _WORDS


def _scalar(value: object) -> str:
    """Return a text, number, Boolean or None as YAML."""
    if isinstance(value, str):
        return value if _bare(value) else _quoted(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def flow_text(value: object) -> str:
    """Return a value on one line, ``{a: 1, b: [x, "y,z"]}``; only texts that YAML would misread are in quotes.

    In braces or brackets a comma ends a text without quotes.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow_text(str(key))}: {flow_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    return _quoted(value) if isinstance(value, str) and "," in value else _scalar(value)


def _flow(value: object) -> str:
    """Return a value on one line for ``entry``.

    The texts of a list in brackets are always in quotes, because a comma would end a text without quotes.
    """
    if isinstance(value, dict):
        return flow_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) if not isinstance(item, str) else _quoted(item) for item in value) + "]"
    return _scalar(value)


def _quoted(text: str) -> str:
    """Return a text in double quotes, in which YAML has the escapes of JSON, without terminal controls."""
    quoted = escape_json(json.dumps(text, ensure_ascii=False))
    return quoted if quoted.isascii() else _REFUSED.sub(_escaped, quoted)


def _escaped(match: re.Match[str]) -> str:
    """Return YAML's escape of a character that readers may refuse, for a text in double quotes."""
    code = ord(match.group())
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"  # noqa: PLR2004 - the end of the basic plane
