"""The differences of a resource: between its two states, as its provider plans them, and since it was last recorded.

Exact on canonical values. A provider's own comparison is used if it has one; write-only values are compared with the
digest of the value that was last set. A provider's plan is checked against the rules of a plan (``AssertPlanValid`` in
OpenTofu). Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.catalog.canonicalize import check_values
from resource_api.model.change import Difference, compared_value, diff, ensure_of, exists
from resource_api.model.provider_functions import Planned
from resource_api.model.report import Drifted
from resource_api.model.sealed_secrets import conceal_like, digest_secret, holds_secret, mark_secrets, seal_secrets
from resource_api.model.values.errors import ResourceError, reason
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show, show_attribute
from resource_api.model.values.values import (
    UNKNOWN,
    Sensitive,
    are_flat,
    attribute_of,
    copy_resource,
    is_unknown,
    may_be,
    same_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Observation, ProviderFunctions, Question
    from resource_api.model.record import OrphanKind, Record
    from resource_api.model.step import Replacement, Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.prior.match import Prior

    #: Values by attribute.
    Resource = Mapping[str, Any]


class ComparisonError(Exception):
    """The provider's own comparison or plan failed, or returned something that is not allowed."""


class DecisionInputs(NamedTuple):
    """The inputs of a decision beside the two states of the resource."""

    record: Record | None = None
    #: The record of the resource that a replacement deletes, if it has other namevars.
    predecessor: Record | None = None
    salt: bytes = b""
    #: A reason to replace the resource even if nothing differs.
    replacement: Replacement | None = None
    orphan: OrphanKind | None = None
    #: Whether every recorded resource is deleted, declared or not.
    destroyed: bool = False
    #: Attribute → reference of a resource that its value comes from and that is deleted before it is created again.
    lost_sources: Mapping[str, str] = {}
    #: The attributes of ``lost_sources`` of which it is not certain that the source is deleted.
    conditional_sources: Collection[str] = ()
    #: Whether it is not certain that ``replacement`` holds.
    conditional: bool = False
    #: Whether its replacement in this run has removed it.
    removed: bool = False
    #: Whether an interrupted run may have created it under a name that cannot be read.
    in_doubt: bool = False
    #: The attributes whose values are not known yet and cannot become those that the resource has.
    excluded: Collection[str] = ()
    #: As in ``Options``.
    state_options: str = ""


def compare(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs | None = None
) -> list[Difference]:
    """Return every difference between ``is_`` and ``should``, ``ensure`` first.

    The provider's ``insync`` compares, if it has one. Write-only values, which cannot be read, are compared with the
    recorded ones in ``inputs``. After a ``set`` they cannot be verified: a caller without ``inputs`` gets no difference
    for them. Raises ``ComparisonError``.
    """
    if functions.insync is None:
        differences = diff(entry.definition, is_, should)
    else:
        differences = list(_compare_by_provider(entry, is_, should, functions))
    if inputs is not None and entry.definition.write_only:
        differences += _compare_write_only(entry, should, inputs)
    recorded = inputs.record.should if inputs is not None and inputs.record is not None else {}
    return [_hide_secret(difference, recorded.get(difference.attribute)) for difference in differences]


def _hide_secret(difference: Difference, recorded: object) -> Difference:
    """Make the present value as secret as the expected or recorded one, because ``get`` returns it plain."""
    if difference.is_ is None or not (holds_secret(difference.should) or holds_secret(recorded)):
        return difference
    return difference._replace(is_=conceal_like(conceal_like(difference.is_, difference.should), recorded))


def equal_indexes(pairs: Sequence[tuple[Entry, Resource]], functions: ProviderFunctions) -> Iterator[int]:
    """Yield the indexes of the ``pairs`` (entry, row) of one type that are certainly in sync.

    The caller decides all other pairs one by one with ``compare``. A provider's ``insync`` is called once for all
    pairs, for speed. An attribute for which ``insync`` returns None is compared by its values. A pair is left to
    ``compare`` if ``insync`` reports a difference or raises an exception.
    """
    attributes: Iterator[Sequence[str] | None]
    attributes = _compared_attributes([entry.should for entry, _ in pairs], functions.definition.compared)
    if functions.insync is not None:
        attributes = _attributes_without_verdict(pairs, list(attributes), functions.insync)
    for index, ((entry, row), names) in enumerate(zip(pairs, attributes, strict=True)):
        if names is not None and _are_equal(row, entry.should, names):
            yield index


def _are_equal(row: Resource, should: Resource, names: Sequence[str]) -> bool:
    """Return whether these attributes have the values that they should have; identical objects need no comparison."""
    for name in names:
        value, expected = row.get(name), should[name]
        if not (value is expected or same_value(value, expected)):
            return False
    return True


def _attributes_without_verdict(
    pairs: Sequence[tuple[Entry, Resource]],
    attributes: Sequence[Sequence[str] | None],
    insync: Callable[[Iterable[Question]], Iterable[list[Any] | Exception]],
) -> Iterator[Sequence[str] | None]:
    """Yield for each pair the attributes to compare by their values; None if the pair is not certainly in sync.

    The provider's ``insync`` has decided all other attributes. None stands for a difference or for a failure of
    ``insync``: the caller then uses ``compare``, which calls ``insync`` again and reports the difference or failure.
    """
    # A provider must not change its arguments: it gets read-only views or, of nested values, copies.
    flat = are_flat([row for _, row in pairs]) and are_flat([entry.should for entry, _ in pairs])
    protect = MappingProxyType if flat else copy_resource
    questions = (
        (entry.name, names or (), protect(row), protect(entry.should))
        for (entry, row), names in zip(pairs, attributes, strict=True)
    )
    for names, answers in zip(attributes, insync(questions), strict=True):
        yield None if isinstance(answers, Exception) else _undecided(names or (), answers)


def _undecided(names: Sequence[str], verdicts: Sequence[Any]) -> list[str] | None:
    """Return the attributes to compare by their values, because the provider's verdict on them is None.

    Return None if the verdict on any attribute is a difference: the resource is not in sync then, whatever the other
    attributes are, and ``compare`` determines all differences.
    """
    undecided = []
    for name, verdict in zip(names, verdicts, strict=True):
        if verdict is None:
            undecided.append(name)
        elif verdict is not True:
            return None
    return undecided


def _compared_attributes(resources: Sequence[Resource], compared: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the attributes to compare of each resource; resources with the same attributes share a list, for speed."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for declared in map(tuple, resources):
        names = shared.get(declared)
        if names is None:
            names = shared[declared] = [name for name in compared if name in declared]
        yield names


def _compare_by_provider(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions
) -> Iterator[Difference]:
    """Yield the differences by the provider's ``insync``, or by plain comparison where it returns None."""
    copies = copy_resource(is_), copy_resource(should)
    for attribute in entry.definition.compared:
        if attribute not in should:
            continue
        value, expected = is_.get(attribute), should[attribute]
        if is_unknown(expected):
            yield Difference(attribute, value, expected)
            continue
        verdict, message = _call_insync(entry, attribute, copies, functions)
        value = compared_value(entry.definition, attribute, value, expected)
        if verdict is None:
            verdict = value is expected or same_value(value, expected)
        if not verdict:
            yield Difference(attribute, value, expected, message)


def _compare_write_only(entry: Entry, should: Resource, inputs: DecisionInputs) -> Iterator[Difference]:
    """Yield the write-only attributes whose values differ from the digests recorded when they were last set."""
    recorded = inputs.record.should if inputs.record is not None else {}
    for attribute in sorted(entry.definition.write_only):
        # Of an ephemeral value no digest is recorded: like a parameter it is no reason for a change.
        if attribute not in should or attribute in entry.ephemeral:
            continue
        value = should[attribute]
        if is_unknown(value) or recorded.get(attribute) != digest_secret(value, inputs.salt):
            yield Difference(attribute, Sensitive(None), value)


def absence_differs(entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions) -> bool:
    """Return whether the provider's own comparison finds an absent resource not absent in the declared way.

    A provider may distinguish kinds of absence, such as removed and purged: a removed package may still have to be
    purged.
    """
    return (
        not exists(should)
        and functions.insync is not None
        and _call_insync(entry, "ensure", (copy_resource(is_), copy_resource(should)), functions)[0] is False
    )


def _call_insync(
    entry: Entry, attribute: str, states: tuple[Resource, Resource], functions: ProviderFunctions
) -> tuple[bool | None, str]:
    """Return whether a provider's ``insync`` finds an attribute of ``states`` (is, should) in sync, and its message.

    None where it leaves the comparison to the runtime. Raise ``ComparisonError`` for any other answer, or if it fails.
    """
    assert functions.insync is not None
    (answers,) = functions.insync([(entry.name, (attribute,), *states)])
    if isinstance(answers, Exception):
        text = reason(answers)
        msg = text if isinstance(answers, ResourceError) else f"insync of '{attribute}' failed: {text}"
        raise ComparisonError(msg) from answers
    (answer,) = answers
    if answer is None or answer is True or answer is False:
        return answer, ""
    if isinstance(answer, tuple) and len(answer) == 2 and answer[0] is False:  # noqa: PLR2004 - (False, message)
        return False, str(answer[1])
    msg = f"insync of '{attribute}' must return True, False, None or (False, message), not {show(answer)}"
    raise ComparisonError(msg)


def predict(entry: Entry, is_: Resource | None, should: Resource, functions: ProviderFunctions) -> Planned:
    """Return the plan of a resource by its provider's ``plan`` method; an empty one if it has none.

    Raises ``ComparisonError`` if the method fails or its result breaks a rule: a wrong plan is refused before anything
    changes. A ``tolerant`` plan, of a legacy Terraform provider, may break rules.
    """
    if functions.plan is None:
        return Planned()
    try:
        answer = functions.plan(entry.name, is_, should)
    except Exception as error:  # a method of a provider may raise anything
        raise ComparisonError(f"plan failed: {reason(error)}") from error
    if isinstance(answer, Planned) and not hasattr(answer.state, "items"):
        msg = f"plan must give state as a mapping of attributes to values, not {type(answer.state).__name__}"
        raise ComparisonError(msg)
    if not isinstance(answer, Planned):
        msg = f"plan must return Planned(state, unknown, replace, delete_first), not {type(answer).__name__}"
        raise ComparisonError(msg)
    for field, value in (("unknown", answer.unknown), ("replace", answer.replace), ("changes", answer.changes)):
        # One text would be a collection of letters.
        if isinstance(value, str) or not (
            isinstance(value, Collection) and all(isinstance(name, str) for name in value)
        ):
            raise ComparisonError(f"plan must give {field} as a list of attributes, not {type(value).__name__}")
    problems = list(_unknown_names(entry.definition, answer))
    if not (problems or answer.tolerant):
        problems = list(_broken_rules(entry.definition, answer, is_ or {}, should))
    if problems:
        raise ComparisonError(f"the plan of its provider '{entry.definition.instance}' is wrong: {'; '.join(problems)}")
    return answer


def tolerated_rules(entry: Entry, planned: Planned, is_: Resource | None, should: Resource) -> Sequence[str] | None:
    """Return the broken rules of a ``tolerant`` plan (legacy Terraform provider), to be logged; else None."""
    return tuple(_broken_rules(entry.definition, planned, is_ or {}, should)) if planned.tolerant else None


def planned_differences(
    entry: Entry, is_: Resource, should: Resource, differences: Sequence[Difference], planned: Planned
) -> list[Difference]:
    """Return the differences as the provider plans them, so that the plan shows the change that it will make.

    The difference of an attribute that the provider leaves as it is drops out. An undeclared attribute that the
    provider changes gets a difference. A declared value that the provider completes is shown with its planned members.
    """
    unchanged = kept_attributes(planned, is_, should)
    result = [_completed(difference, planned) for difference in differences if difference.attribute not in unchanged]
    undeclared = [name for name in planned.changes if name not in should]
    if undeclared:
        values = {name: UNKNOWN if name in planned.unknown else planned.state.get(name) for name in undeclared}
        marked = mark_secrets(entry.definition, values, should)
        # Excluded: the provider says that they change, also to a value that is not yet known.
        result += [_hide_secret(Difference(name, is_.get(name), marked[name], excluded=True), None) for name in values]
    return result


def _completed(difference: Difference, planned: Planned) -> Difference:
    """Return a difference whose expected value has the members that the provider adds to the declared one.

    The plan then shows the whole new value. A difference of a known declared value is certain and stays so: it is
    marked as ``excluded``, because unknown members of the new value would otherwise make it a possible one.
    """
    value = planned.state.get(difference.attribute)
    if not isinstance(value, dict | list) or same_value(value, difference.should):
        return difference
    concealed = conceal_like(value, difference.should)
    # A declared value that is known differs already: planned members cannot make it equal, even if they are unknown.
    return difference._replace(should=concealed, excluded=difference.excluded or not is_unknown(difference.should))


def predicted_values(planned: Planned, should: Resource) -> Resource:
    """Return the planned values of undeclared attributes, to which other resources may refer.

    A value is ``UNKNOWN`` if only the change yields it, and None if the change removes it.
    """
    if not (planned.state or planned.unknown or planned.changes):
        return {}
    values: dict[str, object] = dict.fromkeys(planned.changes)
    values |= {name: UNKNOWN if is_unknown(value) else value for name, value in planned.state.items()}
    values |= dict.fromkeys(planned.unknown, UNKNOWN)
    return {name: value for name, value in values.items() if name not in should}


def kept_attributes(planned: Planned, is_: Resource, should: Resource) -> frozenset[str]:
    """Return the declared attributes that the provider plans to leave as they are: both values mean the same to it.

    Their difference is no reason for a change, such as that of ``"a"`` and ``"A"`` in a service that ignores case.
    """
    return frozenset(
        name
        for name, value in planned.state.items()
        if name in should and name in is_ and same_value(value, is_[name]) and not same_value(value, should[name])
    )


def stable_values(definition: TypeDefinition, is_: Resource) -> Resource:
    """Return the values that an update of a resource must not change; one that is null may still be set."""
    return {name: is_[name] for name in definition.stable if is_.get(name) is not None}


def _unknown_names(definition: TypeDefinition, planned: Planned) -> Iterator[str]:
    """Yield an error for each attribute of a provider's plan that the type does not have, such as a misspelt one."""
    replacing = map(attribute_of, planned.replace)
    for name in dict.fromkeys((*planned.state, *planned.unknown, *planned.changes, *replacing)):
        if name not in definition.attributes:
            yield f"there is no attribute '{name}'"


def _broken_rules(definition: TypeDefinition, planned: Planned, is_: Resource, should: Resource) -> Iterator[str]:
    """Yield an error for each planned value that breaks a rule, for example a value that differs from the declared one.

    A declared value must be planned as known. A stable value, which only a replacement changes, must be planned as it
    is. The remaining rules are those of ``_broken_value_rules``.
    """
    for name in planned.unknown:
        if not is_unknown(should.get(name, UNKNOWN)):
            yield f"'{name}' is planned as not yet known, but declared"
    for name, value in {} if planned.replace else stable_values(definition, is_).items():
        if name in planned.unknown:
            yield f"'{name}' is planned as not yet known, but stable"
        elif not same_value(planned.state.get(name, value), value):
            planned_text, is_text = _contradiction_texts(definition, name, planned.state[name], value)
            yield f"'{name}' is planned as {planned_text}, but it is {is_text} and stable"
    for name, value in planned.state.items():
        if name not in planned.unknown:
            yield from _broken_value_rules(definition, name, value, is_, should)


def _broken_value_rules(
    definition: TypeDefinition, name: str, value: object, is_: Resource, should: Resource
) -> Iterator[str]:
    """Yield an error if the planned ``value`` of attribute ``name`` breaks a rule: the run refuses such a plan.

    A declared attribute becomes as declared or stays as it is. An undeclared attribute that the provider does not
    compute stays as it is. A computed attribute is unknown, stays as it is, or has a value of its data type.
    """
    if name in should:
        unchanged = name in is_ and same_value(value, is_[name])
        if not (unchanged or may_be(value, should[name], partial=True)):
            planned_text, value_text = _contradiction_texts(definition, name, value, should[name])
            yield f"'{name}' is planned as {planned_text}, but declared as {value_text}"
    elif name == "ensure" or name not in {*definition.compared, *definition.read_only}:
        if not same_value(value, is_.get(name)):
            planned_text, value_text = _contradiction_texts(definition, name, value, is_.get(name))
            yield f"'{name}' is planned as {planned_text}, but it is {value_text} and not declared"
    elif not (is_unknown(value) or same_value(value, is_.get(name))) and check_values(definition, {name: value}):
        planned_text, _ = _contradiction_texts(definition, name, value, None)
        yield f"'{name}' is planned as {planned_text}, which its data type {definition.attributes[name].type} refuses"


def _contradiction_texts(definition: TypeDefinition, name: str, planned: object, value: object) -> tuple[str, str]:
    """Return, for an error, the texts of a planned value and of the value that contradicts it; no text of a secret."""
    if name in definition.secret:
        return "<sensitive>", "another value"
    return show_attribute(planned), show_attribute(value)


def find_drift(prior: Prior, observation: Callable[[Entry], Observation], entries: Iterable[Entry]) -> list[Drifted]:
    """Return the drift of recorded ``entries``, which a plan shows: the differences of their rows from their records.

    Imperative resources cannot be read back, and the records of renamed ones have other names: for both no drift is
    reported.
    """
    drift, moved = [], set(prior.moved_keys.values())
    for entry in entries if prior.records else ():
        record = prior.records.get(entry.index)
        if record is None or "imperative" in entry.definition.features or entry.index in moved:
            continue
        row, failure = observation(entry)
        if row is record.is_ or failure:
            continue
        if changes := drifted_attributes(entry.definition, record, row, prior.state.salt):
            drift.append(Drifted(str(entry.reference), changes))
    return drift


def drifted_attributes(
    definition: TypeDefinition, record: Record, row: Resource | None, salt: bytes
) -> list[Difference]:
    """Return the differences of a row from its record: the changes that were made outside of the runs.

    If only one of them exists, the difference is in ``ensure``; otherwise it is in each recorded attribute. A record
    has only digests of secrets, so the values read are compared and shown as digests with the state's ``salt``.
    """
    if record.status == "unconfirmed":
        return []  # it was never read: there is nothing that it can have drifted from
    if exists(record.is_) != exists(row):
        return [Difference("ensure", ensure_of(record.is_), ensure_of(row))]
    if record.is_ is None or row is None or record.is_.items() <= row.items():
        return []
    changes = []
    for attribute in definition.managed:
        recorded = attribute in record.should or attribute in record.is_
        if not recorded or attribute in definition.write_only:
            continue
        declared = record.should.get(attribute)
        before, after = (
            compared_value(definition, attribute, state.get(attribute), declared) for state in (record.is_, row)
        )
        if before is not after and not same_value(before, after) and before != _as_recorded(before, after, salt):
            value = _as_recorded(before, after, salt) if holds_secret(before) else after
            changes.append(Difference(attribute, before, value))
    return changes


def is_corrective(step: Step, record: Record, salt: bytes) -> bool:
    """Return whether a step corrects drift, which plans and reports mark; otherwise it follows a new declaration.

    If the declaration is the recorded one, only the system can have changed.
    """
    definition = step.definition
    if not _is_declared_as_before(step, record, definition.managed, salt):
        return False
    if drifted_attributes(definition, record, step.is_, salt):
        return True
    differences = step.decision.differences
    if record.status != "ready" or not differences:
        return False
    # A refresh after the last apply may have recorded the drift already: then the record differs from its ``should``.
    if drifted_attributes(definition, record._replace(is_=record.should), record.is_, salt):
        return True
    # Its provider may report drift that no value shows, such as in the running kernel; after a change of a parameter,
    # that may be the reason instead.
    explained = any(change.only_explained for change in differences)
    return explained and _is_declared_as_before(step, record, definition.parameters, salt)


def _is_declared_as_before(step: Step, record: Record, attributes: Iterable[str], salt: bytes) -> bool:
    """Return whether these attributes are declared as recorded: then only the system can have changed.

    Values of ephemeral inputs, which are never recorded, do not count.
    """
    for attribute in attributes:
        if attribute in step.entry.ephemeral:
            continue
        declared, recorded = step.should.get(attribute), record.should.get(attribute)
        if attribute in step.definition.write_only and declared is not None:
            declared = digest_secret(declared, salt)
        if not same_value(declared, recorded) and seal_secrets(declared, salt) != recorded:
            return False
    return True


def _as_recorded(before: object, value: object, salt: bytes) -> Any:
    """Return a value in the form of the recorded value ``before``, to compare both: plain, or a secret's digest."""
    return seal_secrets(conceal_like(value, before), salt)
