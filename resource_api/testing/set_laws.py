"""The laws of ``set``: it makes the requested changes and no others, and the next plan is empty.

The laws of ``get`` must not enter here.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.change import Change
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.text import show
from resource_api.runtime.runtime import Runtime
from resource_api.testing.examples import minimal_resource
from resource_api.testing.fault_injection import registry_with_refusal
from resource_api.testing.harness import PROGRAMMING_ERRORS, Harness, differences, failures

if TYPE_CHECKING:
    from resource_api.model.type_definition import Resource


class SetLaws:
    """Creations, updates and deletions, alone and together, in a run and under noop."""

    def test_create_makes_what_is_asked_for(self, harness: Harness) -> None:
        """``get`` returns a created resource as it was declared, and the next plan is empty."""
        harness.require("ensurable")
        report = harness.converge(harness.examples.present)
        assert report.summary.created == 1, f"nothing was created: {report.summary}"
        [name] = harness.names(harness.examples.present)
        assert name in harness.existing([name]), f"get does not return {show(name)} after it has been created"

    def test_create_from_the_minimum_succeeds_or_fails_with_a_message(self, harness: Harness) -> None:
        """With only mandatory attributes ``set`` succeeds, or fails with an error for the user."""
        harness.require("ensurable", "readable")
        least = minimal_resource(harness.definition, harness.examples.present)
        try:
            harness.runtime.validate(harness.manifest(least))
        except ManifestError as error:
            texts = [problem.message for problem in error.problems]
            broken = [text for text in texts if text.startswith(("canonicalize failed", "validate failed"))]
            assert not broken, f"the provider cannot check {least}: {broken}"
            return
        harness.track(least)
        [entry] = harness.entries(least)
        context = harness.call_set({entry.name: Change(None, entry.should)})
        bugs = [repr(error) for error in context.raised if isinstance(error, PROGRAMMING_ERRORS)]
        unexpected = ", ".join(bugs)
        assert not unexpected, f"a user would read {unexpected}: 'should' holds only what is declared, {least}"
        if context.raised or any(outcome.status == "failed" for outcome in context.outcomes.values()):
            return
        if harness.definition.write_only & least.keys():
            harness.apply(least)  # only the record of a run has what get never returns
        harness.assert_converged(least)

    def test_update_changes_only_what_differs(self, harness: Harness) -> None:
        """An update sets the new values, leaves all others unchanged, and the next plan is empty."""
        harness.require("readable", "updated")
        ours = harness.examples
        assert ours.updated is not None
        harness.converge(ours.present)
        [entry], [new] = harness.entries(ours.present), harness.entries(ours.updated)
        wanted = differences(entry.should, new.should)
        before = harness.existing([entry.name])[entry.name]
        report = harness.converge(ours.updated)
        assert report.summary.updated == 1, f"{wanted} differ, and there was no update: {report.summary}"
        after = harness.existing([entry.name])[entry.name]
        volatile = harness.definition.names_of_kind("read_only")
        unexpected = [name for name in differences(before, after) if name not in wanted and name not in volatile]
        assert not unexpected, f"updating {wanted} has changed {unexpected} too, which the user did not request"

    def test_a_change_leaves_other_resources_alone(self, harness: Harness) -> None:
        """An update or a deletion of one resource changes no other resource."""
        harness.require("readable", "others")
        ours = harness.examples
        harness.converge(*ours.all)
        names = harness.names(*ours.others)
        before = [row for row in harness.observe() if row[0] in names]
        changes = [ours.updated, harness.absent(ours.present) if harness.definition.ensurable else None]
        for change in filter(None, changes):
            harness.converge(change)
            after = [row for row in harness.observe() if row[0] in names]
            assert after == before, f"a change of {ours.present} has changed other resources"

    def test_noop_changes_nothing(self, harness: Harness) -> None:
        """Under noop a creation, an update and a deletion are reported, and nothing is changed."""
        harness.require("readable")
        ours = harness.examples
        absent = harness.absent(ours.present) if harness.definition.ensurable else None
        for before, change in ((absent, ours.present), (ours.present, ours.updated), (ours.present, absent)):
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

    def test_delete_needs_no_more_than_the_name(self, harness: Harness) -> None:
        """A deletion works with only the name declared."""
        harness.require("ensurable")
        harness.converge(harness.examples.present)
        _delete(harness, harness.absent(harness.examples.present, bare=True))

    def test_no_change_is_no_change(self, harness: Harness) -> None:
        """``set`` without changes does nothing and raises nothing."""
        harness.require("readable")
        with harness.assert_unchanged("an empty set"):
            raised = harness.call_set({}).raised
        assert not raised, f"set fails when there is nothing to do: {raised}"

    def test_one_call_serves_one_and_many(self, harness: Harness) -> None:
        """One call creates, and deletes, one resource as well as several."""
        harness.require("ensurable", "others")
        for resources in ([harness.examples.present], harness.examples.all):
            made = harness.converge(*resources).summary.created
            assert made == len(resources), f"{made} of {len(resources)} resources were created in one call"
            absent = harness.converge(*map(harness.absent, resources)).summary.deleted
            assert absent == len(resources), f"{absent} of {len(resources)} resources were deleted in one call"

    def test_one_failure_does_not_lose_the_others(self, harness: Harness) -> None:
        """When the system refuses one resource of a call, the others still become as declared."""
        harness.require("ensurable", "others")
        first, *others = harness.examples.all
        resources = [others[0], first, *others[1:]]
        [name] = harness.names(first)
        # A provider that reads only the name of what it creates is refused at the first attribute.
        for readable in (("ensure", *harness.definition.namevars), ()):
            registry = registry_with_refusal(harness.registry, harness.definition.name, name, readable)
            runtime = Runtime(registry, log=harness.log)
            failed = failures(harness.apply(*resources, runtime=runtime))
            refused = failed.pop(str(harness.entries(first)[0].reference), None)
            assert not failed, f"{show(name)} alone was refused, and these failed with it: {failed}{harness.log_text}"
            harness.assert_converged(*others, runtime=runtime)
            harness.restore()
            if refused:
                break


def _delete(harness: Harness, absent: Resource) -> None:
    report = harness.converge(absent)
    assert report.summary.deleted == 1, f"nothing was deleted: {report.summary}"
    there = harness.existing(harness.names(absent))
    assert not there, f"get still returns what was deleted: {there}"
