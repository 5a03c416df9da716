"""What errors are called in diagnostics."""

from __future__ import annotations

import pytest

from resource_api.model.values import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError(""), "usage"),
        (errors.UnknownType(""), "unknown_type"),
        (errors.DataTypeError(""), "data_type"),
        (errors.ResourceAPIError(""), "failed"),
    ],
)
def test_a_diagnostic_has_the_name_of_its_error_as_code(error: errors.ResourceAPIError, code: str) -> None:
    """The class in lower case, in words; the base, which says nothing more, is a failure."""
    assert errors.diagnostic_code(error) == code
