"""The laws of imperative types: ``due`` decides, they run once, and not under noop.

The laws of types that can be read must not enter here.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.testing.foundation_laws import FoundationLaws
from resource_api.testing.harness import failures

if TYPE_CHECKING:
    from resource_api.testing.harness import Harness


class ImperativeLaws(FoundationLaws):
    """``due`` decides whether a resource runs, in plan and apply alike."""

    def test_due_is_repeatable(self, harness: Harness) -> None:
        """``due`` changes nothing and returns the same again, in the same transaction or a new one."""
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
