"""Explain mistakes in YAML by their line: indentation, colons, quotes, and values that need quotes.

Messages are constant. The corrected line is separate from them, because a line may hold a secret; a message repeats
only texts that look like references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.manifest.yaml_scalar import quote
from resource_api.model.values.start_up import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.document import Position

#: A longer line is not written by hand, and a hostile one must not cost more.
_LONGEST_LINE: Final = 1000
#: The key of a line, with the indentation before it and the space after its colon.
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

QUOTING: Final = "a reference inside [...] or {...}, or with ': ' or ' #' in its title, needs quotes"
#: A reference whose end is missing: YAML takes `` #`` in a title for the beginning of a comment.
_CUT_REFERENCE: Final = regex(r"[A-Za-z]\w*\[[^\]]*\Z")
_WORD: Final = regex(r"(?<!\w)[A-Za-z]\w*\[")
# A capital letter marks a reference; other texts of this form may be secrets.
_PASTABLE: Final = regex(r"(?<![\w\"':])(?:\$\{|[A-Z][a-z0-9_]*\[)")
#: The title of a reference in quotes, as Puppet writes it.
_QUOTED_TITLE: Final = regex(r"\[(['\"])(.*)\1\]\Z")


class Advice(NamedTuple):
    """A message about a mistake at a position; ``paste`` is the corrected line, without its indentation."""

    position: Position
    message: str
    paste: str = ""


class Failure(NamedTuple):
    """A failure of the parser: its words, its position, the start of the construct, and the text's lines."""

    problem: str
    context: str
    position: Position
    start: Position
    lines: Sequence[str]

    def line(self, number: int) -> str:
        """Return a line, counted from 1, or an empty string if it is missing or too long."""
        line = self.lines[number - 1] if 0 < number <= len(self.lines) else ""
        return line if len(line) <= _LONGEST_LINE else ""


def advise(failure: Failure) -> Advice | None:
    """Return the advice of the first rule that knows the failure, or None if its line gives no reason."""
    message = f"{failure.problem} {failure.context}"
    for words, rule in _RULES:
        if words in message and (advice := rule(failure)):
            return advice
    return None


def value_needs_quotes(line: str, position: Position) -> Advice:
    """Return the advice to quote a value, because its first character, at ``position``, is special in YAML.

    The text to paste is the corrected line if the value is all behind its key, or else the quoted item of ``[...]``.
    """
    begin, start = position[1] - 1, _value_start(line)
    # Of '{{ x }}' YAML refuses the second brace.
    is_whole_value = begin == start or line[start : begin + 1] == "{{"
    message = f"a value that begins with '{line[begin : begin + 1]}' needs quotes"
    if is_whole_value:
        return Advice(position, message, _with_quotes(line))
    item = _ITEM.match(line, begin)
    return Advice(position, message, quote(item[1].rstrip()) if item else "")


def _value_start(line: str) -> int:
    """Return the offset of the value in a line ``key: value`` or ``- value``, otherwise that of its text."""
    key = _KEY.match(line)
    return key.end() if key else len(line) - len(line.lstrip(" -"))


def _begins_value(line: str, position: Position) -> bool:
    """Return whether the value of a line starts at a position: then all of it is quoted, not an item of ``[...]``."""
    return _value_start(line) == position[1] - 1


def _with_quotes(line: str) -> str:
    """Return a line ``key: value`` or ``- value`` with its value in quotes, to paste; "" for any other line."""
    start = _value_start(line)
    value = line[start:].rstrip()
    if not value or not (_KEY.match(line) or line.lstrip().startswith("- ")):
        return ""
    return line[:start].lstrip() + quote(value)


def _first_character(failure: Failure) -> Advice | None:
    """Explain a tab as indentation, and a value that begins with a character that YAML reserves."""
    line, column = failure.line(failure.position[0]), failure.position[1]
    if line[column - 1 : column] == "\t":
        return Advice(failure.position, "a tab cannot indent; use spaces")
    if line[column - 1 : column] in {"@", "`", "%"}:
        return value_needs_quotes(line, failure.position)
    return None


def _construct(failure: Failure) -> Advice | None:
    """Explain a value whose first character makes it an alias (``*``), an anchor, a tag or a block in YAML."""
    line = failure.line(failure.start[0])
    return value_needs_quotes(line, failure.start) if line else None


def _second_colon(failure: Failure) -> Advice | None:
    """Explain a colon where no key can stand, or return None.

    Behind the key of its line, as in ``title: a: b``, the colon belongs to a value that needs quotes. If it is the
    colon of the key itself, the line before lacks its own colon, or this line is indented too deep.
    """
    line, (number, column) = failure.line(failure.position[0]), failure.position
    key = _KEY.match(line)
    if key and key.end() < column:
        if quoting_hint(line[key.end() :]):  # a reference without quotes has a hint of its own
            return None
        return Advice(failure.position, "a value that holds ': ' or ends in ':' needs quotes", _with_quotes(line))
    if "[" in line[: column - 1]:  # in a reference or a list the colon has other causes
        return None
    previous = next((number for number in range(number - 1, 0, -1) if failure.line(number).strip()), 0)
    return missing_colon(failure.line(previous), previous) or _deeper(failure, previous)


def missing_colon(line: str, number: int) -> Advice | None:
    """Explain a line ``number`` without a proper colon, which YAML reads as the start of a text; None if it has one.

    ``port 80``, ``port:80``, ``port = 80`` and ``port => 80,`` all have the corrected line ``port: 80``.
    """
    if match := _RESOURCE.match(line):
        return Advice((number, match.end(1) + 1), "a resource needs a colon behind it", f"{match[1]}:")
    if _KEY.match(line) or not (match := _NO_COLON.match(line)):
        return None
    _, key, separator, value = match.groups()
    column = match.start(3) + 1
    if separator.strip() == ":":
        message = "a colon needs a space behind it"
    elif separator.strip():
        column += len(separator) - len(separator.lstrip())
        message = f"a value stands behind a colon, not behind '{separator.strip()}'"
    else:
        message = "there is no colon behind this key"
        column = match.start(2) + 1
    value = value.rstrip(",") if "=>" in separator else value
    return Advice((number, column), message, f"{key}: {value}")


def _deeper(failure: Failure, line_before: int) -> Advice | None:
    """Explain a line that is indented deeper than the line before, whose key has a value already, or return None.

    ``line_before``: the number of that line, or 0 without one.
    """
    line = failure.line(failure.position[0])
    indentation, previous = _indentation(line), _indentation(failure.line(line_before))
    if not line_before or indentation <= previous:
        return None
    message = f"this line is indented by {indentation} spaces, "
    message += f"and the one before it, which has a value already, by {previous}"
    return Advice((failure.position[0], indentation + 1), message)


def _no_key(failure: Failure) -> Advice | None:
    """Explain a line that is no key: text behind a quoted value, Puppet's syntax, or a wrong indentation.

    Return None where the parser's own message is the better one.
    """
    line = failure.line(failure.position[0])
    before = line[: failure.position[1] - 1].rstrip()
    if before:
        return _text_behind_value(failure, line, before) if before[-1] in "\"']}" else None
    if advice := _puppet_resource(failure):
        return advice
    if line.lstrip().startswith(("}", "]")):
        return Advice(failure.position, f"this {line.lstrip()[0]} closes nothing")
    if line.lstrip().startswith("- "):
        message = "an item of a list stands where an attribute is expected; indent it under a key"
        return Advice(failure.position, message)
    return _wrong_indentation(failure)


def _text_behind_value(failure: Failure, line: str, before: str) -> Advice | None:
    """Explain text behind a closed value, as in ``a: "b" c``; ``before``: the line up to the end of the value.

    Return None for a line with a reference without quotes, as in ``- File["a"] c``: its hint explains that better.
    """
    if quoting_hint(before):
        key = _KEY.match(line)
        if not key or quoting_hint(line[key.end() :]):
            return None
    message = f"nothing can follow the closing {before[-1]} of a value; put quotes around all of it"
    return Advice(failure.position, message, _with_quotes(line))


def _puppet_resource(failure: Failure) -> Advice | None:
    """Explain Puppet's syntax, ``file { '/etc/motd': ...``, if a resource begins in one of the last 50 lines, or None.

    The parser fails within the resource, a few lines behind its start; a search of the whole file could take long.
    """
    last = failure.position[0]
    for number in range(max(last - 50, 0) + 1, last + 1):
        if resource := _PUPPET.match(failure.line(number)):
            reference = f"{resource[1].capitalize()}[{resource[3]}]:"
            return Advice((number, 1), "a resource is written as a key, without braces and arrows", reference)
    return None


def _wrong_indentation(failure: Failure) -> Advice | None:
    """Explain a line whose indentation fits none of the lines before it, with the nearest levels that would fit.

    Return None if it is that of an outer mapping, so that the line is wrong for another reason.
    """
    number, indentation = failure.position[0], failure.position[1] - 1
    lines = failure.lines[max(number - 100, 0) : number - 1]
    levels = sorted({_indentation(line) for line in lines if line.strip()})
    if indentation in levels[:-1] and not _is_too_shallow(failure):  # it fits an outer mapping
        return None
    lower = [level for level in levels if level < indentation]
    higher = [level for level in levels if level > indentation]
    near = " or ".join(map(str, lower[-1:] + higher[:1]))
    message = f"this line is indented by {indentation} spaces, which fits no line before it; write {near}"
    return Advice(failure.position, message) if near else None


def _is_too_shallow(failure: Failure) -> bool:
    """Return whether the failed line is indented less than a line of the mapping that it was to continue."""
    column = failure.position[1] - 1
    return any(_indentation(line) > column for line in failure.lines[failure.start[0] : failure.position[0] - 1])


def _open_quote(failure: Failure) -> Advice | None:
    """Explain a quote without its end; to paste, add it at the end of the line if the value begins with the quote."""
    line = failure.line(failure.start[0])
    quote = line[failure.start[1] - 1 : failure.start[1]]
    paste = line.strip() + quote if _KEY.match(line) and quote and _begins_value(line, failure.start) else ""
    return Advice(failure.start, "this quote has no end", paste)


def _escape(failure: Failure) -> Advice | None:
    """Explain a backslash in double quotes that begins no escape; paste a simple line with single quotes."""
    line = failure.line(failure.position[0])
    inner = line[failure.start[1] : line.rfind('"')] if failure.start[0] == failure.position[0] else ""
    paste = ""
    if inner and (key := _KEY.match(line)) and line.rstrip().endswith('"') and _begins_value(line, failure.start):
        paste = key[2] + "'" + inner.replace("'", "''") + "'"
    return Advice(failure.position, "a backslash in double quotes begins an escape sequence; use single quotes", paste)


def _surrogate(failure: Failure) -> Advice | None:
    r"""Explain JSON's two escapes for a character beyond U+FFFF; paste YAML's single one.

    JSON's ``\ud83d\ude00`` is YAML's ``\U0001F600``, for example.
    """
    line = failure.line(failure.position[0])
    whole = _SURROGATES.sub(lambda pair: f"\\U{ord(bytes.fromhex(pair[1] + pair[2]).decode('utf-16-be')):08X}", line)
    if whole == line:
        half = "invalid Unicode character: this escape is half of one"
        return Advice(failure.position, half) if _SURROGATE.search(line) else None
    message = "invalid Unicode character: YAML has no escapes for halves of one; write it itself, or \\U and 8 digits"
    return Advice(failure.position, message, whole.strip())


def _open_bracket(failure: Failure) -> Advice | None:
    """Explain a bracket without its end, or a missing comma in it; None if a reference in it lacks quotes.

    A failure on a later line, or at the bracket itself, means that the end is missing; one on the bracket's line is
    mostly a missing comma.
    """
    line = failure.line(failure.start[0])
    bracket = line[failure.start[1] - 1 : failure.start[1]]
    # The text behind the bracket, by line, to the line of the failure.
    inner = [line[failure.start[1] :], *map(failure.line, range(failure.start[0] + 1, failure.position[0] + 1))]
    if bracket not in _ENDS or any(map(quoting_hint, inner)):
        return None
    if failure.position == failure.start or failure.position[0] > failure.start[0]:
        return Advice(failure.start, f"this {bracket} has no {_ENDS[bracket]}")
    return Advice(failure.position, "there is no comma before this, or a value needs quotes")


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
    ("scanning a simple key", lambda failure: missing_colon(failure.line(failure.start[0]), failure.start[0])),
)


def lacks_bracket(value: object) -> bool:
    """Return whether a value is a reference without its ``]``: to YAML a `` #`` in its title is a comment."""
    return type(value) is str and _CUT_REFERENCE.match(value) is not None


def value_quoting_hint(value: object) -> str:
    """Return the hint that a reference needs quotes if YAML has probably misread one as this value, or "".

    YAML reads the list item ``- Type[a: b]`` as the mapping ``{"Type[a": "b]"}``, whose one key shows the reference.
    """
    if type(value) is dict and len(value) == 1:
        ((key, rest),) = value.items()
        return quoting_hint(key if rest is None else f"{key}: {rest}")
    return QUOTING if type(value) is list else ""


def quoting_hint(line: str) -> str:
    """Return the hint for a line of YAML with a reference that may lack quotes, or "".

    The hint shows the references of the line in quotes, to paste. Only a capital letter and brackets mark a reference;
    other text of the line may be secret, and is never shown.
    """
    line = line[:_LONGEST_LINE]
    starts = [match.start() for match in _PASTABLE.finditer(line) if not _inside_quotes(line[: match.start()])]
    pastable = [cut for cut in (_balanced(line, start) for start in starts) if cut]
    # A reference within another one is part of its text.
    pastable = [cut for cut in pastable if not any(cut != outer and cut in outer for outer in pastable)]
    if not pastable and not _WORD.search(line):
        return ""
    plain = dict.fromkeys(_QUOTED_TITLE.sub(r"[\2]", cut) for cut in pastable)  # File['a'] → File[a]
    return f"{QUOTING}: write {', '.join(map(quote, plain))}" if plain else QUOTING


def first_quoting_hint(lines: Sequence[str], near: Sequence[int]) -> tuple[Position | None, str]:
    """Return the position and the hint of a reference without quotes near a syntax error, or None and "".

    A reference that a comment cuts off, as in ``File[a #1]``, is certainly the mistake, and has its position. Any other
    reference only may be the mistake: its hint is returned without a position. ``near``: numbers of lines, from 1, the
    likeliest first.
    """
    numbers = [number for number in dict.fromkeys(near) if 0 < number <= len(lines)]
    for number in numbers:
        if column := _cut_by_comment(lines[number - 1]):
            return (number, column), quoting_hint(lines[number - 1])
    return None, next(filter(None, (quoting_hint(lines[number - 1]) for number in numbers)), "")


def _cut_by_comment(line: str) -> int:
    """Return the column, from 1, of a reference with a `` #`` in it, which begins a comment in YAML; 0 if none."""
    line = line[:_LONGEST_LINE]
    for match in _PASTABLE.finditer(line):
        start = match.start()
        comment = line.find(" #", start)
        if not _inside_quotes(line[:start]) and 0 < comment < start + len(_balanced(line, start)):
            return start + 1
    return 0


def _inside_quotes(before: str) -> bool:
    """Return whether the text behind ``before`` is in quotes: an odd number of them is open."""
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _balanced(line: str, start: int) -> str:
    """Return the text from ``start`` to the end of its first bracket, ``File[a[b]]`` of ``File[a[b]] c``, or ""."""
    depth = 0
    for offset in range(start, len(line)):
        depth += (line[offset] in "[{") - (line[offset] in "]}")
        if depth == 0 and line[offset] in "]}":
            return line[start : offset + 1]
    return ""
