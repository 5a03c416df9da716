"""Change settings with a library that keeps comments, and keep the lines that it would format in another way."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from lib.structured_settings import MISSING, check_container, check_index, find, key_of, nested, plain
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lib.structured_settings import KeyPath

#: The most values in a file that is changed.
LARGEST_FILE = 1_000_000


def edit(
    text: str,
    values: Mapping[KeyPath, Any],
    *,
    parse: Callable[[str], Any],
    load: Callable[[str], Any],
    dump: Callable[[Any], str],
    convert: Callable[[Any, Any], Any],
    largest: int = LARGEST_FILE,
) -> str:
    """Return a text in which ``values`` are set at their key paths, and settings with the value ``MISSING`` removed.

    The user's comments and layout are kept. ``parse`` returns the plain content, to verify the result; ``load`` and
    ``dump`` keep comments; ``convert(old, new)`` returns a new value in the style of the old one; ``largest``: the
    limit of mappings, arrays and values in a file, checked before the slow library reads it. Raise ``ResourceError`` if
    any further value would change too.
    """
    expected = plain(parse(text), largest)
    document = load(text)
    before = dump(document)
    apply(document, values, convert)
    apply(expected, values, lambda _old, new: new)
    after = dump(document)
    # The user's own lines, if they are read as expected, otherwise the library's text.
    for candidate in (keep_lines(text, before, after), after):
        if _same(parse(candidate), expected):
            return candidate
    raise ResourceError("cannot be changed there without changing other settings, which share an alias with it")


def keep_lines(original: str, before: str, after: str) -> str:
    """Return ``original`` with only the lines replaced that a change of values concerns, as a user expects of an edit.

    The library reformats a whole file: ``before`` is its text of the unchanged document, ``after`` that of the changed
    one. Their differences are made in ``original``; if a changed line has no counterpart there, the result is
    ``after``.
    """
    old, plain_lines, new = (text.split("\n") for text in (original, before, after))
    end = "\r" if "\r\n" in original else ""  # of a line: the library writes none
    #: Line number in ``before`` → in ``original``.
    positions = _matching_lines(plain_lines, old)
    result: list[str] = []
    #: The number of the lines of ``original`` that are in the result, or replaced.
    copied = 0
    for tag, start, stop, begin, finish in SequenceMatcher(None, plain_lines, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        while stop > start and plain_lines[stop - 1].strip()[:1] in {"", "#"}:
            stop -= 1  # noqa: PLW2901 - comments below a removed value belong to the next one
        changed = [positions.get(number) for number in range(start, stop)]
        # The line in ``original`` from which on lines are replaced; -1 is before the first one.
        first = changed[0] if changed else positions.get(start - 1, -1 if start == 0 else None)
        if first is None or changed != list(range(first, first + len(changed))):
            return after
        first += not changed  # pure insertions come behind the line before them
        result += [*old[copied:first], *(line + end for line in new[begin:finish])]
        copied = first + len(changed)
    return "\n".join([*result, *old[copied:]])


def _matching_lines(source: list[str], target: list[str]) -> dict[int, int]:
    """Return line number in ``source`` → in ``target``, for lines that are equal except for white space.

    It maps the lines of the library's text to the lines of the user's text that have the same content in another
    format.
    """
    first, second = ([" ".join(line.split()) for line in lines] for lines in (source, target))
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return {block.a + number: block.b + number for block in blocks for number in range(block.size)}


def _same(document: Any, expected: Any) -> bool:
    """Return whether a document has the expected content, with the same data types."""
    # Python's own comparison takes 1, 1.0 and True for equal.
    return json.dumps(plain(document, LARGEST_FILE), sort_keys=True) == json.dumps(expected, sort_keys=True)


def apply(document: Any, values: Mapping[KeyPath, Any], convert: Callable[[Any, Any], Any]) -> None:
    """Set values in a document in place, by their key paths; the value ``MISSING`` removes a setting.

    ``document`` is an object of a library that keeps comments, or plain data. ``convert(old, new)`` returns a new value
    in the style of the old one, so that quotes and number formats stay.
    """
    for key_path, value in values.items():
        if value is MISSING:
            _remove(document, key_path)
        else:
            _put(document, key_path, value, convert)


def _put(container: Any, key_path: KeyPath, value: Any, convert: Callable[[Any, Any], Any]) -> None:
    """Set the value at a key path; mappings and arrays that are missing on the way are made.

    ``convert(old, new)`` returns a new value in the style of the old one. Raise ``ResourceError`` for a step that does
    not fit a value on the way.
    """
    # Go down as far as the path exists, and put the rest of it there at once.
    for depth, step in enumerate(key_path):
        check_container(container, step, key_path[:depth])
        rest = key_path[depth + 1 :]
        if isinstance(step, int):
            check_index(step, len(container), key_path[: depth + 1], removal=False)
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


def _remove(document: Any, key_path: KeyPath) -> None:
    """Remove the value at a key path, and then each mapping or array around it that has become empty.

    An empty one that is itself an item of an array stays: its removal would move the later items.
    """
    while key_path:
        *outer, step = key_path
        container = find(document, tuple(outer))
        if isinstance(step, int):
            check_index(step, len(container), key_path, removal=True)
            del container[step]
        else:
            try:
                del container[key_of(container, step)]
            except KeyError:
                raise ResourceError(f"'{step}' comes from an alias and can be removed only there") from None
        key_path = tuple(outer)
        if container or not key_path or isinstance(key_path[-1], int):
            return
