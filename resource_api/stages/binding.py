"""From what resources say of each other to edges: explicit, implied by values, automatic.

Which of them hold in the end, and the order that follows, is decided by ``relationships``. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.nouns import reference
from resource_api.nouns.errors import nearest
from resource_api.nouns.values import UNKNOWN, Sensitive
from resource_api.stages.relationships import Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.nouns.entry import Entry
    from resource_api.nouns.reference import Reference

#: Word → whether what it names comes first, and whether it refreshes.
_WORDS = {"require": (True, False), "before": (False, False), "subscribe": (True, True), "notify": (False, True)}


def bind(
    entries: Sequence[Entry],
    references: Mapping[Entry, Sequence[Entry]],
    find: Callable[[Reference], Entry | None],
    complain: Callable[[Entry, str | None, str, str, str], None],
) -> list[Edge]:
    """Give every edge among ``entries``, numbered as they stand in it; a name that means nothing is complained of."""
    number = {entry: index for index, entry in enumerate(entries)}
    edges: list[Edge] = []
    for entry, targets in references.items():
        edges += [Edge(number[target], number[entry]) for target in targets]
    for entry in entries:
        if entry.declaration.meta:
            edges += _explicit(entry, number, find, complain)
            edges += _triggers(entry, number, find, complain)
    types = {entry.type for entry in entries}
    for entry in entries:
        edges += _automatic(entry, number, find, types)
    return edges


def _explicit(
    entry: Entry,
    number: Mapping[Entry, int],
    find: Callable[[Reference], Entry | None],
    complain: Callable[[Entry, str | None, str, str, str], None],
) -> Iterator[Edge]:
    for word, (first, refresh) in _WORDS.items():
        value = entry.declaration.meta.get(word)
        for text in [] if value is None else [value] if isinstance(value, str) else value:
            target = _named(text, word, entry, number, find, complain)
            if target is not None:
                pair = (number[target], number[entry]) if first else (number[entry], number[target])
                yield Edge(*pair, refresh=refresh)


def _triggers(
    entry: Entry,
    number: Mapping[Entry, int],
    find: Callable[[Reference], Entry | None],
    complain: Callable[[Entry, str | None, str, str, str], None],
) -> Iterator[Edge]:
    """What replaces a resource when it changes comes before it."""
    for text in entry.meta.lifecycle.replace_triggered_by:
        target = _named(text, "lifecycle", entry, number, find, complain)
        if target is not None:
            yield Edge(number[target], number[entry])


def _named(
    text: str,
    word: str,
    entry: Entry,
    number: Mapping[Entry, int],
    find: Callable[[Reference], Entry | None],
    complain: Callable[[Entry, str | None, str, str, str], None],
) -> Entry | None:
    """Give what a reference in a metaparameter means, or complain."""
    try:
        wanted = reference.parse(text)
    except ValueError as error:
        complain(entry, word, f"{word}: {error}", "reference", "")
        return None
    target = find(wanted)
    if target is None:
        hint = nearest(str(wanted), [str(known.reference) for known in number])
        complain(entry, word, f"{word}: unknown resource '{wanted}'", "unknown_resource", hint)
    return target if target in number else None


def _automatic(
    entry: Entry, number: Mapping[Entry, int], find: Callable[[Reference], Entry | None], types: set[str]
) -> Iterator[Edge]:
    """Give the edges that the type declares, where the resource named is in the catalog."""
    for word, wanted in entry.definition.automatic.items():
        first, refresh = _WORDS[word]
        for type_name, titles in wanted.items():
            if type_name not in types:
                continue
            for title in _titles(titles, entry.should):
                target = find(reference.Reference(type_name, title))
                if target is None or target is entry:
                    continue
                # What should be absent goes after what needed it, not before.
                goes_first = first != (first and target.absent)
                pair = (number[target], number[entry]) if goes_first else (number[entry], number[target])
                yield Edge(*pair, refresh=refresh, automatic=True)


def _titles(titles: Any, should: Mapping[str, Any]) -> Iterable[str]:
    if callable(titles):
        yield from titles(should)
        return
    for title in [titles] if isinstance(titles, str) else titles:
        if not title.startswith("$"):
            yield title
            continue
        value = should.get(title[1:])
        value = value.reveal() if isinstance(value, Sensitive) else value
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item is not UNKNOWN:
                yield str(item)
