"""The laws of types that act and cannot be read back: when they are due, that they run once, and not under noop.

Types whose resources can be read have other laws.
"""

# ruff: noqa: S101 - assert is how a law speaks

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.testing.harness import failures

if TYPE_CHECKING:
    from resource_api.testing.harness import Bench


class ImperativeLaws:
    """``due`` decides, and what it says is what is done."""

    def test_due_is_repeatable(self, bench: Bench) -> None:
        """Asking whether it is due changes nothing: asked again, in the same transaction or a new one, it says so."""
        bench.need("imperative")
        with bench.still("due"):
            snapshot = bench.snapshot()
            first, second = bench.due(snapshot), bench.due(snapshot)
            changed = first.run != second.run
            assert not changed, "what is planned would not be what is done: due says something else when asked again"

    def test_what_has_run_is_due_no_longer(self, bench: Bench) -> None:
        """What is due is run; where the example says by ``creates`` when it is done, it is not due again."""
        bench.need("imperative")
        assert bench.due().run, "'present' is not due: nothing can be tried with it"
        report = bench.apply(bench.examples.present)
        assert not failures(report), f"the apply fails: {failures(report)}{bench.said}"
        assert report.summary.updated == 1, f"what was due has not been run: {report.summary}"
        if "creates" in bench.examples.present:
            assert not bench.due().run, "it would be run in every apply: still due after it has made what it 'creates'"
            bench.settled(bench.examples.present)

    def test_noop_runs_nothing(self, bench: Bench) -> None:
        """Under noop what is due is told, and not run."""
        bench.need("imperative")
        with bench.still("noop"):
            report = bench.apply(bench.examples.present, noop=True)
        assert not failures(report), f"noop would stop at {failures(report)}{bench.said}"
