"""Changes of values as text: a diff that is cut says how much more there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.action import Action
from resource_api.model.change import Difference
from resource_api.model.report import Drifted, LogEvent, Summary
from resource_api.render import plan, run_document, run_text
from resource_api.render.changes import Style, log_lines, text_diff
from resource_api.render.html import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


OLD, NEW = "x" * 3000, "x" * 3000 + "new"
CHANGE = Difference("colour", OLD, NEW)


def step_lines() -> Iterable[str]:
    """Return the lines of a step of a plan."""
    return plan.document_lines(
        plan.PlanDocument([plan.StepDocument("A[a]", Action.UPDATE, changes=[CHANGE])], Summary())
    )


def drift_lines() -> Iterable[str]:
    """Return the lines of drift in a plan."""
    return plan.document_lines(plan.PlanDocument([], Summary(), drift=[Drifted("A[a]", [CHANGE])]))


def run_lines() -> Iterable[str]:
    """Return the lines of drift in a recorded run."""
    document: Any = run_document.history_document({"started": 0.0, "ended": 1.0})
    change = {"attribute": "colour", "was": OLD, "is": NEW}
    return run_text.run({**document, "drift": [{"reference": "A[a]", "changes": [change]}]})


def logged_lines() -> Iterable[str]:
    """Return the line of the log about a change."""
    return [log_lines(LogEvent("notice", "A[a]", f"colour changed from {OLD} to {NEW}", change=CHANGE), Style())]


def page() -> Iterable[str]:
    """Return the HTML of a change."""
    return [pages.changes([{"attribute": "colour", "is": OLD, "should": NEW, "message": None}], 20)]


@pytest.mark.parametrize("render", [step_lines, drift_lines, run_lines, logged_lines, page])
def test_a_text_that_is_added_at_the_end_of_a_long_value_is_shown(render: Callable[[], Iterable[str]]) -> None:
    """Both values begin shortly before their first difference, also where one is the beginning of the other."""
    text = "\n".join(render())
    assert f"…{'x' * 40} (3000 characters)" in text
    assert f"…{'x' * 40}new (3003 characters)" in text


@pytest.mark.parametrize(("most", "last"), [(5, "… 1 more line (--diff full)"), (4, "… 2 more lines (--diff full)")])
def test_the_number_of_lines_that_are_left_out_has_its_noun(most: int, last: str) -> None:
    """One more line is no ``1 more lines``."""
    difference = Difference("content", "", "a\nb\nc\n")
    assert list(text_diff(difference, Style(), most=most))[-1] == last
