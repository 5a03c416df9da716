"""The laws that all others rely on; if one fails, the rest is not checked, because it would only repeat the failure.

They are inherited by every other class of laws, so pytest runs them first.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.catalog import canonicalize
from resource_api.model.values.text import show
from resource_api.testing.examples import example_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.testing.harness import Harness

#: The first of these laws that failed, by test class.
_failed: Final[dict[type, str]] = {}


def foundation(law: Callable[[Any, Harness], None]) -> Callable[[Any, Harness], None]:
    """Return a law after whose failure the rest of its class is not checked."""

    @wraps(law)
    def checked(self: object, harness: Harness) -> None:
        try:
            law(self, harness)
        except pytest.skip.Exception:
            raise
        except (Exception, pytest.fail.Exception):
            _failed.setdefault(type(self), law.__name__)
            raise

    return checked


def skip_after_failure(tests: type, law: str) -> None:
    """Skip a law of a class of tests after one that it relies on has failed."""
    failed = _failed.get(tests, law)
    if failed != law:
        pytest.skip(f"not checked: mend {failed} first, everything else relies on it")


class FoundationLaws:
    """The examples are valid and new, one can be created, and ``get`` returns it as the type declares."""

    @foundation
    def test_the_declaration_accepts_the_examples(self, harness: Harness) -> None:
        """A manifest of the examples is valid, their names differ, and an update keeps its name."""
        examples = harness.examples
        if problem := example_problem(harness.definition, examples):
            pytest.fail(problem)
        names = harness.names(*examples.all)
        if examples.updated is not None:
            [updated] = harness.names(examples.updated)
            assert updated == names[0], "'updated' must be the same resource as 'present': it has another name"

    @foundation
    def test_the_examples_are_absent_at_first(self, harness: Harness) -> None:
        """No example exists before a law creates it: tests leave nothing behind and delete nothing else."""
        harness.require("ensurable")
        there = harness.existing(harness.names(*harness.examples.all))
        assert not there, f"{', '.join(map(show, there))} exists already; choose names that nothing else uses"

    @foundation
    def test_get_honours_the_declaration(self, harness: Harness) -> None:
        """Every row has its name, nothing undeclared, and values of the declared data types, once per resource."""
        harness.require("readable")
        harness.apply(harness.examples.present)
        definition, names = harness.definition, set()
        for row in harness.rows():
            missing = [namevar for namevar in definition.namevars if row.get(namevar) is None]
            assert not missing, f"get returns a resource without its namevar {missing}: it could not be identified"
            name = definition.name_of(row)
            undeclared = row.keys() - definition.attributes.keys()
            assert not undeclared, (
                f"the next plan would fail: get returns the undeclared {sorted(undeclared)} of {show(name)}"
            )
            hidden = sorted(row.keys() & definition.write_only)
            assert not hidden, f"the next plan would fail: get returns {hidden} of {show(name)}, declared write_only"
            wrong = [problem.message for problem in canonicalize.check_values(definition, row)]
            assert not wrong, f"the next plan would fail: get returns of {show(name)} {'; '.join(wrong)}"
            assert name not in names, f"the next plan would fail: get returns {show(name)} more than once"
            names.add(name)

    @foundation
    def test_create_makes_what_is_declared(self, harness: Harness) -> None:
        """``get`` returns a created resource as it was declared, and the next plan is empty."""
        harness.require("ensurable")
        report = harness.converge(harness.examples.present)
        assert report.summary.created == 1, f"nothing was created: {report.summary}"
        [name] = harness.names(harness.examples.present)
        assert name in harness.existing([name]), f"get does not return {show(name)} after it has been created"
