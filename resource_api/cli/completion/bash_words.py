"""The words of a line as bash reads them: what is typed, what bash replaces, and how a value is quoted."""

from __future__ import annotations

import re
from typing import Final


class Word:
    """The incomplete word of a line: its text without quotes, and what of it stands before the last break."""

    def __init__(self) -> None:
        """Begin with no text and no quote."""
        self.text = ""
        #: The quote that is open at the end, or empty.
        self.quote = ""
        #: How much of the text stands before the open quote.
        self._quoted_from = 0
        #: The positions in the text of characters that are not quoted.
        self._plain: set[int] = set()

    def open(self, quote: str) -> None:
        """Begin a quoted part."""
        self.quote, self._quoted_from = quote, len(self.text)

    def add(self, character: str, *, plain: bool) -> None:
        """Add a character; ``plain``: it is neither quoted nor escaped."""
        if plain:
            self._plain.add(len(self.text))
        self.text += character

    def kept(self, breaks: str) -> str:
        """Return what stays of the text where bash replaces what follows the open quote, or the last of ``breaks``."""
        if self.quote:
            return self.text[: self._quoted_from]
        last = max((place for place in self._plain if self.text[place] in breaks), default=-1)
        return self.text[: last + 1]


def split(line: str) -> tuple[list[str], Word]:
    """Return the complete words of a line, and the incomplete one at its end, which may be empty."""
    words: list[str] = []
    word, begun, rest = Word(), False, iter(line)
    for character in rest:
        if word.quote == "'" and character != "'":
            word.add(character, plain=False)
        elif character == word.quote:
            word.quote = ""
        elif character == "\\":
            escaped = next(rest, "")
            kept = "\\" if word.quote and escaped not in '"\\$`' else ""
            for each in kept + escaped:
                word.add(each, plain=False)
            begun = True
        elif word.quote:
            word.add(character, plain=False)
        elif character in "'\"":
            word.open(character)
            begun = True
        elif character.isspace():
            if begun:
                words.append(word.text)
            word, begun = Word(), False
        else:
            word.add(character, plain=True)
            begun = True
    return words, word


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./-]")


def quoted(text: str, quote: str) -> str | None:
    """Return a text as it is typed in bash after ``quote``; None where it cannot be typed there."""
    if _CONTROL.search(text):
        return None if quote else "$'" + "".join(map(_ansi_c, text)) + "'"
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return None if "!" in text else re.sub(r'[$`"\\]', r"\\\g<0>", text)
    return _SPECIAL.sub(r"\\\g<0>", text)


def _ansi_c(character: str) -> str:
    """Return a character between the quotes of ``$'...'``."""
    if _CONTROL.match(character):
        return "".join(f"\\{byte:03o}" for byte in character.encode())
    return f"\\{character}" if character in "'\\" else character
