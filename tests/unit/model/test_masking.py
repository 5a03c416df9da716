"""The laws of masking and escaping: known secrets do not leave the process, and no text controls a terminal."""

from __future__ import annotations

import json
import shlex
import sys
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Sensitive
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import escape, show

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=30).filter(
    lambda s: len(s.strip()) >= 6
)


@given(SECRETS, st.text(max_size=10), st.text(max_size=10))
def test_a_secret_is_masked_anywhere_in_a_text(secret: str, before: str, after: str) -> None:
    """In its own form, and as Python and JSON quote it."""
    mask = Mask()
    mask.add({"deep": [Sensitive(secret)]})
    for spelt in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert spelt not in mask(f"{before}{spelt}{after}").replace("<sensitive>", "")


@pytest.mark.parametrize("spell", [quote, quote_plus, shlex.quote], ids=["path", "query", "shell"])
@pytest.mark.parametrize("secret", ["user/pass word&more", "it's/a 'quoted'+secret", "two words\nand two more"])
def test_a_secret_is_masked_as_urls_and_shells_quote_it(spell: Callable[[str], str], secret: str) -> None:
    """In the path of a URL, in its query, and in a command line."""
    mask = Mask()
    mask.add(Sensitive(secret))
    assert spell(secret) not in mask(f"at {spell(secret)} it ends")
    assert mask(f"at {spell(secret).strip(chr(39))} it ends") == "at <sensitive> it ends"


def test_short_secrets_do_not_mask_ordinary_words() -> None:
    """Only the type protects them."""
    mask = Mask()
    mask.add(Sensitive("root"))
    assert mask("User[root]") == "User[root]"


@given(st.text())
def test_shown_values_are_one_printable_line(text: str) -> None:
    """For any text that was read from a machine."""
    assert escape(text).isprintable() or not any(c in escape(text) for c in "\x1b\r\n\x00\u202e")
    assert "\n" not in show(text)


def test_values_are_shown_without_needless_quotes() -> None:
    """Without quotes where that is unambiguous."""
    shown = [show(v) for v in ("red", "", " a", "a\nb", None, True, 3, [1, "x"], {"k": False}, Sensitive("s"))]
    assert shown == ["red", "''", "' a'", r"'a\nb'", "undef", "true", "3", "[1, x]", "{k: false}", "<sensitive>"]


@pytest.mark.parametrize("line", range(1, 9))
def test_a_secret_added_while_another_thread_masks_is_masked_afterwards(line: int) -> None:
    """At whichever line of masking it is added, the next text is masked."""
    mask, lines = Mask(), count(1)
    mask.add(Sensitive("first secret"))

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and next(lines) == line:
            mask.add(Sensitive("second secret"))
        return trace

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: trace if frame.f_code is Mask.__call__.__code__ else None)
    try:
        mask("a text")
    finally:
        sys.settrace(before)
    mask.add(Sensitive("second secret"))
    assert mask("the second secret") == "the <sensitive>"
