"""A user's account data beside passwd(5): fields of shadow(5), numbers of subuid(5) and subgid(5)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from resource_api import ResourceError, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: The index of each attribute in a line of shadow(5).
COLUMNS = {"password_min_age": 3, "password_max_age": 4, "password_warn_days": 5, "expiry": 7}
FIELDS = 9
#: The values that stand for no limit; a user who has none is read without the attribute.
NONE: Mapping[str, Any] = {
    "password_min_age": 0,
    "password_max_age": -1,
    "password_warn_days": -1,
    "expiry": "absent",
    "subuids": [],
    "subgids": [],
}
FILES = {"subuids": "subuid", "subgids": "subgid"}
#: Days from which an age is no limit: the value that all systems have by default.
FOREVER = 99999
DAY = 86400  # seconds
#: Digits of a number that is read as one; of more than 4,300 Python makes none.
LONGEST = 18
#: The last day of the calendar, counted from 1970; a later one is no limit.
LAST = 2932896


def read() -> dict[str, dict[str, Any]]:
    """Return user → the attributes in /etc/shadow, /etc/subuid and /etc/subgid, as far as the caller may read these.

    A limit that is not set is left out, such as the ``expiry`` of an account that never expires.
    """
    users: dict[str, dict[str, Any]] = {}
    for line in _lines("/etc/shadow"):
        fields = line.split(":")
        if len(fields) > 1:
            padded = fields + [""] * FIELDS
            limits = {name: _value(name, padded[column]) for name, column in COLUMNS.items()}
            limits = {name: value for name, value in limits.items() if value != NONE[name]}
            users[fields[0]] = {"password": Sensitive(fields[1]), **limits}
    for attribute, name in FILES.items():
        for line in _lines(f"/etc/{name}"):
            user, _, numbers = line.partition(":")
            users.setdefault(user, {}).setdefault(attribute, []).append(numbers)
    for row in users.values():
        for attribute in FILES.keys() & row.keys():
            row[attribute] = ranges(row[attribute])
    return users


def ranges(numbers: list[str]) -> list[str]:
    """Return ranges such as ``100000:65536`` sorted by number, each once, so that equal sets are equal."""
    return sorted(set(numbers), key=lambda text: [_number(part) for part in text.split(":")])


def is_day(text: str) -> bool:
    """Return whether a text is valid as the attribute ``expiry``: ``absent``, or an existing day from 1970 on."""
    try:
        return text == NONE["expiry"] or _days(text) >= 0
    except ValueError:
        return False


def edit(prefix: Path, name: str, changed: Mapping[str, Any]) -> None:
    """Change the attributes of a user in the account files below the directory ``prefix``.

    The files there are copies, which replace those of the machine when all changes are done. Raise ``ResourceError``
    without a line in shadow(5).
    """
    limits = {COLUMNS[attribute]: _text(value) for attribute, value in changed.items() if attribute in COLUMNS}
    if limits:
        path = prefix / "etc/shadow"
        lines = list(_lines(path))
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{name}:")]
        if not numbers:
            raise ResourceError(f"'{name}' has no line in /etc/shadow")
        fields = (lines[numbers[0]].split(":") + [""] * FIELDS)[:FIELDS]
        lines[numbers[0]] = ":".join(limits.get(column, field) for column, field in enumerate(fields))
        _write(path, lines)
    for attribute in changed.keys() & FILES.keys():
        path = prefix / "etc" / FILES[attribute]
        other_lines = [line for line in _lines(path) if not line.startswith(f"{name}:")]
        _write(path, [*other_lines, *(f"{name}:{numbers}" for numbers in changed[attribute])])


def _lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of an account file; none if it is missing, or if the caller, without root, may not read it."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - faster to import
            for line in file:
                yield line.removesuffix("\n")
    except (FileNotFoundError, PermissionError):
        return


def _write(path: Path, lines: list[str]) -> None:
    """Write the lines of a file as ``_lines`` reads them."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def _value(attribute: str, field: str) -> Any:
    """Return the attribute's value for a field of shadow(5): the inverse of ``_text``.

    An empty field, or one that the system's programs would not read as a limit, gives the value for "no limit".
    """
    number = _number(field, otherwise=-1)
    if attribute == "expiry":
        return NONE[attribute] if not 0 <= number <= LAST else time.strftime("%Y-%m-%d", time.gmtime(number * DAY))
    return NONE[attribute] if number < 0 or number >= FOREVER else number


def _number(text: str, otherwise: int = 0) -> int:
    """Return a number of ASCII digits, or ``otherwise`` for any other text."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= LONGEST else otherwise


def _text(value: Any) -> str:
    """Return the field of shadow(5) for an attribute's value: a number of days, or empty for no limit.

    A text is a date or ``absent``, a number below 0 means no limit: the inverse of ``_value``.
    """
    if isinstance(value, str):
        return "" if value == "absent" else str(_days(value))
    return "" if value < 0 else str(value)


def _days(date: str) -> int:
    """Return the days from 1970 to a date such as ``2030-12-31``. Raise ``ValueError`` for any other text."""
    import calendar  # slow to import, and needed for a declared day only

    return calendar.timegm(time.strptime(date, "%Y-%m-%d")) // DAY
