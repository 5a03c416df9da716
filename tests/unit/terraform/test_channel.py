"""The header of a call's time limit is one that every server of gRPC accepts."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from resource_api.terraform.channel import grpc_timeout


@given(seconds=st.floats(0, 1e10))
def test_agrpc_timeout_has_at_most_eight_digits(seconds: float) -> None:
    """More are refused by the libraries of Go, as for a limit of two days in milliseconds."""
    assert re.fullmatch(r"[1-9][0-9]{0,7}[mS]", grpc_timeout(seconds))
