"""Plain data as manifests hold it, for hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

CLEAN = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff")
KEYS = st.text(CLEAN, max_size=8)


def data(text: SearchStrategy[str]) -> SearchStrategy[Any]:
    """Return values of every kind, nested, whose texts are drawn from ``text``."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
    )


#: Data whose texts contain escapes.
DATA = data(st.text(CLEAN | st.sampled_from("\n\t\r\x1b"), max_size=12))
