"""Translates Puppet's regular expressions into the dialect that Python and JSON Schema share.

Authors of types write Ruby's dialect; Python, jsonschema and editors (ECMA 262) execute the result and must agree on
it. ``^`` and ``$`` match at the start and the end of the value only, not at line breaks.
"""

from __future__ import annotations

import re
from bisect import bisect
from functools import cache
from typing import Final

#: The end of the value; Python's ``$`` alone also matches before a final line break.
END: Final = r"$(?!\n)"

# Compiled with the first pattern, because many runs have none.
_PIECE: Final = r"""\\k<(?P<back>\w+)>|\\(?P<escape>.)|(?P<set>\[\^?\]?)
    |\(\?(?P<flags>[a-z]*-?[a-z]*)(?P<scope>[:)])|\(\?P?<(?P<name>[A-Za-z_]\w*)>|(?P<note>\(\?\#[^)]*\))
    |(?P<again>\{(?:\d+\}[+?]|(?:\d*,\d+|\d+,)\}\+))
    |(?P<open>\((?P<special>\?)?)|(?P<close>\))|(?P<start>\^)|(?P<end>\$)"""
_MEMBER: Final = r"\[:(?P<posix>\^?\w+):\]|\\(?P<escape>.)|(?P<close>\])|(?P<other>.)"
_QUANTIFIERS: Final = ("*", "+", "?", "{")
_MEMBERS: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\r\n\f\v", "h": "0-9a-fA-F"}
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
_SETS: Final = frozenset([*_MEMBERS.values(), *_POSIX.values()])
_SET_AHEAD: Final = ("\\d", "\\w", "\\s", "\\h", "[:")
#: Characters that ECMA refuses to escape.
_NEEDLESS: Final = frozenset(" \"#%&',-/:;<=>@_`~!")


class PatternError(ValueError):
    """A regular expression is invalid; ``offset`` counts characters from 0."""

    def __init__(self, message: str, offset: int) -> None:
        """Keep the offset in the expression."""
        super().__init__(message)
        self.offset = offset


@cache
def translate(source: str) -> re.Pattern[str]:
    r"""Compile the text between Puppet's slashes; the ``pattern`` of the result is in the shared dialect.

    ``^`` and ``\A`` match the value's start, ``$``, ``\z`` and ``\Z`` its end; digits, word characters and white space
    are ASCII, as in Ruby. So are POSIX classes such as ``[:alpha:]``, which in Ruby are Unicode: within ``[]`` no class
    of Unicode has a spelling that Python and ECMA share. Raises ``PatternError``.
    """
    translator = _Translator(source)
    translator.run()
    try:
        return re.compile("".join(translator.pieces))
    except re.error as error:
        raise PatternError(error.msg, translator.origin(error.pos or 0)) from None
    except (OverflowError, RecursionError):
        msg = "it is too large"
        raise PatternError(msg, 0) from None


class _Translator:
    """One pass over a regular expression, which keeps the origin of each piece."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.pieces: list[str] = []
        self.offsets: list[int] = []
        self.groups = 0
        self.names: dict[str, int] = {}
        #: For each open group: how many groups that were added for inline flags end with it.
        self.open = [0]

    def emit(self, text: str, offset: int) -> None:
        self.pieces.append(text)
        self.offsets.append(offset)

    def origin(self, position: int) -> int:
        """Return the offset in the source of a position in the result."""
        ends = [0]
        for piece in self.pieces:
            ends.append(ends[-1] + len(piece))
        return self.offsets[min(bisect(ends, position), len(self.offsets)) - 1] if self.offsets else 0

    def run(self) -> None:
        position = 0
        piece = re.compile(_PIECE, re.VERBOSE | re.DOTALL)
        while position < len(self.source):
            found = piece.match(self.source, position)
            if found is None:
                self.emit(self.source[position], position)
                position += 1
            elif found["set"]:
                position = self.members(found)
            else:
                self.piece(found)
                position = found.end()
        self.emit(")" * self.open[0], position)

    def piece(self, found: re.Match[str]) -> None:
        at = found.start()
        if found["escape"]:
            self.emit(self.escape(found), at)
        elif found["back"]:
            if found["back"] not in self.names:
                msg = f"no group is called '{found['back']}'"
                raise PatternError(msg, at)
            self.emit(rf"(?:\{self.names[found['back']]})", at)
        elif repeated := found["again"]:
            times, sign = repeated[:-1], repeated[-1]
            msg = f"'{repeated}' means other things in Ruby and elsewhere; write (?:...{times}){sign}, or {times} alone"
            raise PatternError(msg, at)
        elif found["scope"]:
            self.flags(found)
        elif found["name"] or found["open"]:
            self.open.append(0)
            if found["name"]:
                self.names[found["name"]] = self.groups + 1
            self.groups += not found["special"]
            self.emit(found["open"] or "(", at)
        elif found["close"]:
            self.emit(")" * (1 + (self.open.pop() if len(self.open) > 1 else 0)), at)
        elif not found["note"]:
            self.emit("^" if found["start"] else self.end(found), at)

    def end(self, found: re.Match[str]) -> str:
        quantified = self.source.startswith(_QUANTIFIERS, found.end())
        return f"(?:{END})" if quantified else END

    def escape(self, found: re.Match[str]) -> str:
        letter = found["escape"]
        if letter in "zZ":
            return self.end(found)
        if letter == "A":
            return "^"
        if letter.lower() in _MEMBERS:
            return f"[{'^' if letter.isupper() else ''}{_MEMBERS[letter.lower()]}]"
        return letter if letter in _NEEDLESS else found.group()

    def flags(self, found: re.Match[str]) -> None:
        """Translate inline flags; Ruby's ``m`` is Python's ``s``, and ``(?i)`` holds until the end of its group."""
        on, _, off = found["flags"].partition("-")
        if "x" in on or (set(on + off) - set("imx")):
            msg = f"the flags '{found['flags']}' are not supported, only i and m"
            raise PatternError(msg, found.start())
        off = off.replace("x", "")
        spelt = (on + (f"-{off}" if off else "")).replace("m", "s")
        if found["scope"] == ")":
            self.open[-1] += 1
        else:
            self.open.append(0)
        self.emit(f"(?{spelt}:", found.start())

    def members(self, found: re.Match[str]) -> int:
        """Translate a character class; return the offset behind it."""
        self.emit(found["set"].replace("]", r"\]"), found.start())
        position = found.end()
        next_member = re.compile(_MEMBER, re.DOTALL)
        while member := next_member.match(self.source, position):
            position = member.end()
            self.emit(self.member(member), member.start())
            if member["close"]:
                return position
        msg = "a character class is not closed"
        raise PatternError(msg, found.start())

    def member(self, found: re.Match[str]) -> str:
        if (posix := found["posix"]) is not None:
            if posix not in _POSIX:
                msg = f"unknown class '[:{posix}:]'"
                raise PatternError(msg, found.start())
            return _POSIX[posix]
        if escape := found["escape"]:
            return _MEMBERS.get(escape, "/" if escape == "/" else found.group())
        character = found.group()
        if character == "[":
            msg = r"a character class within another is not supported; write \[ for the bracket"
            raise PatternError(msg, found.start())
        if character in "-&~|" and self.source.startswith(character, found.end()):
            msg = f"'{character * 2}' in a character class is not supported; write the character once"
            raise PatternError(msg, found.start())
        beside_a_set = self.pieces[-1] in _SETS or self.source.startswith(_SET_AHEAD, found.end())
        return r"\-" if character == "-" and beside_a_set else character
