"""Identities of spans, as W3C Trace Context writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.trace import TraceContext, parse_traceparent

_HEX = "0123456789abcdef"


def digits(count: int) -> st.SearchStrategy[str]:
    """Return hexadecimal digits that are not all zero."""
    return st.text(_HEX, min_size=count, max_size=count).filter(lambda text: text.strip("0"))


@given(trace=digits(32), span=digits(16), sampled=st.booleans())
def test_a_context_survives_its_text(trace: str, span: str, sampled: bool) -> None:  # noqa: FBT001 - generated
    """What is written can be read."""
    context = TraceContext(trace, span, sampled)
    assert parse_traceparent(str(context)) == context


@given(text=st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """It is a context or none."""
    assert parse_traceparent(text) is None or len(text) >= 55


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-of-a-later-version", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", False),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", False),
    ],
)
def test_what_is_valid(text: str, valid: bool) -> None:  # noqa: FBT001 - a case
    """As the recommendation says, also of later versions."""
    assert (parse_traceparent(text) is not None) == valid


def test_children_of_different_names_are_different() -> None:
    """And always the same for one name: a job that is sent again has the same."""
    root = TraceContext("1" * 32, "2" * 16)
    assert root.child("web1") == root.child("web1")
    assert len({root.child(f"web{number}").span_id for number in range(1000)}) == 1000
    assert parse_traceparent(str(root.child("web1"))) == root.child("web1")
