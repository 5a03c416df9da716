"""The laws of ``set``: what is asked for comes about, nothing else does, and the next plan is empty.

How resources are read is another module's.
"""

# ruff: noqa: S101 - assert is how a law speaks

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.change import Change
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.text import show
from resource_api.runtime.runtime import Runtime
from resource_api.testing import examples as trying
from resource_api.testing.fault_injection import refusing
from resource_api.testing.harness import BLUNDERS, Bench, differing, failures

if TYPE_CHECKING:
    from resource_api.model.type_definition import Resource


class SetLaws:
    """Creations, updates and deletions, alone and together, for real and under noop."""

    def test_create_makes_what_is_asked_for(self, bench: Bench) -> None:
        """What is created is found again as it was asked for, and the next plan is empty."""
        bench.need("ensurable")
        report = bench.converge(bench.examples.present)
        assert report.summary.created == 1, f"nothing was created: {report.summary}"
        [name] = bench.names(bench.examples.present)
        assert name in bench.existing([name]), f"get does not return {show(name)} after it has been created"

    def test_create_from_the_minimum_works_or_says_why(self, bench: Bench) -> None:
        """With nothing optional declared ``set`` succeeds, or fails with an error that tells the user what to do."""
        bench.need("ensurable", "readable")
        least = trying.minimum(bench.definition, bench.examples.present)
        try:
            bench.runtime.validate(bench.manifest(least))
        except ManifestError as error:
            texts = [problem.message for problem in error.problems]
            broken = [text for text in texts if text.startswith(("canonicalize failed", "validate failed"))]
            assert not broken, f"the provider cannot judge {least}: {broken}"
            return
        bench.touch(least)
        [entry] = bench.entries(least)
        witness = bench.set({entry.name: Change(None, entry.should)})
        blunders = [repr(error) for error in witness.raised if isinstance(error, BLUNDERS)]
        assert not blunders, f"a user would read {', '.join(blunders)}: 'should' holds only what is declared, {least}"
        if witness.raised or any(said.status == "failed" for said in witness.outcomes.values()):
            return
        if bench.definition.write_only & least.keys():
            bench.apply(least)  # what get never returns is known from the record of a run alone
        bench.settled(least)

    def test_update_changes_only_what_differs(self, bench: Bench) -> None:
        """An update brings the new values, leaves all others as they are, and the next plan is empty."""
        bench.need("readable", "updated")
        ours = bench.examples
        assert ours.updated is not None
        bench.converge(ours.present)
        [entry], [wish] = bench.entries(ours.present), bench.entries(ours.updated)
        wanted = differing(entry.should, wish.should)
        before = bench.existing([entry.name])[entry.name]
        report = bench.converge(ours.updated)
        assert report.summary.updated == 1, f"{wanted} differ, and the update was not made: {report.summary}"
        after = bench.existing([entry.name])[entry.name]
        moving = bench.definition.names_of_kind("read_only")
        strange = [name for name in differing(before, after) if name not in wanted and name not in moving]
        assert not strange, f"updating {wanted} has changed {strange} too, which the user does not expect"

    def test_a_change_leaves_other_resources_alone(self, bench: Bench) -> None:
        """``set`` for one resource changes nothing of those beside it, in an update or a deletion."""
        bench.need("readable", "others")
        ours = bench.examples
        bench.converge(*ours.all)
        names = bench.names(*ours.others)
        before = [row for row in bench.look() if row[0] in names]
        wishes = [ours.updated, bench.absent(ours.present) if bench.definition.ensurable else None]
        for wish in filter(None, wishes):
            bench.converge(wish)
            after = [row for row in bench.look() if row[0] in names]
            assert after == before, f"a change of {ours.present} alone has changed what stands beside it"

    def test_noop_changes_nothing(self, bench: Bench) -> None:
        """Under noop a creation, an update and a deletion are told, and nothing is touched."""
        bench.need("readable")
        ours = bench.examples
        gone = bench.absent(ours.present) if bench.definition.ensurable else None
        for before, wish in ((gone, ours.present), (ours.present, ours.updated), (ours.present, gone)):
            if before is None or wish is None:
                continue
            bench.converge(before)
            with bench.still("noop"):
                report = bench.apply(wish, noop=True)
            assert not failures(report), f"noop would stop at {failures(report)}{bench.said}"

    def test_delete_leaves_nothing(self, bench: Bench) -> None:
        """What is deleted is gone, and the next plan is empty."""
        bench.need("ensurable")
        bench.converge(bench.examples.present)
        _delete(bench, bench.absent(bench.examples.present))

    def test_delete_needs_no_more_than_the_name(self, bench: Bench) -> None:
        """A deletion works with nothing else declared."""
        bench.need("ensurable")
        bench.converge(bench.examples.present)
        _delete(bench, bench.absent(bench.examples.present, bare=True))

    def test_no_change_is_no_change(self, bench: Bench) -> None:
        """An empty ``set`` does nothing and is no error."""
        bench.need("readable")
        with bench.still("an empty set"):
            raised = bench.set({}).raised
        assert not raised, f"set fails when there is nothing to do: {raised}"

    def test_one_call_serves_one_and_many(self, bench: Bench) -> None:
        """Resources that stand together are created, and deleted, in one call as each is alone."""
        bench.need("ensurable", "others")
        for resources in ([bench.examples.present], bench.examples.all):
            made = bench.converge(*resources).summary.created
            assert made == len(resources), f"{made} of {len(resources)} resources were created in one call"
            gone = bench.converge(*map(bench.absent, resources)).summary.deleted
            assert gone == len(resources), f"{gone} of {len(resources)} resources were deleted in one call"

    def test_one_failure_does_not_lose_the_others(self, bench: Bench) -> None:
        """When the system refuses one resource of a call, those beside it become what they should be."""
        bench.need("ensurable", "others")
        first, *others = bench.examples.all
        resources = [others[0], first, *others[1:]]
        [name] = bench.names(first)
        # A provider that needs no more than the name of what it creates meets no refusal but at once.
        for told in (("ensure", *bench.definition.namevars), ()):
            registry = refusing(bench.registry, bench.definition.name, name, told)
            runtime = Runtime(registry, log=bench.log)
            failed = failures(bench.apply(*resources, runtime=runtime))
            refused = failed.pop(str(bench.entries(first)[0].reference), None)
            assert not failed, f"{show(name)} alone was refused, and these are lost with it: {failed}{bench.said}"
            bench.settled(*others, runtime=runtime)
            bench.restore()
            if refused:
                break


def _delete(bench: Bench, wish: Resource) -> None:
    report = bench.converge(wish)
    assert report.summary.deleted == 1, f"nothing was deleted: {report.summary}"
    there = bench.existing(bench.names(wish))
    assert not there, f"get still returns what was deleted: {there}"
