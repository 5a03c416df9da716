"""Try other orders of a catalog, and report the relationships that are missing, as text to paste into the manifest.

An order is a sequence of the catalog's indexes in which every relationship holds; the order of the file is 0, 1, 2, …
Nothing is applied here: the caller passes a function that applies an order.
"""

from __future__ import annotations

import random
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import graph
from resource_api.catalog.graph import Edge
from resource_api.model.values import reference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.rehearse import contents, side_effects
from resource_api.rehearse.result import Finding, Verdict, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Declaration
    from resource_api.model.entry import ComponentInstance, Entry

    #: What a manifest declares: a resource, or a component with its resources.
    Declared = Entry | ComponentInstance
    Order = Sequence[int]

#: The same orders in every rehearsal.
_SEED: Final = 18
#: After so many causes the search ends.
_MOST_CAUSES: Final = 50


class FirstRun(NamedTuple):
    """What the order of the file has come to."""

    catalog: Catalog
    #: The references of what is not rehearsed.
    left_out: Collection[str]
    #: As of ``once``: reference → why it has failed, and contents.
    document: Mapping[str, Any]
    #: Path → the references of those that have written it, in their order.
    writers: Mapping[str, Sequence[str]]


class Tried(NamedTuple):
    """What has come of one order."""

    #: Reference → why it has failed.
    failed: Mapping[str, str]
    #: Path → what is there afterwards, comparable.
    contents: Mapping[str, object]


class Relationships:
    """Which resources come before which, and which pairs without a relationship have not yet been turned round."""

    def __init__(self, count: int, pairs: Collection[tuple[int, int]], aside: Collection[int] = ()) -> None:
        """Take ``count`` resources and ``pairs`` of first and then; those ``aside`` are not run."""
        self.count = count
        self._edges = [Edge(*pair) for pair in pairs]
        #: Index → the later ones that have come after it in each order so far, as bits.
        self._unturned = [0 if index in aside else (1 << count) - (1 << index + 1) for index in range(count)]
        for index in aside:
            self._unturned = [bits & ~(1 << index) for bits in self._unturned]
        self._leave_out_related()

    def add(self, first: int, then: int) -> None:
        """Add a relationship; ``first`` is before ``then`` in the file."""
        self._edges.append(Edge(first, then))
        self._leave_out_related()

    @property
    def unturned(self) -> int:
        """How many pairs without a relationship have been in the order of the file each time."""
        return sum(bits.bit_count() for bits in self._unturned)

    def note(self, order: Order) -> None:
        """Note which pairs an order turns round."""
        before = 0
        for index in order:
            self._unturned[index] &= ~before
            before |= 1 << index

    def arranged(self, wanted: Order) -> list[int]:
        """Return the order that the relationships allow in which what is early in ``wanted`` is as early as can be."""
        return _arranged(wanted, self._edges)

    def turning(self) -> list[int]:
        """Return an order that turns round all pairs of one resource, which comes as late as can be, and many more."""
        last = max(range(self.count), key=lambda index: self._unturned[index].bit_count())
        after = self._after()
        late = sorted(range(self.count), key=lambda index: -self._unturned[index].bit_count())
        late.sort(key=lambda index: (not after[last] >> index & 1, index != last))
        return _arranged(late, [Edge(then, first) for first, then, *_ in self._edges])[::-1]

    def is_before(self, first: int, then: int) -> bool:
        """Return whether a relationship, or several, say that ``first`` comes before ``then``."""
        return bool(self._after()[first] >> then & 1)

    def _leave_out_related(self) -> None:
        self._unturned = [bits & ~related for bits, related in zip(self._unturned, self._after(), strict=True)]

    def _after(self) -> list[int]:
        """Return index → what comes after it, directly or not, as bits. In the file, too, it comes after it."""
        after = [0] * self.count
        for first, then, *_ in sorted(self._edges, reverse=True):
            after[first] |= after[then] | 1 << then
        return after


def _arranged(wanted: Order, edges: Sequence[Edge]) -> list[int]:
    place = {index: number for number, index in enumerate(wanted)}
    found = graph.order(len(wanted), [Edge(place[first], place[then]) for first, then, *_ in edges])
    return [wanted[number] for number in found.sequence]


def orders(known: Relationships, count: int) -> Iterator[list[int]]:
    """Yield up to ``count`` different orders; meanwhile relationships may be added, and turned pairs be noted.

    First the reversed one, then until each pair without a relationship has been turned round those that do it, then
    shuffled ones.
    """
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    yielded = {tuple(range(known.count))}
    order = known.arranged(range(known.count)[::-1])
    for _ in range(4 * count):
        if tuple(order) not in yielded:
            yielded.add(tuple(order))
            yield order
        if len(yielded) > count:
            break
        shuffled = chance.sample(range(known.count), known.count)
        order = known.turning() if known.unturned else known.arranged(shuffled)


class Search:
    """Tries orders, and finds which relationships are missing."""

    def __init__(
        self,
        known: Relationships,
        first: Tried,
        attempt: Callable[[Order], Tried],
        missing: Callable[[int, int, Tried, Sequence[str]], Finding],
    ) -> None:
        """Compare with ``first``, what has come of the order of the file.

        ``missing`` returns the finding for a first resource and another that must not come before it, from what has
        come of that, with the paths where it differs.
        """
        self._known = known
        self._first = first
        self._attempt = attempt
        self._missing = missing
        self._bad = first
        #: How many orders were tried, beside those that were tried to find a cause.
        self.tried = 0

    def run(self, count: int) -> list[Finding]:
        """Try up to ``count`` orders; return what is wrong.

        An order is tried again with each relationship that was found missing, until it ends as that of the file.
        """
        found: list[tuple[int, int, Finding]] = []
        for order in orders(self._known, count):
            self.tried += 1
            wanted = order
            while len(found) < _MOST_CAUSES and self._is_bad(wanted):
                if self._unsteady.failed:
                    return [Finding(*each) for each in self._unsteady.failed.items()]
                found.append(self._cause(wanted))
                wanted = self._known.arranged(wanted)
            self._known.note(wanted)
        return list(dict.fromkeys(each for *_, each in sorted(found)))

    @cached_property
    def _unsteady(self) -> Tried:
        """What differs when the order of the file is tried once more, on another overlay."""
        again = self._attempt(range(self._known.count))
        failed = {failed_reference: f"fails when applied anew: {why}" for failed_reference, why in again.failed.items()}
        return Tried(failed, dict.fromkeys(_differing(self._first, again)))

    def _is_bad(self, order: Order) -> bool:
        tried = self._attempt(order)
        if not (tried.failed or self._changed(tried)):
            return False
        self._bad = tried
        return True

    def _changed(self, tried: Tried) -> list[str]:
        """Return the paths at which something else is there, though it is the same whenever the order is."""
        found = [] if tried.failed else _differing(self._first, tried)
        return [path for path in found if path not in self._unsteady.contents]

    def _cause(self, order: Order) -> tuple[int, int, Finding]:
        """Return two neighbours that make the difference between the order of the file and another, and the finding.

        Neighbours: first the one that must come later.

        Neighbours are exchanged one after another until the other order is there. Of these steps the one is searched,
        by halving, before which all is well and after which it is not.
        """
        good, bad = 0, _distance(order)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_bad(_on_the_way(order, middle)):
                bad = middle
            else:
                good = middle
        before, after = _on_the_way(order, good), _on_the_way(order, bad)
        first, then = next((ours, theirs) for ours, theirs in zip(before, after, strict=True) if ours != theirs)
        self._known.add(first, then)
        return then, first, self._missing(first, then, self._bad, self._changed(self._bad))


def _differing(first: Tried, second: Tried) -> list[str]:
    paths = sorted(first.contents.keys() | second.contents.keys())
    return [path for path in paths if first.contents.get(path) != second.contents.get(path)]


def _distance(order: Order) -> int:
    """Return how many exchanges of neighbours make an order of that of the file."""
    left, found = list(range(len(order))), 0
    for index in order:
        place = left.index(index)
        found += place
        left.pop(place)
    return found


def _on_the_way(order: Order, exchanges: int) -> list[int]:
    """Return what so many exchanges of neighbours make of the order of the file, on the way to another."""
    found = list(range(len(order)))
    for target, index in enumerate(order):
        place = found.index(index, target)
        steps = min(place - target, exchanges)
        found.insert(place - steps, found.pop(place))
        exchanges -= steps
        if not exchanges:
            break
    return found


def free_in_order(run: FirstRun, count: int, attempt: Callable[[tuple[str, ...]], Mapping[str, Any]]) -> Verdict:
    """Return whether up to ``count`` other orders come to the same; ``attempt`` applies references in an order."""
    names = [str(entry.reference) for entry in run.catalog.entries]
    pairs = [(first, then) for then, before in run.catalog.requires.items() for first in before]
    aside = [index for index, name in enumerate(names) if name in run.left_out]
    known = Relationships(len(names), pairs, aside)
    shared = shared_paths(run.catalog.entries, run.writers)

    def tried(order: Sequence[int]) -> Tried:
        return _tried(attempt(tuple(names[index] for index in order)), shared)

    def missing(first: int, then: int, worse: Tried, changed: Sequence[str]) -> Finding:
        return _missing(run, (first, then), worse, changed, known)

    search = Search(known, _tried(run.document, shared), tried, missing)
    found = search.run(count)
    text = f"{search.tried} other order{'s' * (search.tried != 1)}"
    if known.unturned:
        text += f", {known.unturned} pairs of resources in the order of the file each time"
    return Verdict("free in order", not found, text, found)


def _tried(document: Mapping[str, Any], shared: Collection[str]) -> Tried:
    """Return what has come of one order: the owners are left out, as numbers are given to users in their order."""
    found = {
        path: (fields[0], fields[1], contents.in_any_order(digest) if path in shared else digest)
        for path, (fields, digest) in document["contents"].items()
        if not side_effects.is_common(path)
    }
    return Tried({each[0]: each[1] for each in document["run"]}, found)


def shared_paths(found: Sequence[Entry], writers: Mapping[str, Collection[str]]) -> set[str]:
    """Return the paths of files in which resources have parts, so that the order of the parts is of no account.

    ``writers``: the references of those that have written a path.
    """
    entries = {str(entry.reference): entry for entry in found}
    imperative = {name for name, entry in entries.items() if "imperative" in entry.definition.features}
    return {
        path
        for path, those in writers.items()
        if not any(each in imperative or (each in entries and entries[each].name == path) for each in those)
    }


def _missing(
    run: FirstRun, pair: tuple[int, int], worse: Tried, changed: Sequence[str], known: Relationships
) -> Finding:
    """Return that the second of a pair needs a relationship to the first, and how that is seen."""
    first, then = (run.catalog.entries[index] for index in pair)
    outer_first, outer = _siblings(run.catalog, first, then)
    if _may_require(outer, outer_first, known):
        text = needs(_own_name(outer_first))
    else:
        outer, text = then, f"must come after {first.reference}"
    failed = next((each for each in worse.failed if each != str(then.reference)), "")
    if changed:
        wrote = [
            each for each in (str(first.reference), str(then.reference)) if each in run.writers.get(changed[0], ())
        ]
        both = len(wrote) == 2  # noqa: PLR2004 - of the pair
        text = f"writes {changed[0]}, as {first.reference} does: {text}" if both else f"{text}, or {changed[0]} differs"
    elif failed and str(then.reference) not in worse.failed:
        text = f"{text}, or {failed} fails"
    return Finding(str(outer.reference), text, "", outer.declaration.place().line_text)


def _siblings(catalog: Catalog, first: Entry, then: Entry) -> tuple[Declared, Declared]:
    """Return those that the same file declares: the resources themselves, or the components around them."""
    pair = list(zip(_path(catalog, first), _path(catalog, then), strict=False))
    return next(((ours, theirs) for ours, theirs in pair if ours is not theirs), (first, then))


def _path(catalog: Catalog, entry: Entry) -> list[Declared]:
    """Return the components around a resource, the outermost first, and the resource."""
    around = [reference.parse(each) for each in reference.enclosing_components(entry.parent)]
    return [*(catalog.components[each] for each in reversed(around)), entry]


def _may_require(then: Declared, first: Declared, known: Relationships) -> bool:
    """Return whether no resource of the first must come after one of the other."""
    return not any(known.is_before(later.index, each.index) for later in _members(then) for each in _members(first))


def _members(each: Any) -> Sequence[Entry]:
    return getattr(each, "members", None) or [each]


def _own_name(each: Declared) -> str:
    """Return a name as the file that declares it writes it."""
    declared: Declaration = each.declaration
    return str(reference.Reference(declared.type, each.title))
