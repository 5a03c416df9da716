"""The second net: known secrets are masked in whatever leaves the process, and what is shown moves no terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from resource_api import Sensitive
from resource_api.nouns.mask import Mask
from resource_api.nouns.text import escape, show

SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=30).filter(
    lambda s: len(s.strip()) >= 6
)


@given(SECRETS, st.text(max_size=10), st.text(max_size=10))
def test_a_secret_is_masked_wherever_it_stands(secret: str, before: str, after: str) -> None:
    """As it is, as Python quotes it, and as JSON does."""
    mask = Mask()
    mask.add({"deep": [Sensitive(secret)]})
    for spelt in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert spelt not in mask(f"{before}{spelt}{after}").replace("<sensitive>", "")


def test_short_secrets_do_not_mask_ordinary_words() -> None:
    """The type alone protects them."""
    mask = Mask()
    mask.add(Sensitive("root"))
    assert mask("User[root]") == "User[root]"


@given(st.text())
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    """Whatever was read from a machine."""
    assert escape(text).isprintable() or not any(c in escape(text) for c in "\x1b\r\n\x00\u202e")
    assert "\n" not in show(text)


def test_values_are_shown_as_people_write_them() -> None:
    """Bare where that is clear, quoted where it is not."""
    shown = [show(v) for v in ("red", "", " a", "a\nb", None, True, 3, [1, "x"], {"k": False}, Sensitive("s"))]
    assert shown == ["red", "''", "' a'", r"'a\nb'", "undef", "true", "3", "[1, x]", "{k: false}", "<sensitive>"]
