"""Verifies that a provider's call reached the requested state, by reading after it.

``segment_run`` ends the operations whose resource is not in the requested state.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING
from resource_api.model.change import Difference, compared_value, conceal_difference, ensure_of, exists
from resource_api.model.sealed_secrets import mark_secrets
from resource_api.model.values.reference import with_path
from resource_api.model.values.text import show_attribute
from resource_api.model.values.values import UNKNOWN, is_secret, same_value
from resource_api.plan.diff import ComparisonError, compare, equal_indexes, planned_differences, predict
from resource_api.snapshot.observe import read_until_settled
from resource_api.transaction.provider_call import SettlingProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.provider_functions import Observation, ProviderFunctions
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.snapshot.batched_get import CheckedRow, Snapshot
    from resource_api.transaction.operation_run import OperationRun

#: The beginning of the error of a change that is not visible afterwards.
NOT_CONVERGED: Final = "did not converge: "
#: The length of the longest text that may be held twice.
_SHORT_TEXT: Final = 16
#: Types whose values equal no value of another type, as 1 equals True.
_DISTINCT: Final = frozenset({str, type(None)})


class Verification:
    """Compares the rows that were read after the calls of one segment with the requested state."""

    def __init__(self, snapshot: Snapshot, definition: TypeDefinition) -> None:
        """Begin with nothing read; ``definition`` is the type of all operations of the segment."""
        self._snapshot = snapshot
        self._definition = definition
        self._imperative = "imperative" in definition.features
        #: By number, the rows that were read after the call and certainly have the requested state.
        self.rows: Mapping[int, Mapping[str, object]] = {}

    @property
    def _functions(self) -> ProviderFunctions:
        """The pure functions of the provider instance, which may be configured only in the run."""
        return self._snapshot.providers.functions(self._definition.instance)

    def read(self, runs: Sequence[OperationRun]) -> None:
        """Read the resources of operations again; imperative ones cannot be read."""
        if self._imperative:
            return
        with self._snapshot.providers.run.log.bind(phase="verify"):
            self._snapshot.read(self._definition, [run.name for run in runs], fresh=True)

    def read_again(self, run: OperationRun) -> None:
        """Read the resource of an operation right before its call is repeated: time has passed since its last read."""
        if not self._imperative:
            with self._snapshot.providers.run.log.bind(phase="observe"):
                self._snapshot.read_again(self._definition, [run.name])

    def compare(self, runs: Iterable[OperationRun]) -> None:
        """Set ``rows`` to those of operations whose requested state is certainly there; imperative ones have none."""
        instance, self.rows = self._definition.instance, {}
        if not (self._imperative or self._snapshot.failure(instance)):
            # One comparison of all is fast; the operations that are not equal are compared again one by one by
            # ``_missing``, which also returns the differences.
            pairs = list(_comparable(runs, self._snapshot.rows(instance)))
            equal = equal_indexes([(run.step.entry, row) for run, row in pairs], self._functions)
            verified = (pairs[index] for index in equal)
            self.rows = {run.number: _shared(row, run.should) for run, row in verified}

    def observed(self, run: OperationRun) -> Observation:
        """Return the last observation of the resource of an operation."""
        return self._snapshot.observation(self._definition.instance, run.name)

    def take_observation(self, run: OperationRun) -> None:
        """Set ``is_`` and ``result`` of an operation by the last read, to end and record it as the resource is now.

        Of an imperative resource only read-only values can be read, which its run has produced.
        """
        if self._imperative:
            if self._definition.read_only and run.result.reported not in {None, "failed"}:
                run.is_ = self._snapshot.values_of_run(self._definition, run.name).row
        else:
            before = run.is_
            run.is_, error = self.observed(run)
            error = with_path(error, run.step.entry.title, run.name) if error else ""
            run.result = run.result._replace(read_error=error, unaltered=not error and run.is_ == before)

    def missing(self, run: OperationRun) -> list[Difference]:
        """Return the remaining differences from the request; of a tolerant plan (legacy Terraform) only existence."""
        remaining = [] if run.number in self.rows else _missing(run, self.observed(run), self._functions)
        return [] if self._tolerates(run) else remaining

    def tolerated(self, run: OperationRun) -> list[Difference]:
        """Return the differences that remain and are no failure, because the plan of the provider is tolerant."""
        return _missing(run, self.observed(run), self._functions) if self._tolerates(run) else []

    def _tolerates(self, run: OperationRun) -> bool:
        """Return whether other differences than in existence are no failure: the provider's plan was tolerant."""
        row, failure = self.observed(run) if run.decision.tolerated is not None else (None, "")
        return not failure and exists(row) and exists(run.requested())

    def settle(self, runs: Sequence[OperationRun], begun: Collection[Name]) -> None:
        """Read again until the changes of operations are visible, at most for the type's ``settle`` seconds.

        A service may show a change late. Failed changes are not waited for, nor names that no ``set`` has reached:
        ``begun`` has the reached ones.
        """
        seconds = 0.0 if self._imperative else self._snapshot.providers.settle(self._definition)
        if seconds:
            waiting = [run for run in runs if run.name in begun and not (run.finished or run.result.failed)]
            unsettled = partial(self._unsettled, waiting)
            run = self._snapshot.providers.run
            with run.shown(SettlingProgress(self._definition, unsettled, run.log)):
                read_until_settled(self._snapshot, self._definition, unsettled, seconds)

    def _unsettled(self, runs: Sequence[OperationRun]) -> list[Name]:
        """Return the names whose resource is as before its change, or cannot be read yet."""
        return [run.name for run in runs if self._is_unsettled(run)]

    def _is_unsettled(self, run: OperationRun) -> bool:
        """Return whether the change of a resource may still appear: it is as before, or cannot be read."""
        row, failure = self.observed(run)
        if failure:
            return True
        former = None if run.decision.action in CREATING and not run.removal else run.is_
        if exists(row) != exists(former) or not self.missing(run):
            return False
        if former is None or row is None:
            return True
        return all(self._is_equal(name, row, former, run.should.get(name)) for name in self._definition.managed)

    def _is_equal(self, name: str, row: Mapping[str, object], former: Mapping[str, object], should: object) -> bool:
        """Return whether an attribute is as before: its change is not visible yet, or there was none.

        Of a merged attribute, whose further members stay, only the members in ``should`` count.
        """
        definition = self._definition
        value = compared_value(definition, name, row.get(name), should)
        return same_value(value, compared_value(definition, name, former.get(name), should))

    def time_of_change(self) -> str:
        """Return the present time (ISO 8601), for later runs to wait by; "" for a type with changes visible at once."""
        may_lag = not self._imperative and self._snapshot.providers.settle(self._definition)
        return datetime.now(UTC).isoformat(timespec="milliseconds") if may_lag else ""

    def is_unseen_creation(self, run: OperationRun) -> bool:
        """Return whether a creation without an error has no visible result.

        The system may show the resource later, and a second creation could make it twice. So the call is not repeated;
        the resource can be recorded as unconfirmed, for the next run to read it again.
        """
        creates = run.decision.action in CREATING and not run.removal and exists(run.should)
        if self._imperative or not creates or run.result.error:
            return False
        row, failure = self.observed(run)
        return not (failure or exists(row))

    def is_done(self, run: OperationRun) -> bool:
        """Return whether the requested state is there and can be read back."""
        return not (self._imperative or run.sets_write_only or self.missing(run))


def _shared(row: Resource, should: Mapping[str, object]) -> Mapping[str, Any]:
    """Return a row that shares its values with ``should`` where they are equal: memory holds long texts once."""
    if row == should and _DISTINCT.issuperset(map(type, should.values())):
        return should
    for name, text in should.items():
        if type(text) is str and len(text) > _SHORT_TEXT and row.get(name) == text:
            row[name] = text
    return row


def _comparable(
    runs: Iterable[OperationRun], rows: Mapping[Name, CheckedRow]
) -> Iterator[tuple[OperationRun, Resource]]:
    """Yield, for ``compare``, the operations that have succeeded if their row equals the declared values.

    A removal wants no row; with ignored attributes less is requested than declared; and predicted values have to be
    compared too. Such operations are compared one by one.
    """
    for run in runs:
        should, row = run.step.entry.should, rows.get(run.name)
        if row is None or isinstance(row, str) or not exists(row):  # a text: the reason why it was not read
            continue
        if not run.removal and run.requested() is should and exists(should) and not run.decision.predicted:
            yield run, row


def _missing(run: OperationRun, observation: Observation, functions: ProviderFunctions) -> list[Difference]:
    """Return the differences between a resource as read after its call and the request.

    A failed read is a difference with a message and without values. If the provider plans, its own plan decides which
    differences it would still change.
    """
    row, failure = observation
    requested = run.requested()
    if failure:
        return [Difference("ensure", None, None, failure)]
    if not exists(requested):
        return [Difference("ensure", ensure_of(row), "absent")] if exists(row) else []
    if row is None or not exists(row):
        return [Difference("ensure", "absent", ensure_of(requested))]
    try:
        differences = compare(run.step.entry, row, requested, functions)
        if differences and functions.plan is not None:
            planned = predict(run.step.entry, row, requested, functions)
            differences = planned_differences(run.step.entry, row, requested, differences, planned)
        return [*differences, *_unpredicted(run, row)]
    except ComparisonError as error:
        return [Difference("ensure", None, None, str(error))]


def _unpredicted(run: OperationRun, row: Mapping[str, object]) -> Iterator[Difference]:
    """Yield the differences from the values that the provider predicted, on which other steps may rely."""
    definition, predicted = run.step.definition, run.decision.predicted
    marked = mark_secrets(definition, predicted, run.should) if predicted else {}
    for name, value in predicted.items():
        if not (value is UNKNOWN or same_value(row.get(name), value)):
            yield conceal_difference(definition, Difference(name, row.get(name), marked[name]))


def not_converged(run: OperationRun, differences: Sequence[Difference]) -> str:
    """Return the error of a change whose result differs from the request, or cannot be read."""
    # ``_missing`` gives a failed read as a difference without values.
    unread = [
        difference.message
        for difference in differences
        if difference.message and difference.is_ is None and difference.should is None
    ]
    return unread[0] if unread else "; ".join(not_as_requested(run, differences))


def describe_tolerated(differences: Sequence[Difference]) -> str:
    """Return the text for differences of a result whose plan was tolerant."""
    return f"the result differs from the plan: {'; '.join(map(_unequal, differences))}"


def not_as_requested(run: OperationRun, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield a text for the values that differ from the request, then one for each that an update should have kept.

    The latter are ``stable`` attributes, such as an id: their type declares that only a new resource has another value.
    """
    stable = () if run.decision.action in CREATING else run.definition.stable
    unequal = [difference for difference in differences if difference.attribute not in stable]
    if unequal:
        yield NOT_CONVERGED + "; ".join(map(_unequal, unequal))
    for difference in differences:
        if difference.attribute in stable:
            was, is_ = show_attribute(difference.should), show_attribute(difference.is_)
            yield f"did not keep {difference.attribute}, which is stable: it was {was} and is {is_}"


def _unequal(difference: Difference) -> str:
    """Return a difference as text; only the provider's own comparison finds one between values that look the same."""
    is_, should = show_attribute(difference.is_), show_attribute(difference.should)
    hint = ", which insync does not call equal" if is_ == should and not is_secret(difference.should) else ""
    return f"{difference.attribute} is {is_}, should be {should}{hint}"
