"""Names of hosts: ranges such as `web[1:50]`, the sets that `--on` describes, and names folded back into ranges."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: The most names that one range may have, and those of a selection or an inventory together.
MOST: Final = 200_000
#: Characters of a name, as of DNS; and its last parts that are folded.
_LONGEST: Final = 255
_MOST_FOLDED: Final = 4
_RANGE: Final = re.compile(r"\[([^][]*)\]")
_ENDS: Final = re.compile(r"([0-9]{1,9}|[a-z]|[A-Z])(?::([0-9]{1,9}|[a-z]|[A-Z]))?")
#: What is folded in a name: a number, of which one of more digits is text, and a letter behind what is none.
_FOLDED: Final = re.compile(r"(?<![0-9])[0-9]{1,9}(?![0-9])|(?<=[^A-Za-z])[A-Za-z](?![A-Za-z])")
#: One host, perhaps with a user before it and a port behind it; several colons are an IPv6 address without a port.
_ADDRESS: Final = re.compile(r"(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9_][A-Za-z0-9._%-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%a-z]*)")


class Address(NamedTuple):
    """What a name says about how its host is reached."""

    host: str
    user: str | None = None
    port: int | None = None


class Term(NamedTuple):
    """One item of a selection: hosts that are in all ``wanted`` sets and in none of the ``excluded`` ones."""

    wanted: Sequence[str]
    excluded: Sequence[str]


def address(name: str) -> Address:
    """Return the parts of ``admin@web1:2222``. Raise ``ValueError`` for what can be no host."""
    text, port = name, None
    before, colon, after = name.rpartition(":")
    if colon and ":" not in before:
        if not after.isascii() or not after.isdigit() or len(after) > 5 or not 0 < int(after) < 65536:  # noqa: PLR2004 - TCP
            msg = f"'{name}': a port is a number from 1 to 65535"
            raise ValueError(msg)
        text, port = before, int(after)
    if (found := _ADDRESS.fullmatch(text)) is None:
        msg = f"'{name}' can be no host: write NAME, USER@NAME or NAME:PORT"
        raise ValueError(msg)
    return Address(found[2], found[1], port)


# Ranges


def expand(pattern: str) -> list[str]:
    """Return the names that a pattern such as ``r[01:20]n[1:4,7]`` stands for, in its order.

    Both ends are included, leading zeros are kept. Raise ``ValueError`` for a wrong range, or one with too many names.
    """
    parts = _RANGE.split(pattern)
    if any("[" in text or "]" in text for text in parts[::2]):
        msg = f"'{pattern}': a bracket has no counterpart; a range is written as web[1:50]"
        raise ValueError(msg)
    choices: list[Sequence[str]] = []
    count = 1
    for position, part in enumerate(parts):
        values = list(_values(part, pattern)) if position % 2 else [part]
        count *= len(values)
        if count > MOST:
            raise ValueError(_too_many(pattern))
        choices.append(values)
    names = list(map("".join, product(*choices)))
    if max(map(len, names)) > _LONGEST:
        msg = f"'{pattern:.40}…' has a name of more than {_LONGEST} characters"
        raise ValueError(msg)
    return names


def _too_many(pattern: str) -> str:
    return f"'{pattern}' has more than {MOST:,} hosts"


def _values(text: str, pattern: str) -> Iterator[str]:
    """Yield the values of what stands between brackets."""
    for item in text.split(","):
        found = _ENDS.fullmatch(item)
        if found is None:
            hint = "; an IPv6 address is written without brackets" if ":" in item and item.count(":") > 1 else ""
            msg = f"'{pattern}': '[{text}]' is no range; write [1:50], [01:20], [a:c] or [1,3,7:9]{hint}"
            raise ValueError(msg)
        low, high = found[1], found[2] or found[1]
        if low.isdigit() != high.isdigit() or (not low.isdigit() and low.islower() != high.islower()):
            msg = f"'{pattern}': the ends of '{item}' are of two sorts"
            raise ValueError(msg)
        if not low.isdigit():
            yield from _letters(low, high, item, pattern)
            continue
        if high[0] == "0" and len(high) != len(low):
            msg = f"'{pattern}': write both ends of '{item}' with as many digits"
            raise ValueError(msg)
        numbers = range(int(low), int(high) + 1)
        if not numbers:
            raise ValueError(_backwards(pattern, item))
        if len(numbers) > MOST:
            raise ValueError(_too_many(pattern))
        width = _width(low)
        yield from (str(number).zfill(width) for number in numbers)


def _letters(low: str, high: str, item: str, pattern: str) -> Iterator[str]:
    if low > high:
        raise ValueError(_backwards(pattern, item))
    yield from map(chr, range(ord(low), ord(high) + 1))


def _backwards(pattern: str, item: str) -> str:
    return f"'{pattern}': '{item}' ends before it begins"


def _width(number: str) -> int:
    """Return the least digits of the numbers of a range that begins with this one."""
    return len(number) if number[0] == "0" else 1


def fold(names: Iterable[str]) -> list[str]:
    """Return the fewest patterns that this way finds for names, in the order of the names that begin them.

    ``expand`` returns exactly these names for them, each once.
    """
    rows = [_parts(name) for name in dict.fromkeys(names)]
    by_length: dict[int, list[tuple[str, ...]]] = {}
    order = {row: position for position, row in enumerate(rows)}
    for row in rows:
        by_length.setdefault(len(row), []).append(row)
    folded: list[tuple[int, str]] = []
    for length, some in by_length.items():
        placed = {row: order[row] for row in some}
        for position in range(length - 2, 0, -2):
            placed = _fold_at(placed, position)
        folded += [(place, "".join(row)) for row, place in placed.items()]
    return [text for _, text in sorted(folded)]


def _parts(name: str) -> tuple[str, ...]:
    """Return a name cut around its last numbers and letters: text, number, text, and so on."""
    parts, start = list[str](), 0
    for found in list(_FOLDED.finditer(name))[-_MOST_FOLDED:]:
        parts += name[start : found.start()], found[0]
        start = found.end()
    return (*parts, name[start:])


def _fold_at(rows: dict[tuple[str, ...], int], position: int) -> dict[tuple[str, ...], int]:
    """Return rows whose parts differ at one position only as one row each, with the lowest of their places."""
    alike: dict[tuple[str, ...], dict[str, int]] = {}
    for row, place in rows.items():
        alike.setdefault((*row[:position], *row[position + 1 :]), {})[row[position]] = place
    return {
        (*rest[:position], _ranges(numbers), *rest[position:]): min(numbers.values()) for rest, numbers in alike.items()
    }


def _ranges(values: Iterable[str]) -> str:
    """Return numbers and letters as the text of a range: ``[2:17,19:50]``; a single one as it is."""
    left, runs = set(values), list[str]()
    for first in sorted(left, key=lambda value: (value.isdigit() and int(value), len(value), value)):
        if first not in left:
            continue
        last = first
        left.remove(first)
        while (following := _following(last, _width(first))) in left:
            left.remove(following)
            last = following
        runs.append(first if first == last else f"{first}:{last}")
    return runs[0] if len(runs) == 1 and ":" not in runs[0] else f"[{','.join(runs)}]"


def _following(value: str, width: int) -> str:
    return str(int(value) + 1).zfill(width) if value.isdigit() else chr(ord(value) + 1)


# Selections


def split(where: str) -> list[str]:
    """Return the items of a comma-separated list; a comma between brackets is part of a range."""
    ends, depth = list[int](), 0
    for place, character in enumerate(where):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            ends.append(place)
    return [where[start:end].strip() for start, end in zip((0, *(end + 1 for end in ends)), (*ends, None), strict=True)]


def term(item: str) -> Term:
    """Return what one item of a selection means: ``group&!old``. Raise ``ValueError`` for an empty name."""
    wanted, excluded = list[str](), list[str]()
    for part in item.split("&"):
        name = part.strip()
        (excluded if name.startswith("!") else wanted).append(name.removeprefix("!").strip())
    if not all((*wanted, *excluded)):
        msg = f"'{item}': a name is missing" if item else "a name is missing; write names with a comma between them"
        raise ValueError(msg)
    return Term(wanted, excluded)


def counted(find: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """Return a function that finds names as ``find`` does, until they are more than ``MOST`` together."""
    left = MOST

    def counted(name: str) -> Sequence[str]:
        nonlocal left
        found = find(name) if left >= 0 else ()
        left -= len(found)
        if left < 0:
            msg = f"more than {MOST:,} hosts are named"
            raise ValueError(msg)
        return found

    return counted


def select(items: Iterable[str], find: Callable[[str], Sequence[str]], everything: Sequence[str]) -> list[str]:
    """Return the names that items describe together, each once, in their order.

    ``find`` returns the hosts of a name: of a host, a range, a group or a file. Items that only exclude take hosts
    away from all others; where there are no others, from ``everything``. Raise ``ValueError``, also for more than
    ``MOST`` names.
    """
    included, excluded, positive = dict[str, None](), set[str](), False
    find = counted(find)
    for item in items:
        wanted, without = term(item)
        if not wanted:
            excluded.update(name for each in without for name in find(each))
            continue
        positive = True
        first, *others = (find(each) for each in wanted)
        kept = set(first).intersection(*others).difference(*map(find, without))
        included.update(dict.fromkeys(name for name in first if name in kept))
    found = included if positive else dict.fromkeys(everything)
    return [name for name in found if name not in excluded]
