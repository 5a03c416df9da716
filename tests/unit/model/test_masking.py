"""The laws of masking and escaping: known secrets do not leave the process, and no text controls a terminal."""

from __future__ import annotations

import html
import json
import random
import re
import shlex
import string
import sys
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Sensitive
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import escape, show, show_attribute

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
    output = [show(v) for v in ("red", "", " a", "a\nb", None, True, 3, [1, "x"], {"k": False}, Sensitive("s"))]
    assert output == ["red", "''", "' a'", r"'a\nb'", "null", "true", "3", "[1, x]", "{k: false}", "<sensitive>"]
    assert (show_attribute(None), show_attribute("red"), show([None])) == ("(none)", "red", "[null]")


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


TOKEN: Final = "kV7#pq/Zr+3\"mX'9&tLw<Yb>é2Nd%Hs_fG"
PHRASE: Final = "correct 'horse' & \"battery\" <staple>/é%"


def _pieces_of_base64(secret: str, before: int) -> str:
    data = secret.encode()
    return b64encode(b"u" * before + data).decode()[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]


def _json_of_go(secret: str) -> str:
    text = json.dumps(secret, ensure_ascii=False)[1:-1]
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "&<>"})


#: Every form that ``docs/secrets.md`` lists: its name there, and how a text is written in it.
FORMS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "Python": lambda secret: repr(secret)[1:-1],
    "Python, bytes": lambda secret: repr(secret.encode())[2:-1],
    "Python, ascii()": lambda secret: ascii(secret)[1:-1],
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON, not ASCII": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "JSON, \\/": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "JSON, \\u0026": _json_of_go,
    "JSON, upper case": lambda secret: "".join(f"\\u{ord(c):04X}" for c in secret),
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret))[3:-3],
    "JSON in JSON, \\/": lambda secret: json.dumps(json.dumps(secret).replace("/", "\\/"))[3:-3],
    "URL": quote,
    "URL, all": lambda secret: quote(secret, safe=""),
    "URL, lower case": lambda secret: re.sub("%..", lambda value: value[0].lower(), quote(secret, safe="")),
    "URL, encodeURIComponent": lambda secret: quote(secret, safe="!'()*"),
    "URL, encodeURI": lambda secret: quote(secret, safe=";,/?:@&=+$!'()*#"),
    "URL, form": quote_plus,
    "HTML": html.escape,
    "HTML, decimal": lambda secret: "".join(c if c.isalnum() else f"&#{ord(c)};" for c in secret),
    "HTML, hexadecimal": lambda secret: "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in secret),
    "XML": lambda secret: html.escape(secret).replace("&#x27;", "&apos;").replace("&quot;", "&#34;"),
    "YAML, double quotes": lambda secret: yaml.safe_dump(secret, default_style='"', width=1000).strip()[1:-1],
    "YAML, single quotes": lambda secret: secret.replace("'", "''"),
    "CSV, SQL": lambda secret: secret.replace('"', '""'),
    "shell": lambda secret: shlex.quote(secret)[1:-1],
    "shell, single quotes": lambda secret: secret.replace("'", "'\\''"),
    "shell, backslashes": lambda secret: re.sub(r"(\W)", r"\\\1", secret),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "hexadecimal, upper case": lambda secret: secret.encode().hex().upper(),
    **{f"hexadecimal, '{by}'": partial(lambda by, secret: secret.encode().hex(by), by) for by in ":- ,"},
    "hexadecimal, ':', upper case": lambda secret: secret.encode().hex(":").upper(),
    "hexadecimal, pairs": lambda secret: secret.encode().hex(" ", -2),
    "hexadecimal, 0x": lambda secret: ", ".join(f"0x{byte:02x}" for byte in secret.encode()),
    "hexadecimal, \\x": lambda secret: "".join(f"\\x{byte:02x}" for byte in secret.encode()),
    "octal": lambda secret: "".join(f"\\{byte:03o}" for byte in secret.encode()),
    "base64": lambda secret: b64encode(secret.encode()).decode(),
    "base64 after one byte": lambda secret: _pieces_of_base64(secret, 1),
    "base64 after two bytes": lambda secret: _pieces_of_base64(secret, 2),
    "base64, URL": lambda secret: urlsafe_b64encode(secret.encode()).decode(),
}


def masked(secret: str, text: str) -> str:
    """Mask a text that may hold a secret."""
    mask = Mask()
    mask.add(Sensitive(secret))
    return mask(text)


@pytest.mark.parametrize("secret", [TOKEN, PHRASE, "p&ss/w'rd"], ids=["token", "phrase", "short"])
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_every_form_of_the_list(form: str, secret: str) -> None:
    """And what stands around it is kept."""
    assert masked(secret, f"before {FORMS[form](secret)} after").replace("=", "") in {
        "before <sensitive> after",
        "before 0x<sensitive> after",
    }


@pytest.mark.parametrize("user", ["me", "you", "root", "admin"])
@pytest.mark.parametrize("secret", [TOKEN, PHRASE])
def test_a_password_is_masked_in_basic_authentication(user: str, secret: str) -> None:
    """At each of the three alignments that the name before it can cause."""
    header = b64encode(f"{user}:{secret}".encode()).decode()
    remaining = masked(secret, f"Authorization: Basic {header}").replace("<sensitive>", "")
    assert len(remaining) <= len("Authorization: Basic ") + 4 * (len(user) + 1) // 3 + 6


@pytest.mark.parametrize("name", FORMS)
def test_the_documentation_lists_every_form(name: str) -> None:
    """By the name that it has here."""
    page = Path(__file__).parents[3] / "docs" / "secrets.md"
    assert f"| {name.partition(',')[0].partition(' after')[0]} |" in page.read_text(encoding="utf-8")


@given(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=24, max_size=200), st.data())
def test_a_part_of_a_long_secret_is_masked(secret: str, data: st.DataObject) -> None:
    """Any run of twelve characters, wherever it was cut."""
    start = data.draw(st.integers(0, len(secret) - 12))
    end = data.draw(st.integers(start + 12, len(secret)))
    before = data.draw(st.text("xyz ", max_size=9))
    assert secret[start:end] not in masked(secret, f"{before} {secret[start:end]} ").replace("<sensitive>", "")
    assert masked("0123456789" * 5, f"{before}78901234567{before}") == f"{before}78901234567{before}"


def test_runs_of_an_input_of_several_lines_are_masked_and_those_of_other_texts_are_not() -> None:
    """A configuration that contains a secret holds more ordinary lines than secret ones."""
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    text = f"-----BEGIN PRIVATE KEY-----\n{line}\nserver=www.example.org/index\n-----END PRIVATE KEY-----\n"
    mask = Mask()
    mask.add(Sensitive(text))
    assert mask(f"at {line[3:20]} of") == f"at {line[3:20]} of"
    mask.add_inputs({"key": Sensitive(text)})
    assert mask(f"at {line[3:20]} of a PRIVATE KEY") == "at <sensitive> of a PRIVATE KEY"
    assert mask(f"at {line} of") == "at <sensitive> of"


def test_a_short_input_is_masked_where_it_is_a_whole_word() -> None:
    """From four characters on; a shorter one would mask ordinary text."""
    mask = Mask()
    mask.add_inputs([Sensitive("1234"), Sensitive("abc")])
    assert mask("pin=1234, of 12345 and x1234, abc") == "pin=<sensitive>, of 12345 and x1234, abc"


@pytest.mark.parametrize("code", ["FFFFFFFF", "00110000"])
def test_a_secret_is_masked_beside_an_escape_of_no_character(code: str) -> None:
    """An escape with a code point that does not exist is text like any other."""
    assert masked("hunter2secret", rf"\U{code} hunter2secret") == rf"\U{code} <sensitive>"


def test_a_secret_is_masked_behind_bytes_that_are_no_text() -> None:
    """They are surrogate escapes in the text, each of them one character."""
    mask = Mask()
    mask.add(Sensitive("a short secret"))
    assert mask("\udcff" * 9 + "a short secret.") == "\udcff" * 9 + "<sensitive>."


@given(st.integers(0, 60))
def test_a_text_is_cut_at_no_secret(position: int) -> None:
    """The next place is behind it."""
    mask = Mask()
    mask.add(Sensitive("two words of it"))
    text = f"{'x' * 20}two words of it{'y' * 30}"
    assert mask.boundary(text, position) == (35 if 20 < position < 35 else position)


@given(st.lists(st.text(st.sampled_from("ab%\\\n-é"), max_size=20), max_size=8))
def test_texts_that_are_searched_together_are_found_as_each_by_itself(texts: list[str]) -> None:
    """Whatever surrounds them: a match that reaches from one into the next hides none and adds none."""
    mask = Mask()
    mask.add([Sensitive("ab-ab-"), Sensitive("b\na-bb"), Sensitive("a%b-é-a%b-é-ab")])
    assert mask.search(texts) == {index for index, text in enumerate(texts) if mask(text) != text}


def test_many_lines_are_masked_fast_beside_a_long_secret() -> None:
    """Without looking at each of its characters for each of theirs: by how often the slow path is taken."""
    mask = Mask()
    secret = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=65536))  # noqa: S311 - no secret
    mask.add(Sensitive(secret))
    calls: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code.co_name] if event == "call" else []))
    try:
        for i in range(10_000):
            mask(f"{i}: starting the service nginx on host web-{i % 90}")
    finally:
        sys.setprofile(None)
    assert calls["__call__"] == 10_000
    assert calls["_spans"] < 100


def test_an_input_that_a_resource_has_too_is_learned_once() -> None:
    """The forms of a long secret take as long as thousands of lines."""
    learned = []
    mask = Mask()
    mask.on_secret = lambda text, declared: learned.append((text, declared))
    mask.add_inputs(Sensitive("a long secret"))
    mask.add([Sensitive("a long secret"), Sensitive("another secret")])
    mask.add_inputs(Sensitive("another secret"))
    assert learned == [("a long secret", True), ("another secret", False), ("another secret", True)]
