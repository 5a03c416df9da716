"""Change settings with a library that keeps comments, and keep the lines that it would format in another way."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from lib.structured_settings import (
    MISSING,
    check_container,
    check_index,
    find,
    key_of,
    nested,
    plain,
)
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lib.structured_settings import Place

#: The most values in a file that is changed.
LARGEST_FILE = 1_000_000


def edit(
    text: str,
    wanted: Mapping[Place, Any],
    *,
    parse: Callable[[str], Any],
    load: Callable[[str], Any],
    dump: Callable[[Any], str],
    convert: Callable[[Any, Any], Any],
    largest: int = LARGEST_FILE,
) -> str:
    """Return a text with the wanted values by their places; ``MISSING`` removes one.

    ``parse`` returns the content as it is read; ``load`` and ``dump`` are those of the library that keeps comments;
    ``convert(old, new)`` returns a new value in the style of the old one; ``largest``: how many mappings, arrays and
    values a file may have, which is known before the slow library reads it.
    Raise ``ResourceError`` if not exactly what is wanted would change.
    """
    expected = plain(parse(text), largest)
    document = load(text)
    before = dump(document)
    apply(document, wanted, convert)
    apply(expected, wanted, lambda _old, new: new)
    after = dump(document)
    for candidate in (keep_lines(text, before, after), after):
        if _same(parse(candidate), expected):
            return candidate
    msg = "cannot be changed there without changing other settings, which share an alias with it"
    raise ResourceError(msg)


def keep_lines(original: str, before: str, after: str) -> str:
    """Return ``original`` with the changes from ``before`` to ``after``, which the library has written.

    Lines that the library formats in another way stay as they are, and so do comments below what is removed. The result
    is ``after`` if the library has formatted a changed line in another way.
    """
    old, plain_lines, new = (text.split("\n") for text in (original, before, after))
    end = "\r" if "\r\n" in original else ""
    places = _matching_lines(plain_lines, old)
    result: list[str] = []
    done = 0
    for tag, start, stop, begin, finish in SequenceMatcher(None, plain_lines, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        while stop > start and plain_lines[stop - 1].strip()[:1] in {"", "#"}:
            stop -= 1  # noqa: PLW2901 - comments below what is removed belong to what follows
        changed = [places.get(number) for number in range(start, stop)]
        first = changed[0] if changed else places.get(start - 1, -1 if start == 0 else None)
        if first is None or changed != list(range(first, first + len(changed))):
            return after
        first += not changed
        result += [*old[done:first], *(line + end for line in new[begin:finish])]
        done = first + len(changed)
    return "\n".join([*result, *old[done:]])


def _matching_lines(left: list[str], right: list[str]) -> dict[int, int]:
    """Return line number in ``left`` → in ``right``, of lines that differ by white space only."""
    first, second = ([" ".join(line.split()) for line in lines] for lines in (left, right))
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return {block.a + number: block.b + number for block in blocks for number in range(block.size)}


def _same(document: Any, expected: Any) -> bool:
    # Python's own comparison takes 1, 1.0 and True for equal.
    texts = (json.dumps(value, sort_keys=True) for value in (plain(document, LARGEST_FILE), expected))
    return next(texts) == next(texts)


def apply(document: Any, wanted: Mapping[Place, Any], convert: Callable[[Any, Any], Any]) -> None:
    """Put the wanted values into a document."""
    for place, value in wanted.items():
        if value is MISSING:
            _remove(document, place)
        else:
            _put(document, place, value, convert)


def _put(container: Any, place: Place, value: Any, convert: Callable[[Any, Any], Any]) -> None:
    for depth, step in enumerate(place):
        check_container(container, step, place[:depth])
        rest = place[depth + 1 :]
        if isinstance(step, int):
            check_index(step, len(container), place[: depth + 1], removal=False)
            key = step
            if step == len(container):
                container.append(convert(None, nested(rest, value)))
                return
        elif (key := key_of(container, step)) is MISSING:
            container[step] = convert(None, nested(rest, value))
            return
        if not rest:
            container[key] = convert(container[key], value)
        container = container[key]


def _remove(document: Any, place: Place) -> None:
    """Remove a value, and the mappings around it that are empty then."""
    while place:
        *outer, step = place
        container = find(document, tuple(outer))
        if isinstance(step, int):
            check_index(step, len(container), place, removal=True)
            del container[step]
        else:
            try:
                del container[key_of(container, step)]
            except KeyError:
                msg = f"'{step}' comes from an alias and can be removed only there"
                raise ResourceError(msg) from None
        place = tuple(outer)
        if container or not place or isinstance(place[-1], int):
            return
