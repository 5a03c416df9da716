"""The syntax of data types and of their regular expressions (Puppet language, "Data types"; Ruby's patterns).

A small recursive descent parser, because importing a parser library takes longer than a whole run. The names and the
meaning of data types are in ``datatype``.
"""

from __future__ import annotations

import re
from bisect import bisect
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.values.errors import DataTypeError
from resource_api.model.values.start_up import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Types that are nested deeper are refused, because Python's stack is finite.
DEPTH: Final = 50

#: Characters of an expression: an Enum of some thousand words fits.
_LONGEST: Final = 100_000

_TOKEN: Final = regex(
    r"""(?P<name>[A-Za-z_]\w*(?:[-.:@+]+\w+)*)
    |(?P<number>-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?!\w))
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<regex>/(?:[^/\\\[\n]|\\.|\[\^?\]?(?:\[:\^?\w+:\]|[^\]\\\n]|\\.)*\])*/)
    |(?P<mark>=>|[\[\]{},])
    |(?P<end>\Z)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_SPACE: Final = regex(r"\s*")
_ESCAPED: Final = regex(r"\\(.)", re.DOTALL)
_DOUBLE_QUOTED: Final = {"n": "\n", "t": "\t", "r": "\r", "s": " "}
_UNEXPECTED: Final = {
    "'": "the quote is not closed",
    '"': "the quote is not closed",
    "/": "no '/' ends this pattern",
    ":": "unexpected ':'; write '=>' between a key and its type",
    "(": "unexpected '('; parameters are in brackets, as in Array[String] or Hash[String, Integer]",
    "<": "unexpected '<'; parameters are in brackets, as in Array[String] or Hash[String, Integer]",
}
_LONGEST_NUMBER: Final = 400


class TypeTerm(NamedTuple):
    """A part of an expression; ``column`` counts from 1.

    ``value`` depends on ``kind``: the name of a type, a bare word, the text in quotes, a number, the text between
    slashes, or pairs of terms. ``arguments`` is None for a type without brackets.
    """

    kind: Literal["type", "word", "string", "number", "regex", "pairs"]
    value: Any
    column: int
    arguments: tuple[TypeTerm, ...] | None = None


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def read(text: str) -> TypeTerm:
    """Return the syntax tree of a data type's text, from which ``datatype.parse`` builds the data type.

    Raises ``DataTypeError`` with the column of a syntax error.
    """
    if len(text) > _LONGEST:
        raise DataTypeError(f"a data type has at most {_LONGEST} characters, not {len(text)}")
    reader = _Reader(_tokens(text))
    term = reader.term(0)
    if reader.token.kind != "end":
        raise DataTypeError(f"nothing may follow the type, got {_shown(reader.token)}", reader.token.column)
    if term.kind not in {"type", "word"}:
        raise DataTypeError("expected the name of a data type", term.column)
    return term


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of a data type's text, the last one ``end``. Raise ``DataTypeError``."""
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr] # it matches nothing as well
        match = _TOKEN.match(text, position)
        if match is None:
            raise DataTypeError(_UNEXPECTED.get(text[position], f"unexpected {text[position]!r}"), position + 1)
        tokens.append(_Token(str(match.lastgroup), match.group(), position + 1))
        position = match.end()
    return tokens


def _shown(token: _Token) -> str:
    return "the end" if token.kind == "end" else f"'{token.text}'"


class _Reader:
    """Recursive descent over tokens; the last one is the end."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.position = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        """Return the next token and advance; the last token, the end, is returned again and again."""
        token = self.token
        self.position += token.kind != "end"
        return token

    def took(self, mark: str) -> bool:
        """Advance behind ``mark``, a bracket, a comma or ``=>``, if it comes next; return whether it did."""
        is_next = self.token.kind == "mark" and self.token.text == mark
        self.position += is_next
        return is_next

    def term(self, depth: int) -> TypeTerm:
        """Read a data type, or a value that is a parameter of one. Raise ``DataTypeError`` at its column."""
        token = self.take()
        if depth > DEPTH:
            raise DataTypeError(f"types may be nested {DEPTH} levels, not deeper", token.column)
        if token.kind == "name":
            return self.name(token, depth)
        if token.kind == "number":
            return TypeTerm("number", _number(token), token.column)
        if token.kind == "string":
            return TypeTerm("string", _unquoted(token.text), token.column)
        if token.kind == "regex":
            return TypeTerm("regex", token.text[1:-1], token.column)
        if token.text == "{":
            return TypeTerm("pairs", self.pairs(depth), token.column)
        raise DataTypeError(f"expected a data type or a value, got {_shown(token)}", token.column)

    def name(self, token: _Token, depth: int) -> TypeTerm:
        """Return the term of a name that was taken: with brackets or a capital a data type, otherwise a word."""
        arguments = self.arguments(depth) if self.took("[") else None
        is_type = arguments is not None or token.text[0].isupper()
        return TypeTerm("type" if is_type else "word", token.text, token.column, arguments)

    def arguments(self, depth: int) -> tuple[TypeTerm, ...]:
        """Read the parameters of a data type up to the closing bracket."""
        terms: list[TypeTerm] = []
        while not self.took("]"):
            terms.append(self.term(depth + 1))
            self.separator("]")
        return tuple(terms)

    def pairs(self, depth: int) -> tuple[tuple[TypeTerm, TypeTerm], ...]:
        """Read the members of a ``Struct`` up to the closing brace. Raise ``DataTypeError`` for one without ``=>``."""
        pairs: list[tuple[TypeTerm, TypeTerm]] = []
        while not self.took("}"):
            key = self.term(depth + 1)
            if not self.took("=>"):
                raise DataTypeError(f"expected '=>' after the key, got {_shown(self.token)}", self.token.column)
            pairs.append((key, self.term(depth + 1)))
            self.separator("}")
        return tuple(pairs)

    def separator(self, closing: str) -> None:
        """Take a comma; raise ``DataTypeError`` without one, unless the closing mark comes next."""
        if not self.took(",") and self.token.text != closing:
            msg = f"expected ',' or '{closing}', got {_shown(self.token)}"
            if self.token.kind == "name" and self.tokens[self.position - 1].kind == "regex":  # Ruby's options: /a/i
                msg = "nothing follows the '/' that ends a pattern; its start (?i) makes it ignore case"
            raise DataTypeError(msg, self.token.column)


def _number(token: _Token) -> int | float:
    """Return the number of a token. Raise ``DataTypeError`` for a number such as 010, octal in some languages."""
    text = token.text
    if len(text) > _LONGEST_NUMBER:
        raise DataTypeError("the number is too long", token.column)
    if "x" in text:
        return int(text, 16)
    if text.lstrip("-").startswith("0") and text.lstrip("-").isdigit() and text.lstrip("-") != "0":
        raise DataTypeError(f"a number with a leading zero can be read two ways: '{text}'", token.column)
    return float(text) if set(text) & set(".eE") else int(text)


def _unquoted(text: str) -> str:
    """Return the text in quotes; as in Puppet, within single ones a backslash escapes only a quote and itself."""
    if text[0] == "'":
        return _ESCAPED.sub(lambda match: match[1] if match[1] in "'\\" else match[0], text[1:-1])
    return _ESCAPED.sub(lambda match: _DOUBLE_QUOTED.get(match[1], match[1]), text[1:-1])


def describe(term: TypeTerm) -> str:
    """Return a term in words, for the message ``expected ..., got ...``; a name or text is in quotes."""
    if term.kind == "pairs":
        return "braces"
    if term.kind == "number":
        return f"the number {term.value}"
    return f"/{term.value}/" if term.kind == "regex" else quote(term.value)


def is_bare(word: str) -> bool:
    """Return whether ``word`` can be written without quotes."""
    match = _TOKEN.fullmatch(word)
    return match is not None and match.lastgroup == "name"


def quote(word: str) -> str:
    """Return ``word`` in quotes."""
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


class PatternError(ValueError):
    """A regular expression is invalid; ``offset`` counts characters from 0."""

    def __init__(self, message: str, offset: int) -> None:
        """Keep the offset in the expression."""
        super().__init__(message)
        self.offset = offset


#: The end of the value; Python's ``$`` alone also matches before a final line break.
END: Final = r"$(?!\n)"
_PIECE: Final = r"""\\(?P<escape>.)|(?P<set>\[\^?+\]?+(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])|(?P<open_set>\[)|(?P<end>\$)
    |(?P<extension>\(\?(?![:=!]|<[=!]|i:)(?:P?<\w*>?|[a-z-]+[:)]?|.)?)
    |(?P<repeated>\{(?:\d+\}[+?]|(?:\d*,\d+|\d+,)\}\+)|[*+?]\+)|."""
_MEMBER: Final = r"(?P<start>\A\[\^?\]?)|\[:(?P<posix>\^?\w+):\]|\\(?P<escape>.)|(?P<end>\]\Z)|."
_QUANTIFIERS: Final = ("*", "+", "?", "{")
_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\r\n\f\v", "h": "0-9a-fA-F"}
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\r\n\f\v",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_SETS: Final = frozenset([*_CLASSES.values(), *_POSIX.values()])
_SET_AHEAD: Final = ("\\d", "\\w", "\\s", "\\h", "[:")
#: Characters that ECMA refuses to escape.
_NEEDLESS: Final = frozenset(" \"#%&',-/:;<=>@_`~!")


@cache
def translate(source: str) -> re.Pattern[str]:
    r"""Compile the text between Puppet's slashes; the result's ``pattern`` is valid in Python and in ECMA 262.

    Authors write Ruby's dialect; Python, validators of JSON Schema and editors execute the result, and must agree on
    it. ``^`` and ``\A`` match the value's start, ``$``, ``\z`` and ``\Z`` its end; classes are ASCII.
    ``docs/type-reference.md`` lists the syntax. Raises ``PatternError``.
    """
    pieces = list(_pieces(source))
    if source.startswith("(?i)"):  # only as a group it means the same everywhere
        pieces = [(0, "(?i:"), *pieces[1:], (len(source), ")")]
    try:
        return re.compile("".join(text for _, text in pieces))
    except re.error as error:
        ends = list(accumulate(len(text) for _, text in pieces))
        offset, _ = pieces[min(bisect(ends, error.pos or 0), len(pieces) - 1)]
        raise PatternError(error.msg, offset) from None
    except (OverflowError, RecursionError):
        raise PatternError("it is too large", 0) from None


def _pieces(source: str) -> Iterator[tuple[int, str]]:
    """Yield offset and translation of each part of a regular expression in Ruby's dialect.

    With the offset, in ``source``, an error in the translation gets its position in the author's text. Raise
    ``PatternError`` for a part that is not supported.
    """
    for match in re.finditer(_PIECE, source, re.VERBOSE | re.DOTALL):
        if refusal := _refusal(match):
            raise PatternError(refusal, match.start())
        if match["set"]:
            yield from _class_pieces(match["set"], match.start())
        else:
            yield match.start(), _piece(match)


def _class_pieces(source: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield offset and translation of each part of a character class that begins at ``start``, as ``_pieces`` does.

    Raise ``PatternError`` for a part that is not supported.
    """
    previous = ""
    for match in re.finditer(_MEMBER, source, re.DOTALL):
        if refusal := _class_refusal(match):
            raise PatternError(refusal, start + match.start())
        previous = _class_piece(match, previous)
        yield start + match.start(), previous


def _refusal(match: re.Match[str]) -> str:
    """Return the reason that a part of a regular expression is not supported, or "" if it is.

    Refused are parts that engines do not know, or read differently: ``(?x)``, or two quantifiers such as ``{2}+``.
    """
    extension, repeated = match["extension"], match["repeated"]
    if match["open_set"]:
        return "a character class is not closed"
    # At the start, ``translate`` makes a group of it.
    if extension and not (extension == "(?i)" and match.start() == 0):
        return f"'{extension}' is not supported; groups are (, (?:, (?i:, (?=, (?!, (?<= and (?<!"
    if repeated:
        times, sign = repeated[:-1], repeated[-1]
        return f"'{repeated}' means other things in Ruby and elsewhere; write (?:...{times}){sign}, or {times} alone"
    return ""


def _piece(match: re.Match[str]) -> str:
    r"""Translate one part of a regular expression, outside of character classes, from Ruby's dialect.

    ``\A`` becomes ``^``, and ``\d`` the class ``[0-9]``, because engines differ in the characters of ``\d``. Most parts
    are the same in all dialects.
    """
    escape = match["escape"]
    if match["end"] or (escape and escape in "zZ"):
        # As a group, so that a quantifier after it applies to all of it.
        return f"(?:{END})" if match.string.startswith(_QUANTIFIERS, match.end()) else END
    if escape == "A":
        return "^"
    if escape and escape.lower() in _CLASSES:
        return f"[{'^' if escape.isupper() else ''}{_CLASSES[escape.lower()]}]"
    return escape if escape in _NEEDLESS else match.group()  # without a backslash that ECMA refuses


def _class_refusal(match: re.Match[str]) -> str:
    """Return why a part of a character class is not supported, or "" if it is."""
    text, posix = match.group(), match["posix"]
    if posix and posix not in _POSIX:
        return f"unknown class '[:{posix}:]'"
    if text == "[" and not match["start"]:
        return r"a character class within another is not supported; write \[ for the bracket"
    if text in "-&~|" and match.string.startswith(text, match.end()):  # an operator on sets for some engines
        return f"'{text * 2}' in a character class is not supported; write the character once"
    return ""


def _class_piece(match: re.Match[str], previous: str) -> str:
    r"""Translate one part of a character class, such as ``\d`` or ``[:alpha:]``, into a form that all engines know.

    ``previous``: the translation of the part before it, on which the meaning of a hyphen depends.
    """
    text, escape = match.group(), match["escape"]
    if match["start"]:
        return text.replace("]", r"\]")
    if match["posix"]:
        return _POSIX[match["posix"]]
    if escape:
        return _CLASSES.get(escape, "/" if escape == "/" else text)
    # A hyphen beside a set, as in ``[\d-x]``, is itself and begins no range; engines agree on it only with a backslash.
    is_beside_set = previous in _SETS or match.string.startswith(_SET_AHEAD, match.end())
    return r"\-" if text == "-" and is_beside_set else text
