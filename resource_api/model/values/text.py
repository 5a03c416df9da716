"""Values as text for users: one line, no control characters, no secrets.

Every renderer and every log line uses these functions, so that nothing read from a machine can move a terminal's
cursor or forge a line (as advisories about sudo and kubectl have shown). Layout is for ``render``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import regex

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

#: C0, DEL, C1, line and paragraph separators, bidirectional controls, invisible characters, lone surrogates.
_UNSAFE: Final = regex(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ud800-\udfff\ufeff]"
)
#: A word that no shell interprets (shlex.quote(), whose module would be loaded by each run).
_PLAIN_WORD: Final = regex("[A-Za-z0-9_@%+=:,./-]+")
#: The end of a message about a number where text is required.
QUOTES: Final = "; write it in quotes"
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(text: str) -> str:
    """Return ``text`` with every character that controls a terminal written as an escape sequence."""
    return _UNSAFE.sub(_spell, text) if not text.isprintable() else text


def rough_duration(seconds: float) -> str:
    """Return a length of time for people: ``90 s``, ``5 min``, ``3 h``, ``12 d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


def filled_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank, stripped."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def common_start(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of characters of two texts, or of lines of two lists, that are equal at their beginnings.

    A diff leaves these out, and a shortened line begins shortly before their end, so that it shows the difference.
    """
    for number, (first, second) in enumerate(zip(one, two, strict=False)):
        if first != second:
            return number
    return min(len(one), len(two))


def escape_lines(text: str) -> str:
    """Escape ``text``, but keep line breaks and tabs, for blocks of text."""
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def escape_json(text: str) -> str:
    """Return a JSON document with escapes for the control characters that JSON leaves: a terminal would obey them."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def _spell(match: re.Match[str]) -> str:
    r"""Return a character as an escape sequence, of one letter, two digits or four: ``\n``, ``\x1b``, ``\u2028``."""
    character = match.group()
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


def show(value: object) -> str:
    """Return a value on one line as in log lines and plans; a string has quotes only where it would be ambiguous."""
    if type(value) is str:
        return value if value and value == value.strip() and value.isprintable() else f"'{escape(value)}'"
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(show, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
    return escape(str(value))


def shell_word(value: object) -> str:
    """Return a value as one word of a command line that users copy: in quotes unless a shell takes it as it is."""
    text = str(value)
    return text if _PLAIN_WORD.fullmatch(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def quote_command(text: str) -> str:
    """Return a command line in quotes; in double ones where it contains single ones, as those of a shell's words."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def show_name(name: object) -> str:
    """Return the canonical name of a resource as text; two or more namevars are separated by commas."""
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def show_first(items: Sequence[object], most: int) -> str:
    """Return the first items of a list, and the number of the rest: ``a, b and 3 more``."""
    return ", ".join(map(str, items[:most])) + (f" and {len(items) - most} more" if len(items) > most else "")


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 resource``, ``2 resources``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_size(limit: int) -> str:
    """Return the largest number of bytes that something may have, rounded down: ``64 KiB``."""
    return f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB" if limit >= 1 << 10 else f"{limit} bytes"


def show_attribute(value: object) -> str:
    """Return the value of an attribute on one line, as in plans; ``(none)`` where it has none."""
    return "(none)" if value is None else show(value)
