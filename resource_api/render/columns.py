"""Texts in columns of a terminal, where a character may take two or none: their width, cut or padded to it."""


def width(text: str) -> int:
    """Return the columns of a terminal that a text takes, to align or cut it; control characters must be escaped.

    East Asian characters take two columns (Unicode Annex 11), combining characters none.
    """
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # imported here, because few runs show such text

    columns = 0
    for character in text:
        # Combining characters, and the Korean vowels and finals that combine, take no column.
        if category(character) not in {"Mn", "Me", "Cf"} and not "\u1160" <= character <= "\u11ff":
            columns += 1 + (east_asian_width(character) in {"W", "F"})
    return columns


def cut(text: str, columns: int) -> str:
    """Return a text that takes at most ``columns``; where something is missing it ends in ``…``."""
    if width(text) <= columns:
        return text
    return f"{_beginning(text, columns - 1)}…" if columns > 0 else ""


def cut_inside(text: str, columns: int) -> str:
    """Return a text that takes at most ``columns``; a longer one has ``…`` in its middle.

    Its end stays visible, where the most important part stands, such as the holder of a lock.
    """
    if width(text) <= columns:
        return text
    end = _beginning(text[::-1], (columns - 1) // 2)[::-1]  # reversed, because it is counted from the end
    return cut(text, columns - width(end)) + end


def _beginning(text: str, columns: int) -> str:
    """Return the longest beginning of a text that takes at most ``columns`` of a terminal; ``…`` follows it."""
    for index, character in enumerate(text):
        columns -= width(character)
        if columns < 0:
            return text[:index]
    return text


def padded(text: str, columns: int) -> str:
    """Return a text with spaces at its end, so that it takes at least ``columns``."""
    return text + " " * (columns - width(text))
