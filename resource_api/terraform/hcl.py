"""A reader of the part of HCL that lock files and the configuration of Terraform's command use: literals and blocks.

Source: the native syntax specification of HCL, without expressions, templates and heredocs.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|(?:\#|//)[^\n]*|/\*.*?\*/)
      | (?P<newline>\n)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<word>[A-Za-z_][\w-]*)
      | (?P<sign>[{}\[\]=:,])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None}


class Block(NamedTuple):
    """A block: its type, its labels, its attributes and the blocks in it; the type of a whole file is empty."""

    type: str
    labels: Sequence[str]
    attributes: dict[str, object]
    blocks: list[Block]

    def of_type(self, name: str) -> Iterator[Block]:
        """Yield the blocks of a type in this one."""
        return (block for block in self.blocks if block.type == name)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse(text: str) -> Block:
    """Return a file. Raise ``ValueError`` with the line of a text that is not understood.

    Examples:
        >>> parse('a "b" { c = ["d", 1] }').blocks
        [Block(type='a', labels=('b',), attributes={'c': ['d', 1]}, blocks=[])]

    """
    parser = _Parser(list(_tokens(text)))
    body = parser.body("", ())
    if parser.token.kind != "end":
        raise parser.error()
    return body


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of a lock file or CLI configuration. Raise ``ValueError`` with the line."""
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            msg = f"line {line}: {text[position : position + 20]!r} is not understood"
            raise ValueError(msg)
        if match.lastgroup not in {"space", "newline"}:
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        position = match.end()
    yield _Token("end", "the end of the file", line)


class _Parser:
    """Reads tokens from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._position]

    def error(self) -> ValueError:
        return ValueError(f"line {self.token.line}: {self.token.text} is not expected")

    def _take(self, *kinds: str, text: str | None = None) -> str:
        """Return the text of the present token, which must be one of these, and go on."""
        token = self.token
        if token.kind not in kinds or (text is not None and token.text != text):
            raise self.error()
        self._position += 1
        return str(json.loads(token.text)) if token.kind == "text" else token.text

    def _is(self, text: str) -> bool:
        return self.token.kind == "sign" and self.token.text == text

    def body(self, kind: str, labels: Sequence[str]) -> Block:
        """Return the attributes and blocks up to a closing brace or the end."""
        block = Block(kind, labels, {}, [])
        while self.token.kind == "word":
            name, words = self._take("word"), list[str]()
            if self._is("="):
                self._take("sign")
                block.attributes[name] = self._value()
                continue
            while self.token.kind in {"text", "word"}:
                words.append(self._take("text", "word"))
            self._take("sign", text="{")
            block.blocks.append(self.body(name, tuple(words)))
            self._take("sign", text="}")
        return block

    def _value(self) -> Any:
        """Read a literal value: these files need no expressions."""
        token = self.token
        if token.kind == "word" and token.text in _WORDS:
            self._position += 1
            return _WORDS[token.text]
        if token.kind == "number":
            return json.loads(self._take("number"))
        if self._is("["):
            return list(self._items("[", "]"))
        if self._is("{"):
            return dict(self._items("{", "}"))
        return self._take("text")

    def _items(self, opening: str, closing: str) -> Iterator[Any]:
        """Yield the elements of a list, or the pairs of a mapping."""
        self._take("sign", text=opening)
        while not self._is(closing):
            yield self._value() if opening == "[" else self._pair()
            if self._is(","):
                self._take("sign")
        self._take("sign", text=closing)

    def _pair(self) -> tuple[str, Any]:
        """Read a member of a mapping: ``key = value`` or ``key: value``."""
        key = self._take("text", "word")
        if not (self._is("=") or self._is(":")):
            raise self.error()
        self._take("sign")
        return key, self._value()
