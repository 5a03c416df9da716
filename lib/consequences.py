"""What follows from what: the packages that are changed because of another one, directly or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def closure(links: Iterable[tuple[str, str]]) -> Mapping[str, Collection[str]]:
    """Return what follows from each name, directly or not; ``links`` are pairs of a name and what follows from it."""
    following: dict[str, set[str]] = {}
    for name, other in links:
        following.setdefault(name, set()).add(other)
    found = {}
    for name in following:
        reached, waiting = set[str](), [name]
        while waiting:
            more = following.get(waiting.pop(), set()) - reached
            reached |= more
            waiting += more
        found[name] = reached
    return found
