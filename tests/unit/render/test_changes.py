"""Changes of values as text: a diff that is cut says how much more there is."""

from __future__ import annotations

import pytest

from resource_api.model.change import Difference
from resource_api.render.changes import Style, text_diff


@pytest.mark.parametrize(("most", "last"), [(5, "… 1 more line (--diff full)"), (4, "… 2 more lines (--diff full)")])
def test_the_number_of_lines_that_are_left_out_has_its_noun(most: int, last: str) -> None:
    """One more line is no ``1 more lines``."""
    difference = Difference("content", "", "a\nb\nc\n")
    assert list(text_diff(difference, Style(), most=most))[-1] == last
