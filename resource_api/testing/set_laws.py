"""The laws of ``set`` and of imperative types.

A run makes the requested changes and no others, and none under noop; no name is one that shells or paths misread.
"""
# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from resource_api.model.action import Action
from resource_api.model.change import Change
from resource_api.model.values.errors import ManifestError, ResourceError
from resource_api.model.values.text import show
from resource_api.model.values.values import reveal, same_value
from resource_api.plugins.registry import Registry
from resource_api.runtime.runtime import Runtime
from resource_api.testing.examples import minimal_resource, values
from resource_api.testing.get_laws import FoundationLaws
from resource_api.testing.harness import PROGRAMMING_ERRORS, Harness, differences, failures, without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, Resource, TypeDefinition

#: Forms of the last component of a name; ``{0}`` is the example's. None of them names an existing resource: a provider
#: that breaks the law must not harm the machine that tests it.
FORMS: Final = (
    "-{0}",
    "--{0}=x",
    " {0} ",
    "{0}\tb",
    "{0}\nra-test-b",
    "{0}\x1b[31m",
    "{0}${{HOME}}",
    "{0}'\"",
    "{0}\\",
    "\u202e{0}",
    "{0}" * 20,
    "ra-test-none/../{0}",
)
#: Characters that are tried one by one if a name with all of them is refused.
CHARACTERS: Final = (
    " b",
    ";>ra-test-made",
    "$(>ra-test-made)",
    "`>ra-test-made`",
    "|tee ra-test-made",
    "#b",
    ":b,c=d",
    "%s%n",
    "[b]",
    "*",
    "é",
)


class NameLaws(FoundationLaws):
    """Names that another program would misread."""

    def test_a_hostile_name_is_refused_or_is_the_name(
        self, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Names with quotes, spaces, options or commands are refused, or are the names of the created resources.

        No other resource changes, no command in a name is executed, and a deletion removes every created resource.
        """
        harness.require("ensurable", "readable")
        monkeypatch.chdir(tmp_path)
        accepted = dict(_resources_with_hostile_names(harness))
        ours = {*accepted, *harness.names(*harness.examples.all)}
        foreign = [row for row in harness.observe() if row[0] not in ours]
        failed = failures(harness.apply(*accepted.values())) if accepted else {}
        references = {name: str(harness.entries(resource)[0].reference) for name, resource in accepted.items()}
        created = {name: resource for name, resource in accepted.items() if references[name] not in failed}
        rows = harness.existing(list(accepted)) if accepted else {}
        half = [name for name in rows if name not in created]
        assert not half, f"{show(half[0])} exists, though its creation has failed"
        if created:
            harness.assert_converged(*created.values())
            _assert_foreign_unchanged(harness, ours, foreign)
            harness.converge(*(harness.absent(resource) for resource in created.values()))
            remaining = harness.existing(list(created))
            assert not remaining, f"{show(next(iter(remaining)))} is left behind when it is deleted"
        _assert_foreign_unchanged(harness, ours, foreign)
        assert not list(tmp_path.rglob("ra-test-made")), "a command in the name of a resource is executed"


def _resources_with_hostile_names(harness: Harness) -> Iterator[tuple[Name, Resource]]:
    """Yield resources with hostile names that a manifest may declare, each with its canonical name.

    Each has a hostile text in the last component of one namevar, and besides only mandatory attributes, so that nothing
    else can be refused. Names of the examples are left out.
    """
    least = minimal_resource(harness.definition, harness.examples.present)
    for namevar in harness.definition.namevars:
        if not isinstance(name := least.get(namevar), str):
            continue
        directory, slash, last = name.rpartition("/")
        prefix = f"{directory}{slash}"
        whole = _declarable(harness, {**least, namevar: f"{prefix}{last}{''.join(CHARACTERS)}"})
        # If the name with all characters is refused, each is tried alone.
        single = [] if whole else [f"{last}{character}" for character in CHARACTERS]
        yield from whole
        for hostile in [*(form.format(last) for form in FORMS), *single]:
            yield from _declarable(harness, {**least, namevar: f"{prefix}{hostile}"})


def _declarable(harness: Harness, resource: Resource) -> list[tuple[Name, Resource]]:
    """Return a resource with its canonical name in a list; an empty list if no manifest may declare the resource.

    The list is also empty if it has the name of an example: other laws test that.
    """
    try:
        [entry] = harness.runtime.compile(harness.manifest(resource)).entries
    except ManifestError:
        return []
    return [] if entry.name in harness.names(*harness.examples.all) else [(entry.name, resource)]


def _assert_foreign_unchanged(harness: Harness, ours: set[Name], foreign: list[tuple[object, Resource]]) -> None:
    """Fail unless the resources other than ``ours`` are as ``Harness.observe`` returned them before."""
    rows = [row for row in harness.observe() if row[0] not in ours]
    assert rows == foreign, f"a resource with a hostile name has changed others: {foreign} have become {rows}"


REASON = "refused by the test of a law"


class _RefusedValues(Mapping[str, Any]):
    """The values of one resource; reading an attribute that is not in ``readable`` raises ``ResourceError``.

    So the provider fails for this resource where it would fail if the system refused it.
    """

    def __init__(self, should: Mapping[str, object], readable: Collection[str]) -> None:
        """Refuse the attributes of ``should`` that are not in ``readable``."""
        self._should = should
        self._readable = readable

    def __getitem__(self, attribute: str) -> object:
        if attribute in self._readable:
            return self._should[attribute]
        raise ResourceError(REASON)

    def __iter__(self) -> Iterator[str]:
        raise ResourceError(REASON)

    def __len__(self) -> int:
        return len(self._should)


class _ChangesWithRefusal(Mapping[Any, Change]):
    """The changes of a call, of which one is refused; a view, as the runtime withdraws changes during the call."""

    def __init__(self, changes: Mapping[object, Change], name: Name, readable: Collection[str]) -> None:
        """Show ``changes`` as they are, except for the resource ``name``, which the simulated system refuses.

        Reading one of its attributes raises an error, except for the attributes in ``readable``: a provider may read
        these, such as its name, before it changes anything.
        """
        self._changes = changes
        self._name = name
        self._readable = readable

    def __getitem__(self, name: Name) -> Change:
        is_, should = self._changes[name]
        return Change(is_, _RefusedValues(should, self._readable) if name == self._name else should)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)


def _runtime_with_refusal(harness: Harness, name: Name, readable: Collection[str]) -> Runtime:
    """Return a runtime in which the change of ``name`` fails, for the law that it does not fail the others of its call.

    A refusal by the system is simulated: the provider gets an error when it reads an attribute of that resource, except
    for the attributes in ``readable``.
    """
    provider: Any = harness.provider_class

    class Refusing(provider):  # type: ignore[misc] # the author's class, known only now
        """The author's provider on a system that refuses one resource."""

        def set(self, context: object, changes: Mapping[Name, Change], **extra: object) -> None:
            super().set(context, _ChangesWithRefusal(changes, name, readable), **extra)

    return _runtime_with(harness, harness.definition, Refusing)


class Lag:
    """The delay after which ``get`` shows a change; ``created``: the names that ``set`` was to create."""

    def __init__(self) -> None:
        """Begin without a change: ``get`` shows the present rows."""
        self.created: list[Name] = []
        #: The time at which ``get`` begins to show the last change, in seconds of ``time.monotonic``.
        self.visible_at = 0.0
        #: The rows by name as they were before the last change, or None for absent ones.
        self.before: dict[Name, Resource | None] = {}


def _runtime_with_lag(harness: Harness, lag: Lag, settle: float) -> Runtime:
    """Return a runtime in which ``get`` shows a change late; ``settle``: the seconds that the type allows for it.

    It simulates a service with such a delay, which the author's system need not have. ``lag`` has the delay's end and
    the names that were created.
    """
    provider: Any = harness.provider_class
    definition = copy(harness.definition)
    definition.settle = settle

    class Lagging(provider):  # type: ignore[misc] # the author's class, known only now
        """The author's provider for a service that shows changes late, for the laws of the option ``settle``."""

        def get(self, context: object, names: Collection[Name] | None = None) -> list[Resource]:
            """Return the rows from before the last change until its lag is over, and the present rows afterwards.

            The present rows are stored, to be shown during the lag of the next change.
            """
            arguments = [names] if "simple_get_filter" in definition.features else []
            rows = {definition.name_of(row): dict(row) for row in super().get(context, *arguments)}
            if time.monotonic() >= lag.visible_at:
                lag.before |= {**dict.fromkeys(names or ()), **rows}
                return list(rows.values())
            former = {name: lag.before.get(name, row) for name, row in rows.items()}
            former |= {name: row for name, row in lag.before.items() if name not in rows}
            return [row for row in former.values() if row is not None]

        def set(self, context: object, changes: Mapping[Name, Change], **extra: object) -> None:
            """Make the changes at once, and let ``get`` show them only after a lag, as a service with caches does.

            Creations are counted for the law that no run creates a resource twice because it still seems absent.
            """
            lag.created += [name for name, change in changes.items() if change.is_ is None]
            lag.visible_at = math.inf  # until the end of the call is known
            super().set(context, changes, **extra)
            lag.visible_at = time.monotonic() + LAG

    return _runtime_with(harness, definition, Lagging)


def _runtime_with(harness: Harness, definition: TypeDefinition, provider: type) -> Runtime:
    """Return a runtime with one type and the provider class that a law has derived from the author's.

    The registry of the test, which other laws use, keeps the author's class.
    """
    registry, name = Registry(), definition.name
    registry.register_type(definition)
    registry.register_provider(name, provider, harness.implementation or harness.registry.implementations(name)[0])
    return harness.new_runtime(registry)


#: The number of calls made at once, and of rounds, to detect a call that loses the change of another.
SIDE_BY_SIDE: Final = 8
ROUNDS: Final = 3
#: Seconds after which no further round begins.
ENOUGH: Final = 1.0
#: Seconds after which a lagging world shows a change, and for which a type waits.
LAG: Final = 0.5
SETTLE: Final = 10


class SetLaws(FoundationLaws):
    """Creations, updates and deletions, alone and together, in a run and under noop."""

    def test_create_from_the_minimum_succeeds_or_fails_with_a_message(self, harness: Harness) -> None:
        """With only mandatory attributes ``set`` succeeds, or fails with an error for the user.

        A ``KeyError`` for an attribute that is not declared is a mistake of the provider.
        """
        harness.require("ensurable", "readable")
        least = minimal_resource(harness.definition, harness.examples.present)
        try:
            harness.runtime.validate(harness.manifest(least))
        except ManifestError as error:
            texts = [problem.message for problem in error.problems]
            raised = [text for text in texts if text.startswith(("canonicalize failed", "validate failed"))]
            assert not raised, f"the provider cannot check {least}: {raised}"
            return
        if harness.definition.identity is not None:  # only the record of a run leads to what was created
            if not failures(harness.apply(least)):
                harness.assert_converged(least)
            return
        harness.track(least)
        [entry] = harness.entries(least)
        context = harness.call("set", {entry.name: Change(None, entry.should)})
        bugs = ", ".join(repr(error) for error in context.raised if isinstance(error, PROGRAMMING_ERRORS))
        assert not bugs, f"a user would read {bugs}: 'should' contains only what is declared, {least}"
        if context.failure:
            return
        if harness.definition.write_only & least.keys():
            harness.apply(least)  # only the record of a run has what get never returns
        harness.assert_converged(least)

    def test_preflight_reports_nothing_about_what_succeeds(self, harness: Harness) -> None:
        """``preflight`` changes nothing, and reports nothing about the examples: they can be created."""
        harness.require("preflight")
        examples = harness.examples.all
        with harness.assert_unchanged("preflight"):
            warnings = harness.preflight(*examples)
        assert not warnings, f"a plan would warn of what succeeds: {warnings}"

    def test_side_effects_are_reported_without_a_change(self, harness: Harness) -> None:
        """``side_effects`` changes nothing, because a plan calls it, and reports nothing that forbids the examples."""
        harness.require("side_effects")
        with harness.assert_unchanged("side_effects"):
            steps = harness.plan(*harness.examples.all).steps
        failed = [step.error for step in steps if step.error]
        assert not failed, f"what succeeds would be refused: {failed}"
        assert all(step.side_effects is not None for step in steps), f"it has failed:{harness.log_text}"

    def test_update_changes_only_what_differs(self, harness: Harness) -> None:
        """An update sets the new values, leaves all others unchanged, and the next plan is empty."""
        harness.require("readable", "updated")
        examples = harness.examples
        assert examples.updated is not None
        harness.converge(examples.present)
        [entry], [new] = harness.entries(examples.present), harness.entries(examples.updated)
        requested = differences(entry.should, new.should)
        before = harness.row(examples.present)
        report = harness.converge(examples.updated)
        assert report.summary.updated == 1, f"{requested} differ, and there was no update: {report.summary}"
        after = harness.row(examples.present)
        volatile = harness.definition.names_of_kind("read_only")
        unexpected = [name for name in differences(before, after) if name not in requested and name not in volatile]
        assert not unexpected, f"updating {requested} has changed {unexpected} too, which the user did not request"

    def test_a_change_that_is_seen_late_is_no_failure(self, harness: Harness) -> None:
        """With ``settle``, a creation and a deletion that ``get`` shows late succeed, and nothing is created twice."""
        harness.require("ensurable", "readable", "settle", "provider class")
        lag, present = Lag(), harness.examples.present
        runtime = _runtime_with_lag(harness, lag, SETTLE)
        for stage in (present, present, harness.absent(present)):  # the second run must find the resource
            failed = failures(harness.apply(stage, runtime=runtime))
            assert not failed, f"what is seen after {LAG} s would fail: {failed}{harness.log_text}"
        assert len(lag.created) == 1, f"it would be created twice: {lag.created}"

    def test_a_creation_that_is_not_seen_in_time_stays_ours(self, harness: Harness) -> None:
        """With ``settle``, a creation that ``get`` shows too late fails, and the next run finds the resource as ours.

        A resource that is not ours would be left behind by ``destroy``.
        """
        harness.require("ensurable", "readable", "settle", "provider class")
        if "settle" in harness.examples.config:
            pytest.skip("the configuration of the example sets the time to wait")
        lag, present = Lag(), harness.examples.present
        runtime = _runtime_with_lag(harness, lag, settle=0)
        [step] = harness.apply(present, runtime=runtime).steps
        assert step.unconfirmed, f"a creation that cannot be seen yet would be disowned: {step}{harness.log_text}"
        time.sleep(LAG)
        failed = failures(harness.apply(present, runtime=runtime))
        assert not failed, f"the next run would fail: {failed}{harness.log_text}"
        assert len(lag.created) == 1, f"it would be created twice: {lag.created}"
        records = runtime.store.load(runtime.name(runtime.compile(harness.manifest(present)))).records
        [record] = [record for record in records.values() if record.type == harness.definition.name]
        assert (record.owned, record.status) == (True, "ready"), f"destroy would leave it behind: {record.status}"

    def test_an_update_keeps_what_is_not_declared(self, harness: Harness) -> None:
        """An update leaves attributes alone that the manifest does not mention; a user would lose their values.

        The manifest has the changes of 'updated' and no optional attribute of 'present' beside them. If it is not valid
        without them, or mentions all attributes, each change is tried alone.
        """
        harness.require("readable", "updated")
        examples = harness.examples
        assert examples.updated is not None
        [entry], [new] = harness.entries(examples.present), harness.entries(examples.updated)
        changed = differences(entry.should, new.should)
        tried = [(changed, _reset_by_update(harness, changed))]
        if tried[0][1] is None:
            # The attributes are tried alone: one may follow from another, but not every one from each of the others.
            tried = [([name], _reset_by_update(harness, [name])) for name in changed]
            tried = [(names, reset) for names, reset in tried if reset is not None]
            tried = tried if len(tried) > 1 else []
        if not tried:
            pytest.skip("'present' declares nothing that an update could leave out")
        names, reset = tried[0]
        assert not all(reset for _, reset in tried), (
            f"a user who declares only {names} would lose {reset}: the update resets what is not declared;"
            " change only what 'should' contains"
        )

    def test_an_update_keeps_the_members_that_are_not_declared(self, harness: Harness) -> None:
        """An update of a ``merged`` attribute, a mapping, leaves the members alone that the manifest does not mention.

        The manifest has only the members that 'updated' changes.
        """
        harness.require("readable", "updated")
        present = harness.examples.present
        changes = _member_changes(harness)
        if not changes:
            pytest.skip("no 'merged' attribute has a member that 'updated' changes, and one that it keeps")
        harness.converge(present)
        before = harness.row(present)
        harness.converge({**present, **changes})
        after = harness.row(present)
        for name, members in changes.items():
            lost = [key for key in differences(before[name], after.get(name) or {}) if key not in members]
            assert not lost, (
                f"a user who declares only {sorted(members)} of '{name}' would lose {lost}: 'should' contains the"
                " declared members; change these, and keep the others"
            )

    def test_insync_sees_a_difference(self, harness: Harness) -> None:
        """``insync`` does not regard all values of an attribute as equal; otherwise no run would ever change it."""
        harness.require("readable", "custom_insync")
        present = harness.examples.present
        harness.converge(present)
        [entry] = harness.entries(present)
        row = harness.row(present)
        for attribute in harness.definition.names_of_kind(None):
            if attribute == "ensure" or attribute not in entry.should or attribute not in row:
                continue
            answers = insync_answers(harness, entry, attribute, row)
            assert not answers or any(answer is not True for answer in answers), (
                f"no change of '{attribute}' would ever be made: insync answers True for each of {len(answers)} values"
            )

    def test_insync_needs_only_the_attribute(self, harness: Harness) -> None:
        """``insync`` compares an attribute that is declared alone, and one that the resource does not have yet.

        So it must not read other attributes of ``is_`` and ``should`` without need.
        """
        harness.require("readable", "custom_insync")
        present, definition = harness.examples.present, harness.definition
        harness.converge(present)
        [entry] = harness.entries(present)
        row = harness.row(present)
        optional = entry.should.keys() - minimal_resource(definition, present).keys() - dict(definition.defaults).keys()
        compared = [name for name in definition.compared if name in entry.should]
        for attribute in compared:
            alone = without(entry.should, optional - {attribute})
            if _is_valid(harness, without(present, optional - {attribute})):
                _assert_compares(harness, entry, attribute, row, alone)
        if definition.ensurable and optional and _is_valid(harness, without(present, optional)):
            harness.converge(harness.absent(present))
            if not failures(harness.apply(without(present, optional))):
                row = harness.row(present)
                for attribute in compared:
                    _assert_compares(harness, entry, attribute, row, entry.should)

    def test_a_change_leaves_other_resources_alone(self, harness: Harness) -> None:
        """An update or a deletion of one resource changes no other resource."""
        harness.require("readable", "others")
        examples = harness.examples
        harness.converge(*examples.all)
        names = harness.names(*examples.others)
        before = [row for row in harness.observe() if row[0] in names]
        changes = [examples.updated, harness.absent(examples.present) if harness.definition.ensurable else None]
        for change in filter(None, changes):
            harness.converge(change)
            after = [row for row in harness.observe() if row[0] in names]
            assert after == before, f"a change of {examples.present} has changed other resources"

    def test_noop_changes_nothing(self, harness: Harness) -> None:
        """Under noop a creation, an update and a deletion are reported, and nothing is changed."""
        harness.require("readable")
        present, updated = harness.examples.present, harness.examples.updated
        absent = harness.absent(present) if harness.definition.ensurable else None
        for before, change in ((absent, present), (present, updated), (present, absent)):
            if before is None or change is None:
                continue
            harness.converge(before)
            with harness.assert_unchanged("noop"):
                report = harness.apply(change, noop=True)
            assert not failures(report), f"noop would stop at {failures(report)}{harness.log_text}"

    def test_delete_leaves_nothing(self, harness: Harness) -> None:
        """A deleted resource does not exist, and the next plan is empty."""
        harness.require("ensurable")
        harness.converge(harness.examples.present)
        _delete(harness, harness.absent(harness.examples.present))

    def test_delete_needs_only_the_name(self, harness: Harness) -> None:
        """A deletion works with only the name declared: a run that prunes declares no other property."""
        harness.require("ensurable")
        harness.converge(harness.examples.present)
        _delete(harness, harness.absent(harness.examples.present, bare=True))

    def test_an_empty_set_changes_nothing(self, harness: Harness) -> None:
        """``set`` without changes does nothing and raises nothing: all changes of a call may have been withdrawn."""
        harness.require("readable")
        with harness.assert_unchanged("an empty set"):
            raised = harness.call("set", {}).raised
        assert not raised, f"set fails when there is nothing to do: {raised}"

    def test_a_change_without_a_difference_succeeds(self, harness: Harness) -> None:
        """``set`` accepts a resource that is as declared already: one that an interrupted run has left may be so."""
        harness.require("readable")
        if "plan" in harness.definition.features:
            pytest.skip("its 'set' carries out a plan of the same run")
        present = harness.examples.present
        harness.converge(present)
        [step] = harness.plan(present).steps
        failure = harness.call("set", {step.entry.name: Change(step.is_, step.entry.should)}).failure
        assert not failure, f"no run could complete what an interrupted one left partial: {failure}"
        harness.assert_converged(present)

    def test_one_call_handles_one_and_many(self, harness: Harness) -> None:
        """One call creates, and deletes, one resource as well as several."""
        harness.require("ensurable", "others")
        for resources in ([harness.examples.present], harness.examples.all):
            created = harness.converge(*resources).summary.created
            assert created == len(resources), f"{created} of {len(resources)} resources were created in one call"
            deleted = harness.converge(*map(harness.absent, resources)).summary.deleted
            assert deleted == len(resources), f"{deleted} of {len(resources)} resources were deleted in one call"

    def test_one_call_needs_no_second_attempt(self, harness: Harness) -> None:
        """``set`` itself handles several changes; the runtime does not have to call it again for each."""
        harness.require("ensurable", "others")
        resources = harness.examples.all
        harness.track(*resources)
        changes = {entry.name: Change(None, entry.should) for entry in harness.entries(*resources)}
        failure = harness.call("set", changes).failure
        assert not failure, (
            f"every run would call set once for each of {len(resources)} resources instead of once for all:"
            f" it fails when there are several: {failure}"
        )

    def test_calls_side_by_side_lose_nothing(self, harness: Harness) -> None:
        """With ``--parallel`` each call makes its change: a file that calls change without a lock would lose some."""
        harness.require("ensurable", "others", "parallel")
        resources = harness.many(SIDE_BY_SIDE)
        until = time.monotonic() + ENOUGH
        for number in range(ROUNDS):
            if number and time.monotonic() > until:
                break
            for stage in (resources, [*map(harness.absent, resources)]):
                with _threads_switching_often():
                    failed = failures(harness.apply(*stage, parallel=len(resources)))
                # Another call may undo a change after it was verified.
                steps = harness.plan(*stage).steps
                lost = failed or ", ".join(str(step.reference) for step in steps if step.action is not Action.SAME)
                assert not lost, (
                    f"with --parallel a change would be lost: {lost}; what set reads, changes and writes"
                    " needs a lock, or the type must not promise 'parallel'"
                )

    def test_refresh_succeeds(self, harness: Harness) -> None:
        """A refresh of an existing resource succeeds, and leaves it as it was declared."""
        harness.require("refreshable", "readable")
        present = harness.examples.present
        harness.converge(present)
        failure = harness.call("refresh", harness.names(present)).failure
        assert not failure, f"a resource that is notified would fail after its change was made: {failure}"
        harness.assert_converged(present)

    def test_a_worker_does_the_same(self, harness: Harness) -> None:
        """A type with ``isolation`` converges in its worker as it does in the process of the test."""
        harness.require("isolation", "readable")
        runtime = Runtime(harness.registry, log=harness.log)
        failed = failures(harness.apply(harness.examples.present, runtime=runtime))
        assert not failed, f"in a worker the apply fails: {failed}{harness.log_text}"
        harness.assert_converged(harness.examples.present, runtime=runtime)

    def test_one_failure_does_not_lose_the_others(self, harness: Harness) -> None:
        """When the system refuses one resource of a call, which is simulated, the others still become as declared."""
        harness.require("ensurable", "others", "provider class")
        first, second, *rest = harness.examples.all
        resources = [second, first, *rest]
        [name] = harness.names(first)
        # A provider that reads only the names of its resources is refused at the first attribute.
        for readable in (("ensure", *harness.definition.namevars), ()):
            runtime = _runtime_with_refusal(harness, name, readable)
            failed = failures(harness.apply(*resources, runtime=runtime))
            refused = failed.pop(str(harness.entries(first)[0].reference), None)
            assert not failed, f"{show(name)} alone was refused, and these failed with it: {failed}{harness.log_text}"
            harness.assert_converged(second, *rest, runtime=runtime)
            harness.restore()
            if refused:
                break


@contextmanager
def _threads_switching_often() -> Iterator[None]:
    """Let threads take turns very often in the ``with`` block, so that a law loses an unguarded change at once.

    At the usual interval such a mistake would show only in one of many runs.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _member_changes(harness: Harness) -> dict[str, Resource]:
    """Return ``merged`` attribute → the members that 'updated' changes, to declare these alone.

    The law needs another member of 'present' in the same attribute, which the update must keep: an attribute without
    one is left out.
    """
    present, updated = harness.examples.present, harness.examples.updated
    assert updated is not None
    changes: dict[str, Resource] = {}
    for name in harness.definition.merged:
        old, new = present.get(name), updated.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            members = {key: new[key] for key in differences(old, new) if key in new}
            if members and old.keys() - members:
                changes[name] = members
    return changes


def _reset_by_update(harness: Harness, changed: Collection[str]) -> list[str] | None:
    """Update only the ``changed`` attributes; return the undeclared attributes that are different afterwards.

    An attribute whose change the plan shows does not count. Return None if the law cannot be tested with ``changed``:
    no manifest with these alone is valid, or it declares every attribute of 'present'.
    """
    examples, definition = harness.examples, harness.definition
    assert examples.updated is not None
    needed = {*definition.namevars, *definition.mandatory, "ensure"}
    # A default other than the value of an ``init_only`` attribute would be another resource.
    updated = {*definition.parameters, *definition.names_of_kind("init_only"), *changed}
    partial = {name: value for name, value in examples.present.items() if name in needed}
    partial |= {name: value for name, value in examples.updated.items() if name in updated}
    if not _is_valid(harness, partial):
        return None
    [entry], [declared] = harness.entries(examples.present), harness.entries(partial)
    if declared.should.keys() >= entry.should.keys():
        return None
    harness.converge(examples.present)
    before = harness.row(examples.present)
    planned = {change.attribute for step in harness.plan(partial).steps for change in step.changes}
    harness.converge(partial)
    after = harness.row(examples.present)
    expected = {*declared.should, *definition.names_of_kind("read_only"), *planned}
    return [name for name in differences(before, after) if name not in expected]


def insync_answers(harness: Harness, entry: Entry, attribute: str, row: Resource) -> list[object]:
    """Return the answers of ``insync``, or its errors for the user, for generated values unlike the one in ``row``.

    If all answers are True, ``insync`` regards any value as equal, and the law fails. ``insync`` gets each value as the
    declared one, beside the other declared values with parameters and defaults.
    """
    compare, answers = harness.provider().insync, []
    context = harness.context(reading=True)
    datatype = harness.definition.attributes[attribute].datatype

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(values(datatype))
    def ask(value: object) -> None:
        """Add the answer of ``insync`` for a generated value that is valid and not the present one."""
        if value is not None and datatype.accepts(value) and not same_value(value, reveal(row[attribute])):
            try:
                answers.append(compare(context, entry.name, attribute, dict(row), {**entry.should, attribute: value}))
            except ResourceError as error:
                answers.append(error)

    ask()
    return answers


def _is_valid(harness: Harness, resource: Resource) -> bool:
    """Return whether a manifest may declare the resource, for laws that leave out attributes.

    The type may require one of them together with another, and then the law cannot use the rest.
    """
    try:
        harness.runtime.validate(harness.manifest(resource))
    except ManifestError:
        return False
    return True


def _assert_compares(harness: Harness, entry: Entry, attribute: str, row: Resource, should: Resource) -> None:
    """Fail if ``insync`` raises for want of an attribute in ``row`` or ``should``; a refusal is no fault."""
    try:
        harness.provider().insync(harness.context(reading=True), entry.name, attribute, dict(row), dict(should))
    except ResourceError:
        return
    except PROGRAMMING_ERRORS as error:
        pytest.fail(
            f"a plan would fail: insync of '{attribute}' raises {error!r}; 'is_' contains what exists, {sorted(row)},"
            f" and 'should' what is declared, {sorted(should)}"
        )


def _delete(harness: Harness, absent: Resource) -> None:
    """Apply ``absent``, the declaration of a deletion; fail unless exactly one resource is deleted and then gone."""
    report = harness.converge(absent)
    assert report.summary.deleted == 1, f"nothing was deleted: {report.summary}"
    remaining = harness.existing(harness.names(absent))
    assert not remaining, f"get still returns what was deleted: {remaining}"


class ImperativeLaws(FoundationLaws):
    """By ``due`` a resource runs or does not, in plan and apply alike."""

    def test_due_is_repeatable(self, harness: Harness) -> None:
        """``due`` changes nothing and returns the same again in a transaction: plan and apply must not differ."""
        harness.require("imperative")
        with harness.assert_unchanged("due"):
            snapshot = harness.snapshot()
            first, second = harness.due(snapshot), harness.due(snapshot)
            changed = first.run != second.run
            assert not changed, "the apply would differ from the plan: due returns something else when called again"

    def test_a_resource_that_has_run_is_not_due_again(self, harness: Harness) -> None:
        """A due resource runs; if its example has ``creates``, it is not due again afterwards."""
        harness.require("imperative")
        assert harness.due().run, "'present' is not due: no law can be tested with it"
        report = harness.apply(harness.examples.present)
        assert not failures(report), f"the apply fails: {failures(report)}{harness.log_text}"
        assert report.summary.ran == 1, f"the due resource did not run: {report.summary}"
        if "creates" in harness.examples.present:
            assert not harness.due().run, "it would run in every apply: still due after creating what it 'creates'"
            harness.assert_converged(harness.examples.present)

    def test_noop_runs_nothing(self, harness: Harness) -> None:
        """Under noop a due resource is reported, but does not run."""
        harness.require("imperative")
        with harness.assert_unchanged("noop"):
            report = harness.apply(harness.examples.present, noop=True)
        assert not failures(report), f"noop would stop at {failures(report)}{harness.log_text}"
