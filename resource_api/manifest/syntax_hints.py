"""Explain mistakes in YAML by their line: indentation, colons, quotes, and values that need quotes.

Messages are constant. The corrected line is separate from them, because a line may hold a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.manifest.yaml_scalar import quote, quoting_hint
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.document import Position

#: A longer line is not written by hand, and a hostile one must not cost more.
_LONGEST_LINE: Final = 1000
#: The key of a line, with what stands before it and the space behind its colon.
_KEY: Final = regex(r"(\s*(?:- +)*)((?:[A-Za-z]\w*\[.*?\]|\"[^\"]*\"|'[^']*'|[\w.-]+) *:[ \t]+)")
#: A key without a colon and a space behind it, and the rest of the line.
_NO_COLON: Final = regex(r"(\s*(?:- +)*)([A-Za-z][\w.-]*)( *=>? *| *:(?=\S)| +)(\S.*?)\s*\Z")
_RESOURCE: Final = regex(r"\s*([A-Za-z]\w*\[.*\])\s*\Z")
#: The first line of a resource in Puppet's language.
_PUPPET: Final = regex(r"\s*([a-z]\w*)\s*\{\s*(['\"])(.*)\2\s*:")
#: Escapes of JSON: the two halves of a character beyond U+FFFF, and any half.
_SURROGATES: Final = regex(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_SURROGATE: Final = regex(r"\\u[dD][89a-fA-F]")
_ENDS: Final = {"[": "]", "{": "}"}
#: A value inside ``[...]`` or ``{...}``.
_ITEM: Final = regex(r"([^,\[\]{}#\"']+)[,\]}]")


class Advice(NamedTuple):
    """What is wrong and where; ``paste`` is how the line, without its indentation, is to be written."""

    place: Position
    message: str
    paste: str = ""


class Failure(NamedTuple):
    """A failure of the parser: its words, where it noticed, where the construct begins, and the text's lines."""

    problem: str
    context: str
    place: Position
    begun: Position
    lines: Sequence[str]

    def line(self, number: int) -> str:
        """Return a line, counted from 1; empty where there is none, or it is too long."""
        line = self.lines[number - 1] if 0 < number <= len(self.lines) else ""
        return line if len(line) <= _LONGEST_LINE else ""


def advise(failure: Failure) -> Advice | None:
    """Return what is wrong; None where the line does not tell."""
    return next((advice for words, rule in _RULES if words in _words(failure) and (advice := rule(failure))), None)


def _words(failure: Failure) -> str:
    return f"{failure.problem} {failure.context}"


def value_needs_quotes(line: str, place: Position) -> Advice:
    """Return the advice about a value whose first character, at ``place``, means something else in YAML."""
    begin, start = place[1] - 1, _value_start(line)
    # Of '{{ x }}' YAML refuses the second brace.
    whole = begin == start or line[start : begin + 1] == "{{"
    message = f"a value that begins with '{line[begin : begin + 1]}' needs quotes"
    return Advice(place, message, _with_quotes(line) if whole else _item_with_quotes(line, begin))


def _value_start(line: str) -> int:
    """Return where the value of ``key: value`` or ``- value`` begins, or the line that is neither."""
    found = _KEY.match(line)
    return found.end() if found else len(line) - len(line.lstrip(" -"))


def _begins_value(line: str, place: Position) -> bool:
    """Whether a place is where the value of a line begins, not inside ``[...]`` or ``{...}``."""
    return _value_start(line) == place[1] - 1


def _with_quotes(line: str) -> str:
    """Return ``key: "value"`` or ``- "value"`` for a line, empty where the line is neither."""
    start = _value_start(line)
    value = line[start:].rstrip()
    if not value or not (_KEY.match(line) or line.lstrip().startswith("- ")):
        return ""
    return line[:start].lstrip() + quote(value)


def _item_with_quotes(line: str, begin: int) -> str:
    """Return the value inside ``[...]`` or ``{...}`` that begins there in quotes, empty where its end is not known."""
    found = _ITEM.match(line, begin)
    return quote(found[1].rstrip()) if found else ""


def _first_character(failure: Failure) -> Advice | None:
    line, column = failure.line(failure.place[0]), failure.place[1]
    if line[column - 1 : column] == "\t":
        return Advice(failure.place, "a tab cannot indent; use spaces")
    if line[column - 1 : column] in {"@", "`", "%"}:
        return value_needs_quotes(line, failure.place)
    return None


def _construct(failure: Failure) -> Advice | None:
    """Explain an alias, an anchor, a tag or a block of text that was meant as a value."""
    line = failure.line(failure.begun[0])
    return value_needs_quotes(line, failure.begun) if line else None


def _second_colon(failure: Failure) -> Advice | None:
    line, (number, column) = failure.line(failure.place[0]), failure.place
    found = _KEY.match(line)
    if found and found.end() < column:
        if quoting_hint(line[found.end() :]):
            return None
        return Advice(failure.place, "a value that holds ': ' or ends in ':' needs quotes", _with_quotes(line))
    if "[" in line[: column - 1]:
        return None
    before = next((each for each in range(number - 1, 0, -1) if failure.line(each).strip()), 0)
    return missing_colon(failure.line(before), before) or _deeper(failure, before)


def missing_colon(line: str, number: int) -> Advice | None:
    """Explain a line that has become the beginning of a text of several lines, because it has no colon."""
    if found := _RESOURCE.match(line):
        return Advice((number, found.end(1) + 1), "a resource needs a colon behind it", f"{found[1]}:")
    if _KEY.match(line) or not (found := _NO_COLON.match(line)):
        return None
    place = (number, found.start(3) + 1)
    if found[3].strip() == ":":
        message = "a colon needs a space behind it"
    elif found[3].strip():
        place = (number, found.start(3) + 1 + len(found[3]) - len(found[3].lstrip()))
        message = f"a value stands behind a colon, not behind '{found[3].strip()}'"
    else:
        message = "there is no colon behind this key"
        place = (number, found.start(2) + 1)
    value = found[4].rstrip(",") if "=>" in found[3] else found[4]
    return Advice(place, message, f"{found[2]}: {value}")


def _deeper(failure: Failure, before: int) -> Advice | None:
    line = failure.line(failure.place[0])
    own, other = _indentation(line), _indentation(failure.line(before))
    if not before or own <= other:
        return None
    message = f"this line is indented by {own} spaces, and the one before it, which has a value already, by {other}"
    return Advice((failure.place[0], own + 1), message)


def _no_key(failure: Failure) -> Advice | None:
    line, (number, column) = failure.line(failure.place[0]), failure.place
    before = line[: column - 1].rstrip()
    if before.endswith(('"', "'", "]", "}")):
        if quoting_hint(before):
            found = _KEY.match(line)
            if not found or quoting_hint(line[found.end() :]):
                return None
        message = f"nothing can follow the closing {before[-1]} of a value; put quotes around all of it"
        return Advice(failure.place, message, _with_quotes(line))
    if before:
        return None
    if resource := next(filter(None, map(_PUPPET.match, failure.lines[max(number - 50, 0) : number])), None):
        begun = next(each for each in range(1, number + 1) if failure.line(each) == resource.string)
        reference = f"{resource[1].capitalize()}[{resource[3]}]:"
        return Advice((begun, 1), "a resource is written as a key, without braces and arrows", reference)
    if line.lstrip().startswith(("}", "]")):
        return Advice(failure.place, f"this {line.lstrip()[0]} closes nothing")
    if line.lstrip().startswith("- "):
        return Advice(failure.place, "an item of a list stands where an attribute is expected; indent it under a key")
    levels = sorted({_indentation(each) for each in failure.lines[max(number - 100, 0) : number - 1] if each.strip()})
    near = [each for each in levels if each < column - 1][-1:] + [each for each in levels if each > column - 1][:1]
    if column - 1 in levels and levels.index(column - 1) < len(levels) - 1 and not _is_too_shallow(failure):
        return None
    wanted = " or ".join(map(str, near))
    message = f"this line is indented by {column - 1} spaces, which fits no line before it; write {wanted}"
    return Advice(failure.place, message) if near else None


def _is_too_shallow(failure: Failure) -> bool:
    """Whether a line is indented less than the first one of its mapping, and more than what that belongs to."""
    column = failure.place[1] - 1
    return any(_indentation(line) > column for line in failure.lines[failure.begun[0] : failure.place[0] - 1])


def _open_quote(failure: Failure) -> Advice | None:
    line = failure.line(failure.begun[0])
    quote = line[failure.begun[1] - 1 : failure.begun[1]]
    paste = line.strip() + quote if _KEY.match(line) and quote and _begins_value(line, failure.begun) else ""
    return Advice(failure.begun, "this quote has no end", paste)


def _escape(failure: Failure) -> Advice | None:
    line = failure.line(failure.place[0])
    inner = line[failure.begun[1] : line.rfind('"')] if failure.begun[0] == failure.place[0] else ""
    paste = ""
    if inner and (found := _KEY.match(line)) and line.rstrip().endswith('"') and _begins_value(line, failure.begun):
        paste = found[2] + "'" + inner.replace("'", "''") + "'"
    return Advice(failure.place, "a backslash in double quotes begins an escape sequence; use single quotes", paste)


def _surrogate(failure: Failure) -> Advice | None:
    """Explain an escape of JSON for a character beyond U+FFFF, as two halves."""
    line = failure.line(failure.place[0])
    whole = _SURROGATES.sub(lambda pair: f"\\U{_joined(pair[1], pair[2]):08X}", line)
    if whole == line:
        half = "invalid Unicode character: this escape is half of one"
        return Advice(failure.place, half) if _SURROGATE.search(line) else None
    message = "invalid Unicode character: YAML has no escapes for halves of one; write it itself, or \\U and 8 digits"
    return Advice(failure.place, message, whole.strip())


def _joined(high: str, low: str) -> int:
    """Return the code point of a surrogate pair (The Unicode Standard, 3.9)."""
    return 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00


def _open_bracket(failure: Failure) -> Advice | None:
    line = failure.line(failure.begun[0])
    bracket = line[failure.begun[1] - 1 : failure.begun[1]]
    inner = [line[failure.begun[1] :], *map(failure.line, range(failure.begun[0] + 1, failure.place[0] + 1))]
    if bracket not in _ENDS or any(map(quoting_hint, inner)):
        return None
    if failure.place == failure.begun or failure.place[0] > failure.begun[0]:
        return Advice(failure.begun, f"this {bracket} has no {_ENDS[bracket]}")
    return Advice(failure.place, "there is no comma before this, or a value needs quotes")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


#: Words of the parser → the rule that explains such a failure.
_RULES: Final[tuple[tuple[str, Callable[[Failure], Advice | None]], ...]] = (
    ("cannot start any token", _first_character),
    ("scanning an alias", _construct),
    ("scanning an anchor", _construct),
    ("scanning a tag", _construct),
    ("scanning a block scalar", _construct),
    ("unknown escape character", _escape),
    ("invalid Unicode character escape code", _surrogate),
    ("scanning a quoted scalar", _open_quote),
    ("parsing a flow", _open_bracket),
    ("mapping values are not allowed", _second_colon),
    ("parsing a block mapping", _no_key),
    ("scanning a simple key", lambda failure: missing_colon(failure.line(failure.begun[0]), failure.begun[0])),
)
