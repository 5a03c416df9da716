"""The forms in which programs, exceptions and protocols write a text, and how escapes are undone.

Finding the forms of secrets in other texts is for ``masking``. The list for users is in ``docs/secrets.md``.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from html import escape, unescape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

from resource_api.model.values._lazy_regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of a longer text only the usual forms are made; undoing the escapes of the searched text finds the others.
LONG: Final = 4096
_SEPARATORS: Final = (":", "-", " ", ",")
_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")


def written(text: str) -> set[str]:
    """Return the forms of a text in which most of its characters stand for themselves, itself and its lines first.

    One of them is the form in logs and plans: with escapes for characters that cannot be printed.
    """
    forms = {text, text.strip(), *(line.strip() for line in text.splitlines())}
    if not text.isprintable():
        special = "".join(character for character in set(text) if not character.isprintable())
        forms.add(re.sub(f"[{special}]", lambda match: repr(match[0])[1:-1], text))
    return forms if len(text) > LONG else forms | _escaped_forms(text)


def _escaped_forms(text: str) -> set[str]:
    data = text.encode("utf-8", "surrogateescape")
    quoted = {quote(data, safe=safe) for safe in ("/", "", "!'()*", ";,/?:@&=+$!'()*#")}
    quoted |= {quote_plus(data), quote_plus(data, safe="/")}
    quoted |= {re.sub("%..", lambda match: match[0].lower(), form) for form in quoted}
    return {
        *(repr(text)[1:-1], ascii(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]),
        *(repr(data)[2:-1], escape(text), text.replace("'", "''"), text.replace("'", "'\"'\"'")),
        *(text.replace("'", r"'\''"), *quoted),
    }


def encoded(text: str) -> set[str]:
    """Return the forms of a text in which its characters are no longer seen: base64 and hexadecimal."""
    data = text.encode("utf-8", "surrogateescape")
    base64 = {form for before in range(3) for form in _base64(data, before)}
    forms = {
        data.hex(),
        data.hex().upper(),
        *base64,
        *(form.encode().translate(_URL_ALPHABET).decode() for form in base64),
    }
    if len(text) > LONG:
        return forms
    pairs = {data.hex(separator) for separator in _SEPARATORS} | {data.hex(" ", -2)}
    pairs |= {data.hex(",").replace(",", separator) for separator in (", ", ",0x", ", 0x")}
    return {*forms, *pairs, *(form.upper().replace("X", "x") for form in pairs)}


def _base64(data: bytes, before: int) -> set[str]:
    """Return the base64 characters that depend on ``data`` only, at offset ``before`` modulo 3; at 0 also the last."""
    whole = b64encode(b"\0" * before + data).decode().rstrip("=")
    return {whole[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6], *([] if before else [whole])}


class Escape:
    """One kind of escapes: the pattern of one, and the text that it stands for."""

    def __init__(self, pattern: str, meaning: Callable[[str], str]) -> None:
        """Replace each match of ``pattern`` with its ``meaning``."""
        self._pattern = regex(pattern)
        self._meaning = meaning

    def undo(self, text: str) -> str:
        """Return a text without these escapes."""
        return self._pattern.sub(lambda match: self._meaning(match[0]), text)

    def origins(self, text: str) -> list[tuple[int, int]]:
        """Return where in ``text`` each character of ``undo(text)`` comes from: the first position, and the next."""
        spans, position = list[tuple[int, int]](), 0
        for match in self._pattern.finditer(text):
            spans += [(i, i + 1) for i in range(position, match.start())]
            spans += [match.span()] * len(self._meaning(match[0]))
            position = match.end()
        return spans + [(i, i + 1) for i in range(position, len(text))]


def _backslash(escape: str) -> str:
    kind = escape[1]
    if kind == "x" and len(escape) > 3:  # noqa: PLR2004 - \x and two digits
        return _bytes(bytes.fromhex(escape.replace("\\x", "")))
    if kind in "01234567" and len(escape) > 3:  # noqa: PLR2004 - the same
        return _bytes(bytes(int(digits, 8) & 255 for digits in escape[1:].split("\\")))
    if kind in "uU" and len(escape) > 3:  # noqa: PLR2004 - the same
        units = [int(digits, 16) for digits in re.split(r"\\[uU]", escape)[1:]]
        if len(units) == 1 and units[0] <= 0x10FFFF:  # noqa: PLR2004 - the last code point
            return chr(units[0])
        return "".join(map(chr, units)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CONTROLS.get(kind, kind)


_CONTROLS: Final = {
    **dict(zip("nrtbfva0e", "\n\r\t\b\f\v\a\0\x1b", strict=True)),
    **dict(zip("N_LP", "\x85\xa0\u2028\u2029", strict=True)),
}
_BACKSLASHES: Final = (
    r"(?:\\x[89a-fA-F][0-9a-fA-F])+|\\x[0-9a-fA-F]{2}|(?:\\[23][0-7]{2})+|\\[01][0-7]{2}"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\(?s:.)"
)


def _percent(escape: str) -> str:
    return _bytes(bytes.fromhex(escape.replace("%", "")))


def _bytes(data: bytes) -> str:
    """Return bytes as UTF-8, and otherwise each as a character: ``ascii`` writes these alike."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _entity(entity: str) -> str:
    return unescape(entity)


#: Escapes with a backslash (Python, JSON, YAML, shells), of URLs, of HTML and XML, and quotes within quotes.
ESCAPES: Final = (
    Escape(_BACKSLASHES, _backslash),
    Escape(r"%[0-7][0-9a-fA-F]|(?:%[89a-fA-F][0-9a-fA-F])+", _percent),
    Escape(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z0-9]{2,31});", _entity),
    Escape(r"""'"'"'|'\\''|''|\"\"""", lambda match: match[0]),
)
