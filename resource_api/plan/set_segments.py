"""Order the operations of a plan, find those that each must wait for, and cut them into segments, each for one ``set``.

Without removals this is the order of the catalog. A replacement is two operations, a removal and a put. Removals run in
reverse recorded dependencies, dependents first, and after everything else if possible. A conditional replacement is one
whose reason is not certain in the plan; an orphan is recorded, and no longer declared.

In order, a segment is a series of consecutive operations of one type; with ``--parallel``, where relationships alone
order, it has all operations of a type that wait for nothing else. It is split where an operation needs a call of its
own, or the result of another one. Pure.
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import graph
from resource_api.catalog.graph import Edge, reverse
from resource_api.model.action import Action
from resource_api.model.step import Operation, Step
from resource_api.model.values.start_up import NamedTuple
from resource_api.plan.replacement import conditional_groups, conditional_requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


#: The stages of orphans that are deleted after the declared resources: those of ``--prune`` and those of ``purge``.
PRUNE_STAGE: Final = 1
PURGE_STAGE: Final = 2


class _Node(NamedTuple):
    """An operation before it has a place in the order: a step, and whether this is the removal of its old resource."""

    step: Step
    removal: bool


def order_operations(
    steps: Sequence[Step],
    requires: Mapping[int, Sequence[int]],
    orphans: Collection[int],
    late: Mapping[int, int],
    on_failure: Mapping[int, Collection[int]] = MappingProxyType({}),
) -> tuple[list[Operation], Mapping[int, Sequence[int]]]:
    """Return the operations in the order of execution, and number → the operations that must have succeeded before.

    An operation that waits for a failed one is skipped. The number of an operation is its position in the order.
    ``steps`` are in the order of the catalog, orphans last; all other arguments hold indexes of entries. ``requires``:
    entry → the entries before it. ``late``: orphan → its stage; these orphans come last, stage by stage, except for one
    that another operation has to wait for. ``on_failure``: entry → the entries that it comes after, whether they
    succeed or not.
    """
    if orphans or any(step.decision.action is Action.REPLACE for step in steps):
        return _order_with_removals(steps, requires, orphans, late, on_failure)
    # Without a removal the steps are in order already: the catalog has ordered them, also by ``on_failure``.
    if not steps or steps[-1].entry.index < len(steps):
        # No entry is left out before the last step: number = index, so that ``requires`` itself is the waits.
        if max(requires, default=0) >= len(steps):
            requires = {index: before for index, before in requires.items() if index < len(steps)}
        return [Operation(step.entry.index, step) for step in steps], requires
    number_of = {step.entry.index: number for number, step in enumerate(steps)}
    waits = {
        number: [number_of[requirement] for requirement in requirements(index, requires, number_of)]
        for index, number in number_of.items()
    }
    return [Operation(number, step) for number, step in enumerate(steps)], waits


def _order_with_removals(
    steps: Sequence[Step],
    requires: Mapping[int, Sequence[int]],
    orphans: Collection[int],
    late: Mapping[int, int],
    on_failure: Mapping[int, Collection[int]],
) -> tuple[list[Operation], dict[int, list[int]]]:
    """Return the operations of a plan with removals, in the order of their edges, and their waits.

    The waits are number → the operations that must have succeeded before. A declared order of creation can contradict
    the reverse order of deletion: then automatic edges are left out. The arguments are those of ``order_operations``.
    """
    nodes = list(_nodes(steps, orphans))
    edges = _after_hosts(nodes, list(_Edges(nodes, requires).all()))
    edges += _after_failures(nodes, on_failure)
    order = graph.order(len(nodes), edges)
    if order.cycles:
        order = graph.order(len(nodes), [edge for edge in edges if not edge.automatic])
    before: dict[int, list[int]] = {}
    waits: dict[int, list[int]] = {}
    for edge in order.edges:
        before.setdefault(edge.then, []).append(edge.first)
        if not edge.on_failure:  # that orders only: no success is needed before it
            waits.setdefault(edge.then, []).append(edge.first)
    stages = {number: late.get(step.entry.index, 0) for number, (step, _) in enumerate(nodes)}
    # What an operation of no late stage waits for, directly or not, is not late either.
    first = graph.descendants((number for number, stage in stages.items() if not stage), before)
    sequence = sorted(order.sequence, key=lambda number: 0 if number in first else stages[number])
    number_of = {number: index for index, number in enumerate(sequence)}
    operations = [Operation(index, *nodes[number]) for index, number in enumerate(sequence)]
    return operations, {number_of[then]: [number_of[number] for number in earlier] for then, earlier in waits.items()}


def _after_failures(nodes: Sequence[_Node], on_failure: Mapping[int, Collection[int]]) -> Iterator[Edge]:
    """Yield the edges that put a resource with ``on_failure`` after all operations of the resources that it names.

    It is carried out only if one of them has failed, so all of them must have ended before.
    """
    if not on_failure:
        return
    numbers: dict[int, list[int]] = {}
    for number, (step, _) in enumerate(nodes):
        numbers.setdefault(step.entry.index, []).append(number)
    for index, handled in on_failure.items():
        for first in (number for target in handled for number in numbers.get(target, ())):
            yield from (Edge(first, then, on_failure=True) for then in numbers.get(index, ()))


def handled_operations(
    operations: Sequence[Operation], on_failure: Mapping[int, Collection[int]]
) -> Mapping[int, Sequence[int]]:
    """Return, by number, the operations that must have ended before one with ``on_failure``, successfully or not.

    A parallel run needs them beside the plan's waits, which hold only operations that must have succeeded.
    """
    if not on_failure:
        return {}
    numbers = numbers_by_entry(operations)
    return {
        number: [first for target in sorted(handled) for first in numbers.get(target, ())]
        for index, handled in on_failure.items()
        for number in numbers.get(index, ())
    }


def _nodes(steps: Sequence[Step], orphans: Collection[int]) -> Iterator[_Node]:
    """Yield the nodes, one for each operation, in the order of execution that holds where no edge demands another.

    It is the catalog's order. A replacement removes the old resource before it creates the new one. With create_first
    the old resources are removed after all creations, in reverse order, because dependents have to be removed before
    the resources that they need. Orphans come last.
    """
    last = []
    for step in steps:
        if step.entry.index in orphans:
            continue
        if step.action is Action.REPLACE and _removed_last(step):
            last.append(step)
        elif step.action is Action.REPLACE:
            yield _Node(step, removal=True)
        yield _Node(step, removal=False)
    yield from (_Node(step, removal=True) for step in reversed(last))
    yield from (_Node(step, removal=True) for step in steps if step.entry.index in orphans)


def _removed_last(step: Step) -> bool:
    """Return whether the old resource is removed after everything else: create_first, unless the step has failed."""
    return step.create_first and not step.decision.error


def _after_hosts(nodes: Sequence[_Node], edges: list[Edge]) -> list[Edge]:
    """Return the edges, changed so that a removal comes after that of its host (``deleted_with``).

    The resource disappears with its host, so that it needs no call of its own. The host's removal would usually wait
    for this removal, which would be a circle: removals that were to wait for this one wait for the operations before it
    instead.
    """
    hosts = _removals_of_own_host(nodes)
    if not hosts:
        return edges
    # Of two edges between the same nodes the explicit one counts.
    edge_of = {(edge.first, edge.then): edge for edge in sorted(edges, key=lambda edge: not edge.automatic)}
    before: dict[int, set[int]] = {number: set() for number in range(len(nodes))}
    after: dict[int, set[int]] = {number: set() for number in range(len(nodes))}
    for first, then in edge_of:
        before[then].add(first)
        after[first].add(then)
    for number in hosts:
        earlier = before[number].copy()
        for then in [then for then in after[number] if nodes[then].removal]:
            del edge_of[number, then]
            before[then].remove(number)
            after[number].remove(then)
            for first in earlier:
                edge_of.setdefault((first, then), Edge(first, then, automatic=True))
                before[then].add(first)
                after[first].add(then)
    return [*edge_of.values(), *(Edge(host, number) for number, removers in hosts.items() for host in removers)]


def _removals_of_own_host(nodes: Sequence[_Node]) -> dict[int, set[int]]:
    """Return the nodes whose resources may disappear with their hosts (``deleted_with``) → the removals of the host.

    Such a node comes after these removals, because its resource needs no call of its own then.
    """
    removals = _removals_by_reference(nodes)
    hosts = {}
    for number, (step, removal) in enumerate(nodes):
        removers = removals.get(step.entry.meta.lifecycle.deleted_with or "", set()) - {number}
        # An orphan is forgotten; a resource to be replaced no longer exists after the host, and is only created.
        fails = step.decision.error or step.decision.forbidden
        replaced = removal and step.action is Action.REPLACE and not fails
        if removers and (replaced or step.action is Action.FORGET):
            hosts[number] = removers
    return hosts


def _removals_by_reference(nodes: Sequence[_Node]) -> dict[str, set[int]]:
    """Return reference → the nodes that remove its resource, to look up the removals of a host by ``deleted_with``.

    The removal of an old resource that an earlier run replaced is under the reference of its successor. Its record does
    not name the successor, so the removal is under every resource of the type that is replaced with create_first.
    """
    removals: dict[str, set[int]] = {}
    replaced: dict[str, set[int]] = {}
    for number, (step, removal) in enumerate(nodes):
        if removal:
            removals.setdefault(str(step.reference), set()).add(number)
            if step.record is not None and step.record.is_replaced:
                replaced.setdefault(step.record.instance, set()).add(number)
            elif step.record is not None and step.action is Action.DELETE:
                removals.setdefault(str(step.record.reference), set()).add(number)
    for step, removal in nodes if replaced else ():
        if not removal and step.create_first and step.definition.instance in replaced:
            removals.setdefault(str(step.reference), set()).update(replaced[step.definition.instance])
    return removals


class _Edges:
    """The edges among nodes: which operation has to come before which."""

    def __init__(self, nodes: Sequence[_Node], requires: Mapping[int, Sequence[int]]) -> None:
        """Index the nodes; ``requires``: index of an entry → indexes of the entries before it."""
        self._nodes = nodes
        self._requires = requires
        #: Index of an entry → the node that puts or removes its resource; a replacement is in both.
        self._puts = {step.entry.index: number for number, (step, removal) in enumerate(nodes) if not removal}
        self._removals = {step.entry.index: number for number, (step, removal) in enumerate(nodes) if removal}
        self._present = self._puts.keys() | self._removals.keys()

    @cached_property
    def _after(self) -> Mapping[int, Sequence[int]]:
        """Entry → the entries that require it."""
        return reverse(self._requires)

    @cached_property
    def _groups(self) -> Mapping[int, Mapping[int, Collection[int]]]:
        """Entry → the group of its conditional replacement, see ``conditional_groups``."""
        return conditional_groups(step for step, removal in self._nodes if removal)

    def all(self) -> Iterator[Edge]:
        """Yield every edge: puts after their requirements, the two parts of a replacement, the order of removals."""
        puts, removals = self._puts, self._removals
        for index, number in puts.items():
            yield from (Edge(puts[before], number) for before in self._required(index) if before in puts)
        for index, number in removals.items():
            if index in puts:
                last = _removed_last(self._nodes[number].step)
                yield Edge(puts[index], number) if last else Edge(number, puts[index])
        yield from self._before_removals()
        yield from self._by_dependents()

    def _required(self, index: int) -> list[int]:
        """Return the entries with a node that an entry requires, also by way of entries without one."""
        return requirements(index, self._requires, self._present)

    def _before_removals(self) -> Iterator[Edge]:
        """Yield the edges that delay the removal of a replaced resource until the new one can be created.

        The resource is then missing for a short time only, and is not removed if a requirement of the new one fails. A
        requirement that itself comes after such a removal is left out, because its edge would make a circle.
        """
        puts, removals = self._puts, self._removals
        replaced = {
            index for index, number in removals.items() if index in puts and not self._nodes[number].step.create_first
        }
        after_removal = graph.descendants(replaced, self._after)
        conditional = conditional_requirements(self._groups, self._after)
        for index in replaced:
            if self._nodes[removals[index]].step.decision.conditional:
                yield from self._before_decision(index, index)
                for source in self._groups[index][index]:
                    yield Edge(removals[index], removals[source], automatic=True)
                continue
            # If one of these turns out to be forbidden, this resource could not be created again.
            for member in conditional.get(index, ()):
                yield from self._before_decision(member, index)
            for before in self._requires.get(index, ()):
                if before in puts and before not in after_removal:
                    yield Edge(puts[before], removals[index], automatic=True)

    def _before_decision(self, member: int, index: int) -> Iterator[Edge]:
        """Yield the edges that remove resource ``index`` only when the group of replacement ``member`` can be decided.

        The replacements of a group have reasons that are not certain in the plan: they can be decided when all
        requirements of the group have been applied. ``index`` is a resource of the group, or one that requires it.
        """
        group = self._groups[member]
        later = graph.descendants(group, self._after)
        for before in {before for resource in group for before in self._required(resource)} - later:
            if before in self._puts:
                yield Edge(self._puts[before], self._removals[index], automatic=True)

    def _by_dependents(self) -> Iterator[Edge]:
        """Yield the edges that remove a resource after its dependents are removed, or no longer use it.

        Dependents are taken from the catalog and from the records. A dependent that remains is changed before the
        removal, except if the removed resource is deleted first and then created again: the dependent's change needs
        the new resource and follows it.
        """
        puts, removals = self._puts, self._removals
        for step, removal in self._nodes:
            index = step.entry.index
            if not removal and index in removals:
                continue
            stays = not removal or step.decision.conditional
            for source in self._removed_requirements(step):
                if not stays:
                    yield Edge(removals[index], removals[source], automatic=True)
                elif source not in puts or self._nodes[removals[source]].step.create_first:
                    yield Edge(puts[index], removals[source], automatic=True)
        yield from self._before_replaced()

    def _removed_requirements(self, step: Step) -> set[int]:
        """Return the entries to be removed that a step's resource requires, by its declaration or by its record.

        The record has the requirements of an earlier declaration, which the existing resource may still use.
        """
        recorded = step.record.requires if step.record else ()
        required = {self._removed_by_reference[name] for name in recorded if name in self._removed_by_reference}
        required |= {before for before in self._required(step.entry.index) if before in self._removals}
        return required - {step.entry.index}

    @cached_property
    def _removed_by_reference(self) -> Mapping[str, int]:
        """Reference, as recorded → the entry that is removed, to find the requirements in records.

        A resource that an earlier run has replaced is left out: its reference is that of its successor now.
        """
        steps = {index: self._nodes[number].step for index, number in self._removals.items()}
        return {
            str((step.record or step).reference): index
            for index, step in steps.items()
            if step.record is None or not step.record.is_replaced
        }

    def _before_replaced(self) -> Iterator[Edge]:
        """Yield the edges for old resources that an earlier run replaced, but could not remove any more.

        Each is removed after the users of its successor have changed, because they may still use the old one. A record
        does not name the successor: it may be any resource of the same provider instance with create_first.
        """
        replaced: dict[str, list[int]] = {}
        for number in self._removals.values():
            record = self._nodes[number].step.record
            if record is not None and record.is_replaced:
                replaced.setdefault(record.instance, []).append(number)
        if not replaced:
            return
        for index, user in self._puts.items():
            if not self._nodes[user].step.acts:
                continue
            required = (
                self._nodes[self._puts[prerequisite]].step
                for prerequisite in self._required(index)
                if prerequisite in self._puts
            )
            successors = {step.definition.instance for step in required if step.create_first}
            for instance in successors & replaced.keys():
                yield from (Edge(user, number, automatic=True) for number in replaced[instance])


def requirements(index: int, requires: Mapping[int, Sequence[int]], present: Collection[int]) -> list[int]:
    """Return the ``present`` entries that an entry requires, directly or through entries that are not present.

    An entry without a step, as in a partial run, is not present: an order through it still holds. ``requires``: entry →
    the entries before it, directly.
    """
    required: set[int] = set()
    passed: set[int] = set()
    waiting = [*requires.get(index, ())]
    while waiting:
        candidate = waiting.pop()
        if candidate in present:
            required.add(candidate)
        elif candidate not in passed:
            passed.add(candidate)
            waiting += requires.get(candidate, ())
    return sorted(required)


def numbers_by_entry(operations: Sequence[Operation]) -> dict[int, list[int]]:
    """Return entry's index → the numbers of its operations: one, or for a replacement two, removal and creation.

    Relationships are declared between entries, results belong to operations: this mapping leads from one to the other.
    """
    numbers: dict[int, list[int]] = {}
    for operation in operations:
        numbers.setdefault(operation.step.entry.index, []).append(operation.number)
    return numbers


def stage_begins(operations: Sequence[Operation], late: Mapping[int, int]) -> Sequence[int]:
    """Return, for each late stage, the number of its first operation.

    A stage begins when all operations before this number have ended, also in a parallel run. For a stage without
    operations it is the number that its first operation would have. ``late``: orphan → its stage.
    """
    begins = []
    for stage in sorted(set(late.values())):
        number = len(operations)
        while number and late.get(operations[number - 1].step.entry.index, 0) >= stage:
            number -= 1
        begins.append(number)
    return begins


def blocked(
    operations: Sequence[Operation],
    waits: Mapping[int, Sequence[int]],
    orphans: Collection[int],
    late: Mapping[int, int],
) -> dict[int, str]:
    """Return the entries blocked by a step that failed in the plan: entry's index → reference of that step.

    ``waits``: number → the numbers of the operations that must have succeeded before it. ``late``: orphan → its stage.
    A replacement is done completely or not at all: if one of its operations is blocked, so is the other. A failed or
    blocked declared resource blocks all ``late`` entries; an orphan blocks only those of the last stage, the purge.
    """
    causes = {
        operation.number: str(operation.step.reference) for operation in operations if operation.step.decision.error
    }
    if not causes:
        return {}
    after, numbers = reverse(waits), numbers_by_entry(operations)

    def prevented(number: int) -> Iterable[int]:
        """Return the operations that wait for one, and those of the same replacement."""
        return (*after.get(number, ()), *numbers[operations[number].step.entry.index])

    _spread(causes, list(causes), prevented)
    for stage in sorted(set(late.values())):
        # A failed orphan blocks a purge only: a pruned resource does not depend on another orphan without an edge.
        before = [
            number for number in causes if stage == PURGE_STAGE or operations[number].step.entry.index not in orphans
        ]
        in_stage = [
            operation.number
            for operation in operations
            if late.get(operation.step.entry.index) == stage and operation.number not in causes
        ]
        if before and in_stage:
            causes.update(dict.fromkeys(in_stage, causes[min(before)]))
            _spread(causes, in_stage, prevented)
    steps = ((operations[number].step, cause) for number, cause in causes.items())
    return {step.entry.index: cause for step, cause in steps if not step.decision.error}


def _spread(causes: dict[int, str], waiting: list[int], prevented: Callable[[int], Iterable[int]]) -> None:
    """Add to ``causes`` (operation → the failed step that blocks it) all operations that those in ``waiting`` prevent.

    An operation prevented indirectly gets the cause of the one that prevents it. The list ``waiting`` is consumed.
    """
    while waiting:
        number = waiting.pop()
        for dependent in prevented(number):
            if dependent not in causes:
                causes[dependent] = causes[number]
                waiting.append(dependent)


def segments(
    operations: Sequence[Operation], waits: Mapping[int, Sequence[int]], begins: Sequence[int]
) -> Iterator[list[Operation]]:
    """Yield the segments of a plan in its order: consecutive operations of one type that can share a ``set``.

    ``waits``: the number of an operation → the operations that must have succeeded before it. ``begins``: the first
    numbers of late stages, which share no call with earlier operations.
    """
    for _, same_type in groupby(operations, key=lambda operation: operation.definition.instance):
        candidates = list(same_type)
        if all(map(_is_plain, candidates)):
            yield candidates
            continue
        segment = SegmentBuilder(operations, waits, begins)
        for operation in candidates:
            if not segment.accepts(operation):
                yield segment.operations
                segment = SegmentBuilder(operations, waits, begins)
            segment.add(operation)
        yield segment.operations


class SegmentBuilder:
    """Builds a segment, operation by operation."""

    def __init__(
        self, operations: Sequence[Operation], waits: Mapping[int, Sequence[int]], begins: Sequence[int]
    ) -> None:
        """Begin empty; ``operations`` are all of the plan.

        ``waits``: the number of an operation → the operations that must have succeeded before it. ``begins``: the
        first numbers of late stages, which share no call with earlier operations.
        """
        self.operations: list[Operation] = []
        #: Whether the segment accepts no operation, because its only one has a call of its own.
        self.closed = False
        self._planned = operations
        self._waits = waits
        self._begins = begins
        #: Of the segment's operations; one call has no name twice.
        self._numbers: set[int] = set()
        self._names: set[object] = set()

    def accepts(self, operation: Operation) -> bool:
        """Return whether an operation can share a ``set`` with the segment: nothing makes it need a later call."""
        if not self.operations:
            return True
        if self.closed or _needs_own_call(operation):
            return False
        if operation.step.entry.meta.on_failure != self.operations[0].step.entry.meta.on_failure:
            return False  # it would wait for other failures, or would not go on in spite of ``--fail-fast``
        if _name(operation) in self._names:  # the removal of a replaced resource and its creation, for example
            return False
        first, last = self.operations[0].number, operation.number
        if any(first < number <= last for number in self._begins):  # a late stage begins between them
            return False
        return not self._needs_result(operation)

    def _needs_result(self, operation: Operation) -> bool:
        """Return whether an operation needs the result of another operation of the segment, and so a later ``set``.

        All changes of a call are decided and given to the provider at once, before any of them has a result.
        """
        step = operation.step
        # A resource that disappears with its host is read again after that is removed, not in the same call.
        forgets = step.decision.action is Action.FORGET or (
            operation.removal and step.entry.meta.lifecycle.deleted_with
        )
        decided_late = bool(forgets or step.decision.conditional or step.unknown)
        if not (decided_late or step.entry.pending or step.refreshed_by):
            return False
        numbers = self._numbers.intersection(self._waits.get(operation.number, ()))
        waits_for = [self._planned[number].step for number in numbers]
        if waits_for and decided_late:
            return True
        # A predicted value is used only when it became true.
        if step.entry.pending and any(before.decision.predicted for before in waits_for):
            return True
        # A refreshed resource notifies its listeners: they are refreshed by a later call.
        return bool(step.refreshed_by) and any(before.refreshed_by for before in waits_for)

    def add(self, operation: Operation) -> None:
        """Add an operation, for which ``accepts`` has returned True."""
        self.closed = _needs_own_call(operation)
        self.operations.append(operation)
        self._numbers.add(operation.number)
        self._names.add(_name(operation))


def _name(operation: Operation) -> Any:
    """Return the name of the resource that an operation changes: of a replacement's removal, the former one."""
    step = operation.step
    return step.old_name if operation.removal else step.entry.name


def _is_plain(operation: Operation) -> bool:
    """Return whether an operation can share a call with any other plain operation of its type.

    Nearly all operations are plain: checking them one against another would take time in a large plan.
    """
    step = operation.step
    special = operation.removal or step.unknown or step.refreshed_by or step.entry.pending or step.decision.conditional
    return not (
        special or step.entry.meta.on_failure or step.decision.action is Action.FORGET or _needs_own_call(operation)
    )


def _needs_own_call(operation: Operation) -> bool:
    """Return whether no other operation may share its call: its type is imperative, or a timeout is for it alone."""
    entry = operation.step.entry
    return "imperative" in entry.definition.features or entry.has_timeout
