"""Try other orders of a catalog, and report the relationships that are missing, as text to paste into the manifest.

An order is a sequence of the catalog's indexes in which every relationship holds; the order of the file is 0, 1, 2, …
Nothing is applied here: the caller passes a function that applies an order.
"""

from __future__ import annotations

import random
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import graph
from resource_api.catalog.graph import Edge
from resource_api.model.values import reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted
from resource_api.rehearse import side_effects
from resource_api.rehearse.result import Finding, Verdict, needs
from resource_api.system.overlay.overlay import in_any_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import ComponentInstance, Entry

    #: A declaration of a manifest: a resource, or a component with its resources.
    Declared = Entry | ComponentInstance
    Order = Sequence[int]

#: The same orders in every rehearsal.
_SEED: Final = 18
#: The number of causes after which the search ends.
_MOST_CAUSES: Final = 50


class FirstRun(NamedTuple):
    """The result of the order of the file."""

    catalog: Catalog
    #: The references that are not rehearsed.
    left_out: Collection[str]
    #: A document like that of ``once`` in ``rehearsal``: its failures and its contents.
    document: Mapping[str, object]
    #: Path → the references of its writers, in their order.
    writers: Mapping[str, Sequence[str]]


class Tried(NamedTuple):
    """The result of one order."""

    #: Reference → error.
    failed: Mapping[str, str]
    #: Path → comparable contents.
    contents: Mapping[str, object]


class Relationships:
    """The order between resources, and the untried pairs: unrelated ones that no order has reversed yet."""

    def __init__(self, count: int, pairs: Collection[tuple[int, int]], aside: Collection[int] = ()) -> None:
        """Begin with ``count`` resources and ``pairs`` of their indices (first, then) as relationships.

        Resources in ``aside`` are not rehearsed: their pairs with others need no try.
        """
        self.count = count
        self._edges = [Edge(*pair) for pair in pairs]
        rehearsed = sum(1 << index for index in range(count) if index not in aside)
        #: Index → the unrelated later indexes that have come after it in each order so far, as the bits of a number.
        #: At first these are all later ones: of four resources 0b1110 for 0, 0b1100 for 1.
        # ``-(2 << index)`` has the bits of all higher indices: -4 is …11100 for 1.
        self._untried = [0 if index in aside else rehearsed & -(2 << index) for index in range(count)]
        self._leave_out_related()

    def add(self, first: int, then: int) -> None:
        """Add a relationship; ``first`` is before ``then`` in the file."""
        self._edges.append(Edge(first, then))
        self._leave_out_related()

    @property
    def untried(self) -> int:
        """The number of unrelated pairs that were in the order of the file in each try."""
        return sum(bits.bit_count() for bits in self._untried)

    def record(self, order: Order) -> None:
        """Record an order that was tried: the pairs that it reverses are removed from the untried ones.

        For each resource these are the later ones of the file that precede it in ``order``.
        """
        before = 0  # the preceding indexes, as bits
        for index in order:
            self._untried[index] &= ~before
            before |= 1 << index

    def arranged(self, preferred: Order) -> list[int]:
        """Return the order nearest to ``preferred`` that the relationships allow."""
        return _arranged(preferred, self._edges)

    def reversing_most(self) -> list[int]:
        """Return an order that reverses many untried pairs, so that few orders are enough to try all of them.

        The resource with the most untried pairs comes as late as its relationships allow, which reverses all of its
        pairs. Before it come the others, those with the fewest untried pairs first. As lateness is preferred, the order
        is computed from its end, with reversed relationships, and turned round.
        """
        last = max(range(self.count), key=lambda index: self._untried[index].bit_count())
        after = self._after()
        from_end = sorted(range(self.count), key=lambda index: -self._untried[index].bit_count())
        # A stable sort: the resources that depend on ``last``, ``last`` itself, then the rest as before.
        from_end.sort(key=lambda index: (not after[last] >> index & 1, index != last))
        reversed_edges = [Edge(then, first) for first, then, *_ in self._edges]
        return _arranged(from_end, reversed_edges)[::-1]

    def is_before(self, first: int, then: int) -> bool:
        """Return whether relationships, direct or not, order ``first`` before ``then``."""
        return bool(self._after()[first] >> then & 1)

    def _leave_out_related(self) -> None:
        """Remove the pairs whose order the relationships fix from the untried ones; called for each new edge."""
        self._untried = [bits & ~related for bits, related in zip(self._untried, self._after(), strict=True)]

    def _after(self) -> list[int]:
        """Return index → the later indices that depend on it, directly or not: their order is fixed.

        The indices are the bits of a number: 0b110 for 1 and 2. Edges lead from lower to higher indices, so from the
        last edge on, the bits of ``then`` are complete when they are added to those of ``first``.
        """
        after = [0] * self.count
        for first, then, *_ in sorted(self._edges, reverse=True):
            after[first] |= after[then] | 1 << then
        return after


def _arranged(preferred: Order, edges: Sequence[Edge]) -> list[int]:
    """Return the order nearest to ``preferred`` in which the edges hold, as any order to try must obey them.

    ``graph.order`` prefers lower numbers: it gets the rank in ``preferred`` of each index in place of the index.
    """
    rank = {index: number for number, index in enumerate(preferred)}
    arranged = graph.order(len(preferred), [Edge(rank[first], rank[then]) for first, then, *_ in edges])
    return [preferred[number] for number in arranged.sequence]


def orders(relationships: Relationships, count: int) -> Iterator[list[int]]:
    """Yield up to ``count`` orders to try, each different from the others and from the order of the file.

    First the reversed one, then orders that reverse untried pairs until there are none, then shuffled ones. The caller
    records each order, and may add relationships meanwhile, which later orders obey.
    """
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    yielded = {tuple(range(relationships.count))}
    order = relationships.arranged(range(relationships.count)[::-1])
    for _ in range(4 * count):  # a limit, because orders may be equal
        if tuple(order) not in yielded:
            yielded.add(tuple(order))
            yield order
        if len(yielded) > count:
            break
        shuffled = chance.sample(range(relationships.count), relationships.count)
        order = relationships.reversing_most() if relationships.untried else relationships.arranged(shuffled)


class Search:
    """Tries orders, and finds the missing relationships."""

    def __init__(
        self,
        relationships: Relationships,
        first: Tried,
        attempt: Callable[[Order], Tried],
        missing: Callable[[int, int, Tried, Sequence[str]], Finding],
    ) -> None:
        """Compare with ``first``, the result of the order of the file; ``attempt`` applies another order.

        ``missing`` returns the finding that the first of two resources must come before the second. It also gets the
        result of the wrong order and the paths that differ in it.
        """
        self._relationships = relationships
        self._first = first
        self._attempt = attempt
        self._missing = missing
        #: The last result that differed from the first one, see ``_is_bad``.
        self._bad = first
        #: The number of orders that were tried, without those that were tried to find a cause.
        self.tried = 0

    def run(self, count: int) -> list[Finding]:
        """Try up to ``count`` orders; return a finding for each relationship that is missing in the manifest.

        An order is tried again with each missing relationship added, until its result equals the first.
        """
        causes: list[tuple[int, int, Finding]] = []
        for order in orders(self._relationships, count):
            self.tried += 1
            arranged = order
            while len(causes) < _MOST_CAUSES and self._is_bad(arranged):
                if self._unsteady.failed:
                    return [Finding(*failure) for failure in self._unsteady.failed.items()]
                causes.append(self._cause(arranged))
                arranged = self._relationships.arranged(arranged)
            self._relationships.record(arranged)
        # In the order of the file, each once.
        return list(dict.fromkeys(cause for _then, _first, cause in sorted(causes)))

    @cached_property
    def _unsteady(self) -> Tried:
        """The failures and differing paths of a second try of the file's order.

        Their cause cannot be the order, so they are not compared between orders. ``contents`` has the paths as keys
        only.
        """
        again = self._attempt(range(self._relationships.count))
        failed = {name: f"fails when applied anew: {error}" for name, error in again.failed.items()}
        return Tried(failed, dict.fromkeys(_differing(self._first, again)))

    def _is_bad(self, order: Order) -> bool:
        """Try an order; return whether its result differs from that of the file's order.

        Such a result is kept as ``_bad``, for the text of the finding.
        """
        tried = self._attempt(order)
        if not (tried.failed or self._changed(tried)):
            return False
        self._bad = tried
        return True

    def _changed(self, tried: Tried) -> list[str]:
        """Return the paths that an order changes, except those that two equal orders change; none after a failure."""
        paths = [] if tried.failed else _differing(self._first, tried)
        return [path for path in paths if path not in self._unsteady.contents]

    def _cause(self, order: Order) -> tuple[int, int, Finding]:
        """Return the relationship that a wrong order lacks: the resource to come later, the other one, and the finding.

        Swaps of neighbours lead from the order of the file, which is right, to ``order``. A bisection finds the first
        swap that makes the result wrong; its two neighbours must keep the file's order. This becomes a relationship,
        so that later orders respect it.
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
        self._relationships.add(first, then)
        return then, first, self._missing(first, then, self._bad, self._changed(self._bad))


def _differing(first: Tried, second: Tried) -> list[str]:
    """Return the paths, sorted, whose contents differ between two results."""
    paths = sorted(first.contents.keys() | second.contents.keys())
    return [path for path in paths if first.contents.get(path) != second.contents.get(path)]


def _distance(order: Order) -> int:
    """Return the number of swaps of neighbours from the file's order to ``order``, the range of a bisection."""
    remaining, distance = list(range(len(order))), 0
    for index in order:
        position = remaining.index(index)
        distance += position
        remaining.pop(position)
    return distance


def _on_the_way(order: Order, swaps: int) -> list[int]:
    """Return the order after the first ``swaps`` of neighbours on the way from the file's order to ``order``.

    Each index is moved forward to its position, one after another: to 2 0 1 by 0 2 1.
    """
    current = list(range(len(order)))
    for target, index in enumerate(order):
        position = current.index(index, target)
        steps = min(position - target, swaps)
        current.insert(position - steps, current.pop(position))
        swaps -= steps
        if not swaps:
            break
    return current


def free_in_order(run: FirstRun, count: int, attempt: Callable[[tuple[str, ...]], Mapping[str, Any]]) -> Verdict:
    """Return the verdict whether up to ``count`` other orders have the same result; findings are missing relationships.

    ``attempt`` applies the resources with these references in this order, and returns the document of ``once``.
    """
    names = [str(entry.reference) for entry in run.catalog.entries]
    pairs = [(first, then) for then, before in run.catalog.requires.items() for first in before]
    aside = [index for index, name in enumerate(names) if name in run.left_out]
    relationships = Relationships(len(names), pairs, aside)
    shared = shared_paths(run.catalog.entries, run.writers)

    def tried(order: Sequence[int]) -> Tried:
        return _comparable_result(attempt(tuple(names[index] for index in order)), shared)

    def missing(first: int, then: int, worse: Tried, changed: Sequence[str]) -> Finding:
        return _missing_relationship(run, (first, then), worse, changed, relationships)

    search = Search(relationships, _comparable_result(run.document, shared), tried, missing)
    findings = search.run(count)
    text = counted(search.tried, "other order")
    if relationships.untried:
        text += f", {relationships.untried} pairs of resources in the order of the file each time"
    return Verdict("free in order", not findings, text, findings)


def _comparable_result(document: Mapping[str, Any], shared: Collection[str]) -> Tried:
    """Return an order's failures and contents, without the differences that any two right orders may have.

    These are owners, as the numbers of accounts depend on the order of their creation, files that every change of an
    account rewrites, and the order of lines in ``shared`` files.
    """
    compared = {
        path: (kind, mode, in_any_order(digest) if path in shared else digest)
        for path, ((kind, mode, *_), digest) in document["contents"].items()
        if not side_effects.is_common(path)
    }
    return Tried({name: error for name, error, *_ in document["run"]}, compared)


def shared_paths(catalog_entries: Sequence[Entry], writers: Mapping[str, Collection[str]]) -> set[str]:
    """Return the paths of files to which resources contribute lines, whose order is therefore not compared.

    A file is not among them if the name of one of its writers is its path, as this resource declares the whole file, or
    if a writer is imperative, as its program may write anything. ``writers``: path → the references of its writers.
    """
    entries = {str(entry.reference): entry for entry in catalog_entries}
    imperative = {name for name, entry in entries.items() if "imperative" in entry.definition.features}
    return {
        path
        for path, names in writers.items()
        if not any(name in imperative or (name in entries and entries[name].name == path) for name in names)
    }


def _missing_relationship(
    run: FirstRun, pair: tuple[int, int], worse: Tried, changed: Sequence[str], relationships: Relationships
) -> Finding:
    """Return the finding that the second resource of ``pair``, or its component, must require the first.

    Its text includes the symptom of the wrong order: the first path in ``changed``, which differs, otherwise another
    resource that fails in ``worse``, the result of that order. If the second resource itself fails there, the finding
    about it is clear without a symptom.
    """
    first, then = (run.catalog.entries[index] for index in pair)
    outer, text = _requirement(run.catalog, first, then, relationships)
    failed = next((name for name in worse.failed if name != str(then.reference)), "")
    if changed:
        both = {str(first.reference), str(then.reference)}.issubset(run.writers.get(changed[0], ()))
        text = f"writes {changed[0]}, as {first.reference} does: {text}" if both else f"{text}, or {changed[0]} differs"
    elif failed and str(then.reference) not in worse.failed:
        text = f"{text}, or {failed} fails"
    return Finding(str(outer.reference), text, "", outer.declaration.place().line_text)


def _requirement(catalog: Catalog, first: Entry, then: Entry, relationships: Relationships) -> tuple[Declared, str]:
    """Return the declaration to mend, and the text of the finding that ``then`` needs ``first``.

    Only declarations of one file can name each other in ``require``. If the two resources are in different components,
    the components around them in a common file are taken, unless this would make a cycle between their resources. Then
    the text only states the order, as there is nothing to paste.
    """
    outer_first, outer = _siblings(catalog, first, then)
    if _may_require(outer, outer_first, relationships):
        # As its own file spells it, without the components around.
        return outer, needs(str(reference.Reference(outer_first.declaration.type, outer_first.title)))
    return then, f"must come after {first.reference}"


def _siblings(catalog: Catalog, first: Entry, then: Entry) -> tuple[Declared, Declared]:
    """Return the declarations of a pair in the same file: the outermost components that differ, or the resources."""
    pair = list(zip(_path(catalog, first), _path(catalog, then), strict=False))
    return next(((ours, theirs) for ours, theirs in pair if ours is not theirs), (first, then))


def _path(catalog: Catalog, entry: Entry) -> list[Declared]:
    """Return the components around a resource, the outermost first, and the resource."""
    components = [reference.parse(component) for component in reference.enclosing_components(entry.parent)]
    return [*(catalog.components[component] for component in reversed(components)), entry]


def _may_require(then: Declared, first: Declared, relationships: Relationships) -> bool:
    """Return whether ``then`` may be declared to require ``first`` without a cycle between their resources."""
    pairs = product(_members(then), _members(first))
    return not any(relationships.is_before(later.index, earlier.index) for later, earlier in pairs)


def _members(declared: object) -> Sequence[Entry]:
    """Return the resources of a component, or the resource itself."""
    return getattr(declared, "members", None) or [declared]
