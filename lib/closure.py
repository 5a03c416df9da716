"""Transitive consequences of items: packages that change because of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def closure(links: Iterable[tuple[str, str]]) -> Mapping[str, Collection[str]]:
    """Return the direct and indirect consequences of each name, for a package whose change alters others too.

    ``links`` are pairs of a cause and a direct consequence.
    """
    following: dict[str, set[str]] = {}
    for name, consequence in links:
        following.setdefault(name, set()).add(consequence)
    closures = {}
    for name in following:
        reached, waiting = set[str](), [name]
        while waiting:
            more = following.get(waiting.pop(), set()) - reached
            reached |= more
            waiting += more
        closures[name] = reached
    return closures
