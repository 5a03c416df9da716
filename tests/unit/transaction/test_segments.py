"""Which operations share a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.transaction.plans import plan

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("resources", "segments"),
    [
        ({"Part[a]": {}, "Part[b]": {}, "Tool[c]": {}, "Part[d]": {}}, ["ab", "c", "d"]),
        ({"Part[a]": {}, "Part[b]": {"require": "Part[a]"}}, ["ab"]),
        ({"Part[a]": {}, "Part[b]": {"timeout": 3}, "Part[c]": {}}, ["a", "b", "c"]),
        ({"Errand[a]": {}, "Errand[b]": {}}, ["a", "b"]),
        ({"Part[a]": {}, "Part[b]": {"near": "${part[a].serial}"}, "Part[c]": {}}, ["a", "bc"]),
        ({"Part[a]": {}, "Tool[b]": {"require": "Part[a]"}, "Part[c]": {}}, ["a", "b", "c"]),
    ],
    ids=["consecutive", "required", "timeout", "imperative", "value of another", "apart"],
)
def test_a_segment_is_a_run_of_consecutive_operations_of_one_type(
    resources: Mapping[str, Any], segments: list[str]
) -> None:
    """A relationship does not split it; a timeout, an imperative type, and a value that its own call would yield do."""
    texts = ["".join(str(operation.step.reference)[-2] for operation in item) for item in plan(resources).segments]
    assert texts == segments
