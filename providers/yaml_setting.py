"""Read and change settings in YAML files with ruamel.yaml, which keeps comments."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, ClassVar

from lib import kept_formatting, prerequisites, structured_settings
from lib.format_error import FormatError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lib.structured_settings import KeyPath

#: The most mappings and sequences within each other, with the document around them.
DEEPEST = 100
#: The mistakes in our words, by the beginning of the parser's message.
REASONS = {
    "but found another document": "a second document begins, and only a file of one can be managed",
    "could not find expected ':'": "':' is expected",
    "did not find expected ',' or ']'": "',' or ']' is expected",
    "did not find expected ',' or '}'": "',' or '}' is expected",
    "did not find expected '-'": "'-' is expected, or another indentation",
    "did not find expected key": "a key is expected, or another indentation",
    "found a tab": "a tab cannot indent",
    "found character that cannot start": "a value cannot begin with this character",
    "found duplicate": "the key is there already",
    "found undefined alias": "there is no anchor of this name above",
    "found unexpected end": "the text has no end",
    "found unknown escape": "the backslash escapes nothing",
    "mapping values are not allowed": "':' cannot stand here; a text that contains it needs quotes",
}
#: What only a text in quotes can hold: a character that ends a line or is not printable, and a tab as an indentation.
ESCAPED = re.compile("[^\n\t -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|\\A[ \n]*\t")
#: The source of the modules.
SOURCE = "pip install 'resource-api[settings]'"


class Provider(structured_settings.SettingsProvider):
    """The settings of YAML files."""

    _FORMAT: ClassVar = "YAML"
    _MODULES: ClassVar = {"yaml": "Package[python3-yaml]", "ruamel.yaml": "Package[python3-ruamel.yaml]"}

    @staticmethod
    def _parse(text: str) -> Any:
        return _load(text)

    @staticmethod
    def _edit(text: str, values: Mapping[KeyPath, Any]) -> str:
        """Return the text with changed values, and comments, order and quotes as they were."""
        if _load(text) is None:
            # Only comments, or nothing: the library would put them below the new content.
            gap = "\n" if text and not text.endswith("\n") else ""
            content: dict[str, Any] = {}
            kept_formatting.apply(content, values, _convert)
            return text + gap + str(_dump("")(content))
        return kept_formatting.edit(text, values, parse=_load, load=_load, dump=_dump(text), convert=_convert)


def _yaml() -> Any:
    """Return a reader and writer of YAML that keeps comments and quotes, and breaks no long lines: other lines stay."""
    with prerequisites.needing("ruamel.yaml", SOURCE):
        from ruamel.yaml import YAML
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = structured_settings.LIMIT
    return yaml


def _load(text: str) -> Any:
    """Return the document in a YAML text, with its comments. Raise ``FormatError`` with the line of a mistake."""
    with prerequisites.needing("yaml", SOURCE):
        import yaml

    round_trip_yaml = _yaml()
    from ruamel.yaml.error import YAMLError

    try:
        _check_depth(yaml.parse(text, Loader=yaml.CSafeLoader))
        document = round_trip_yaml.load(text)
    except (YAMLError, yaml.YAMLError) as error:
        message = reason(getattr(error, "problem", None) or "", REASONS)
        if mark := getattr(error, "problem_mark", None):
            raise FormatError(message, mark.line + 1, mark.column + 1) from None
        position = getattr(error, "position", len(text))
        raise FormatError.at(text, position, "a control character must be escaped") from None
    except ValueError:
        raise FormatError.of_value(text) from None
    _keep_anchors(document)
    return document


def _check_depth(events: Iterable[Any]) -> None:
    """Raise ``RecursionError`` for a document that is nested so deeply that the library would take minutes for it."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > DEEPEST:
            raise RecursionError


def _keep_anchors(document: Any) -> None:
    """Let the library write all anchors again; by default it drops unused ones, which changes other lines."""
    remaining, visited = [document], set[int]()
    while remaining:
        value = remaining.pop()
        if id(value) in visited or (anchor := getattr(value, "anchor", None)) is None:
            continue
        visited.add(id(value))
        anchor.always_dump = anchor.value is not None
        if isinstance(value, dict):
            remaining += value.values()
        elif isinstance(value, list):
            remaining += value


def _dump(text: str) -> Any:
    """Return a function that writes a document with the indentation of its file's text, so that other lines stay."""
    yaml = _yaml()
    mapping, dash = _indentation(text)
    yaml.indent(mapping=mapping, sequence=dash + 2, offset=dash)

    def dump(document: Any) -> str:
        stream = io.StringIO()
        yaml.dump(document, stream)
        return stream.getvalue()

    return dump


def _indentation(text: str) -> tuple[int, int]:
    """Return the indentation to write: blanks before nested mappings, and before dashes of sequences below a key.

    The first of each in the text counts; the defaults are 2 and 0.
    """
    indentations: dict[bool, int] = {}  # by whether the line begins with a dash
    above = ""
    for line in text.splitlines():
        content = line.lstrip(" ")
        if not content or content[0] == "#":
            continue
        if above.rstrip().endswith(":") and (more := _blanks(line) - _blanks(above)) >= 0:
            dash = content[:2] == "- "
            if dash or more:
                indentations.setdefault(dash, more)
        above = line
    return indentations.get(False, 2), indentations.get(True, 0)


def _blanks(line: str) -> int:
    """Return the number of spaces at the beginning of a line."""
    return len(line) - len(line.lstrip(" "))


def _convert(old: Any, new: Any) -> Any:
    """Return a new value for the library to write, with the quotes of the old one.

    A text that readers of YAML 1.1 would take for another type, such as ``yes``, gets quotes.
    """
    from ruamel.yaml import scalarstring

    if isinstance(new, dict):
        return {_convert(None, key): _convert(None, value) for key, value in new.items()}
    if isinstance(new, list):
        return [_convert(None, value) for value in new]
    if not isinstance(new, str):
        return new
    if ESCAPED.search(new):
        return scalarstring.DoubleQuotedScalarString(new)
    if "\n" in new:
        return scalarstring.LiteralScalarString(new)
    if isinstance(old, scalarstring.DoubleQuotedScalarString | scalarstring.SingleQuotedScalarString):
        return type(old)(new)
    return new if _is_text_in_yaml_1_1(new) else scalarstring.DoubleQuotedScalarString(new)


def _is_text_in_yaml_1_1(text: str) -> bool:
    """Return whether a word without quotes is text for readers of YAML 1.1 too; any other, as ``yes``, gets quotes."""
    import yaml

    # No event has a tag yet: the loader's table of patterns decides, by the first character.
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], [])
    return not any(pattern.match(text) for _, pattern in resolvers)
