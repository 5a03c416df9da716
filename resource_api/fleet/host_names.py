"""Host names: ranges such as `web[1:50]`, the sets of `--on`, and names folded back into ranges."""

from __future__ import annotations

import re
from itertools import islice, product
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Largest number of hosts in a range, in a selection and in an inventory.
MAX_HOSTS: Final = 200_000
#: Largest length of a name, as in DNS; and the number of its last parts that are folded.
_LONGEST: Final = 255
_MOST_FOLDED: Final = 4
_RANGE: Final = re.compile(r"\[([^][]*)\]")
_ENDS: Final = re.compile(r"([0-9]{1,9}|[a-z]|[A-Z])(?::([0-9]{1,9}|[a-z]|[A-Z]))?")
#: The folded parts of a name: numbers of up to nine digits, and single letters after another character.
_FOLDED: Final = re.compile(r"(?<![0-9])[0-9]{1,9}(?![0-9])|(?<=[^A-Za-z])[A-Za-z](?![A-Za-z])")
#: One host, optionally with a user; two colons or more are an IPv6 address.
_ADDRESS: Final = re.compile(r"(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9_][A-Za-z0-9._%-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%a-z]*)")


class Address(NamedTuple):
    """The parts of a host name: host, and user and port or None."""

    host: str
    user: str | None = None
    port: int | None = None


class SelectionTerm(NamedTuple):
    """An item of a selection: the hosts in all ``included`` sets and in none of the ``excluded`` ones."""

    included: Sequence[str]
    excluded: Sequence[str]


def address(name: str) -> Address:
    """Return user, host and port in a name of ``--on`` that is in no inventory, such as ``admin@web1:2222``.

    Raise ``ValueError`` for an invalid name.
    """
    text, port = name, None
    before, colon, after = name.rpartition(":")
    if colon and ":" not in before:  # a name with two colons is an IPv6 address, without a port
        if not after.isascii() or not after.isdigit() or len(after) > 5 or not 0 < int(after) < 65536:  # noqa: PLR2004 - TCP
            raise ValueError(f"'{name}': a port is a number from 1 to 65535")
        text, port = before, int(after)
    if (match := _ADDRESS.fullmatch(text)) is None:
        raise ValueError(f"'{name}' can be no host: write NAME, USER@NAME or NAME:PORT")
    return Address(match[2], match[1], port)


def expand(pattern: str) -> list[str]:
    """Return the names of a pattern such as ``r[01:20]n[1:4,7]``, in its order.

    Both ends are included, leading zeros are kept. Raise ``ValueError`` for an invalid range or too many names, before
    these are made.
    """
    parts = _RANGE.split(pattern)
    if any("[" in text or "]" in text for text in parts[::2]):
        raise ValueError(f"'{pattern}': a bracket has no counterpart; a range is written as web[1:50]")
    choices: list[Sequence[str]] = []
    count = 1
    for position, part in enumerate(parts):
        # One value too many is enough to refuse a range without end.
        values = list(islice(_values(part, pattern), MAX_HOSTS + 1)) if position % 2 else [part]
        count *= len(values)
        if count > MAX_HOSTS:
            raise ValueError(f"'{pattern}' has more than {MAX_HOSTS:,} hosts")
        choices.append(values)
    names = list(map("".join, product(*choices)))
    if max(map(len, names)) > _LONGEST:
        raise ValueError(f"'{pattern:.40}…' has a name of more than {_LONGEST} characters")
    return names


def _values(text: str, pattern: str) -> Iterator[str]:
    """Yield the values of one pair of brackets in a pattern: of ``7,09:11`` the texts ``7``, ``09``, ``10``, ``11``.

    ``text``: the content of the brackets. ``pattern``: the whole pattern for the message of a ``ValueError``.
    """
    for item in text.split(","):
        match = _ENDS.fullmatch(item)
        if match is None:
            hint = "; an IPv6 address is written without brackets" if ":" in item and item.count(":") > 1 else ""
            raise ValueError(f"'{pattern}': '[{text}]' is no range; write [1:50], [01:20], [a:c] or [1,3,7:9]{hint}")
        low, high = match[1], match[2] or match[1]
        if problem := _range_problem(low, high, item):
            raise ValueError(f"'{pattern}': {problem}")
        if low.isdigit():
            width = _width(low)
            yield from (str(number).zfill(width) for number in range(int(low), int(high) + 1))
        else:
            yield from map(chr, range(ord(low), ord(high) + 1))


def _range_problem(low: str, high: str, item: str) -> str:
    """Return the error message about the ends of a range, two numbers or letters, or "" for a valid range.

    With leading zeros both ends need the same number of digits, since the width of the names would be ambiguous.
    ``item``: the range as the user wrote it, for the message.
    """
    is_number = low.isdigit()
    # Two numbers, two lower-case letters or two upper-case letters.
    if (is_number, low.islower()) != (high.isdigit(), high.islower()):
        return f"the ends of '{item}' are of two sorts"
    if is_number and high[0] == "0" and len(high) != len(low):
        return f"write both ends of '{item}' with as many digits"
    ends_first = int(high) < int(low) if is_number else high < low
    return f"'{item}' ends before it begins" if ends_first else ""


def _width(number: str) -> int:
    """Return the minimum number of digits in a range that begins with ``number``: more than 1 for a leading zero."""
    return len(number) if number[0] == "0" else 1


def fold(names: Iterable[str]) -> list[str]:
    """Return patterns such as ``web[1:50]`` for names, so that the output of many hosts is short.

    The patterns are in the order of their first names; ``expand`` returns the names of a pattern again.
    """
    # ``web07.b`` is the row ``web``, ``07``, ``.``, ``b``, "": its numbers and letters, at the odd positions, are
    # folded from the last to the first. Only rows of equal length can differ in a single part.
    rows = [_parts(name) for name in dict.fromkeys(names)]
    by_length: dict[int, list[tuple[str, ...]]] = {}
    order = {row: position for position, row in enumerate(rows)}
    for row in rows:
        by_length.setdefault(len(row), []).append(row)
    folded: list[tuple[int, str]] = []
    for length, same_length in by_length.items():
        indices = {row: order[row] for row in same_length}
        for position in range(length - 2, 0, -2):
            indices = _fold_at(indices, position)
        folded += [(index, "".join(row)) for row, index in indices.items()]
    return [text for _, text in sorted(folded)]


def _parts(name: str) -> tuple[str, ...]:
    """Split a name around its numbers and single letters: ``web07.b`` is ``web``, ``07``, ``.``, ``b`` and "".

    ``fold`` makes ranges of the parts at odd positions. Only the last ``_MOST_FOLDED`` ones are split off, since each
    costs ``fold`` another pass over the names.
    """
    parts, start = list[str](), 0
    for match in list(_FOLDED.finditer(name))[-_MOST_FOLDED:]:
        parts += name[start : match.start()], match[0]
        start = match.end()
    return (*parts, name[start:])


def _fold_at(rows: dict[tuple[str, ...], int], position: int) -> dict[tuple[str, ...], int]:
    """Merge rows that differ only at ``position`` into one row with a range there, as one step of ``fold``.

    ``rows``: the parts of a name → its index in the output. The rows ``web``, ``1``, "" and ``web``, ``2``, "" become
    ``web``, ``[1:2]``, "", with the lower index of both.
    """
    alike: dict[tuple[str, ...], dict[str, int]] = {}
    for row, index in rows.items():
        alike.setdefault((*row[:position], *row[position + 1 :]), {})[row[position]] = index
    return {
        (*rest[:position], _range_text(numbers), *rest[position:]): min(numbers.values())
        for rest, numbers in alike.items()
    }


def _range_text(values: Iterable[str]) -> str:
    """Return numbers and letters as the text of a range, ``[2:17,19:50]``, for ``fold``; a single value as it is."""
    remaining, runs = set(values), list[str]()
    # Letters, then numbers by value: a, b, 9, 09, 10.
    for first in sorted(remaining, key=lambda value: (value.isdigit() and int(value), len(value), value)):
        if first not in remaining:  # part of a run that began before it
            continue
        last = first
        remaining.remove(first)
        while (following := _following(last, _width(first))) in remaining:
            remaining.remove(following)
            last = following
        runs.append(first if first == last else f"{first}:{last}")
    return runs[0] if len(runs) == 1 and ":" not in runs[0] else f"[{','.join(runs)}]"


def _following(value: str, width: int) -> str:
    """Return the letter after one, or the number after one with at least ``width`` digits."""
    return str(int(value) + 1).zfill(width) if value.isdigit() else chr(ord(value) + 1)


def split(selection: str) -> list[str]:
    """Return the items of ``--on``, separated by commas; a comma in brackets is part of a range, ``web[1,3]``."""
    items, depth = [""], 0
    for character in selection:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items]


def term(item: str) -> SelectionTerm:
    """Parse one item of ``--on``: ``web&eu&!old`` selects the hosts in both ``web`` and ``eu``, but not in ``old``.

    Raise ``ValueError`` for an empty name.
    """
    included, excluded = list[str](), list[str]()
    for part in item.split("&"):
        name = part.strip()
        (excluded if name.startswith("!") else included).append(name.removeprefix("!").strip())
    if not all((*included, *excluded)):
        msg = f"'{item}': a name is missing" if item else "a name is missing; write names with a comma between them"
        raise ValueError(msg)
    return SelectionTerm(included, excluded)


def limited(find: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """Wrap ``find`` to raise ``ValueError`` when it has returned more than ``MAX_HOSTS`` names in total.

    Otherwise many ranges, each within the limit, could fill the memory together.
    """
    remaining = MAX_HOSTS

    def limited_find(name: str) -> Sequence[str]:
        """Return the hosts of a name, and count them. Raise ``ValueError`` above the limit, also in all later calls."""
        nonlocal remaining
        hosts = find(name) if remaining >= 0 else ()
        remaining -= len(hosts)
        if remaining < 0:
            raise ValueError(f"more than {MAX_HOSTS:,} hosts are named")
        return hosts

    return limited_find


def select(items: Iterable[str], find: Callable[[str], Sequence[str]], everything: Sequence[str]) -> list[str]:
    """Return the hosts that the items of ``--on`` select, without duplicates, in the order of the items.

    An item such as ``web&!old`` adds hosts; an item that only excludes, ``!old``, removes hosts from the result of all
    others. If all items only exclude, they remove hosts from ``everything``. ``find`` returns the hosts of a host name,
    a range, a group or a file. Raise ``ValueError``, also for more than ``MAX_HOSTS`` names.
    """
    included, excluded, positive = dict[str, None](), set[str](), False
    find = limited(find)
    for item in items:
        sets, without = term(item)
        if not sets:
            excluded.update(*map(find, without))
            continue
        positive = True
        first, *further = map(find, sets)
        matching = set(first).intersection(*further).difference(*map(find, without))
        included.update(dict.fromkeys(name for name in first if name in matching))
    return [name for name in (included if positive else everything) if name not in excluded]
