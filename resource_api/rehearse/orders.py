"""Other orders of a manifest: which of them are tried, and the smallest cause of one that fails.

An order is the declarations of the manifest in another sequence; relationships hold in each. Nothing is run here: the
caller gives a function that tries an order.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.rehearse.result import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.declaration import Declaration

    Order = Sequence[Declaration]

#: The same orders in every rehearsal.
_SEED: Final = 18
#: How many declarations before one that fails are tried as its cause, the nearest first.
_CANDIDATES: Final = 30


class Tried(NamedTuple):
    """What has come of one order."""

    #: Reference → why it has failed.
    failed: Mapping[str, str]
    #: Path → what is there afterwards, comparable.
    contents: Mapping[str, object]


def orders(declared: Order, count: int) -> Iterator[Order]:
    """Yield up to ``count`` orders: the reversed one, which turns every pair round, then shuffled ones."""
    if count and len(declared) > 1:
        yield declared[::-1]
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    for _ in range(count - 1 if len(declared) > 2 else 0):  # noqa: PLR2004 - two have no other order
        yield chance.sample(declared, len(declared))


def findings(
    declared: Order,
    count: int,
    first: Tried,
    attempt: Callable[[Order], Tried],
    writers: Callable[[str], Sequence[str]],
) -> list[Finding]:
    """Return what other orders have shown: relationships that are missing, results that depend on the order.

    ``first`` is what has come of the order of the file; ``writers`` returns who has written a path in it.
    """
    found: dict[str, Finding] = {}
    for order in orders(declared, count):
        tried = attempt(order)
        for reference, why in tried.failed.items():
            if reference not in found:
                found[reference] = _cause(declared, reference, why, attempt)
        for path in sorted(first.contents.keys() | tried.contents.keys()) if not tried.failed else ():
            if first.contents.get(path) != tried.contents.get(path) and path not in found:
                found[path] = _dependent(declared, path, writers(path))
    return list(found.values())


def _cause(declared: Order, reference: str, why: str, attempt: Callable[[Order], Tried]) -> Finding:
    """Return the declaration that must come before one that fails in another order."""
    texts = [str(each.reference) for each in declared]
    if reference not in texts:  # a resource of a component
        return Finding(reference, f"fails in another order: {why}")
    index = texts.index(reference)
    for other in range(index - 1, max(-1, index - 1 - _CANDIDATES), -1):
        before, between = declared[:other], declared[other + 1 : index + 1]
        if reference in attempt([*before, *between, declared[other], *declared[index + 1 :]]).failed:
            return Finding(reference, f"needs 'require: {texts[other]}'", "", _place(declared[index]))
    return Finding(reference, f"fails in another order: {why}", "", _place(declared[index]))


def _dependent(declared: Order, path: str, references: Sequence[str]) -> Finding:
    """Return that what is at a path depends on the order."""
    places = {str(each.reference): _place(each) for each in declared}
    last = references[-1] if references else ""
    if len(references) > 1:
        text = f"writes {path}, as {references[0]} does: needs 'require: {references[0]}'"
        return Finding(last, text, "", places.get(last, ""))
    return Finding(last, f"{path} is different in another order", "", places.get(last, ""))


def _place(declaration: Declaration) -> str:
    place = declaration.place()
    return f"{place.file}:{place.line}" if place.line else ""
