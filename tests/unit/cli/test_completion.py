"""What completion inserts in bash: a word that is exactly the value, whatever is in it."""

from __future__ import annotations

import random
import subprocess
from typing import Final

import pytest

from resource_api.cli import completion

#: What a shell treats specially, and some that it does not.
_CHARACTERS: Final = "ab \t\n'\"\\$`(){}[]<>|&;*?#~=:@^!%,./-+\x01\x1b\x7f\x85é→😀"


def texts(count: int) -> list[str]:
    """Return texts of such characters, the same each time; a short one for each character."""
    chance = random.Random(15)  # noqa: S311 - no secret
    return [*_CHARACTERS, *("".join(chance.choices(_CHARACTERS, k=chance.randint(1, 12))) for _ in range(count))]


@pytest.mark.process
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_bash_reads_a_quoted_value_as_it_is(quote: str) -> None:
    """Behind an open quote and without one; what cannot be typed there is left out, and nothing else."""
    pairs = [(text, completion.quote_word(text, quote)) for text in texts(400)]
    typed = {text: f"{quote}{item}{quote}" for text, item in pairs if item is not None}
    words = " ".join(typed.values())
    process = subprocess.run(
        ["bash", "--norc", "-c", f"printf '%s\\0' {words}"], env={"LC_ALL": "C.UTF-8"}, check=True, capture_output=True
    )
    assert process.stdout.decode().split("\0")[:-1] == list(typed)
    left_out = {text for text, value in pairs if value is None}
    assert all(quote and (completion._CONTROL.search(text) or (quote == '"' and "!" in text)) for text in left_out)


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_line_is_split_as_bash_does(quote: str) -> None:
    """A value that was inserted is found again as one word, complete or not."""
    for text in texts(400):
        typed = completion.quote_word(text, quote)
        if typed is None or completion._CONTROL.search(text):
            continue
        words, word = completion.split_words(f"resource-api x {quote}{typed}{quote} next")
        assert (words, word.text, word.quote) == (["resource-api", "x", text], "next", "")
        words, word = completion.split_words(f"resource-api x {quote}{typed}")
        assert (words, word.text, word.quote) == (["resource-api", "x"], text, quote)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("File[/a:b", "File[/a:"),
        (r"File\[/a\:b", ""),
        ("-i size=5", "size="),
        ("--target=File[x:y", "--target=File[x:"),
        ("'a:b=c", ""),
        ("size='a:b", "size="),
        ("'a:'b", ""),
        ("root@example", "root@"),
    ],
)
def test_what_bash_takes_for_words_of_their_own_stays(typed: str, text: str) -> None:
    """Bash replaces only what follows the last of its word breaks, or an open quote."""
    _, word = completion.split_words(f"resource-api {typed}")
    assert word.prefix(" \t\n\"'@><=;|&(:") == text


@pytest.mark.parametrize("value", ["a\0b", "a\udc80b"])
def test_a_name_that_no_program_can_get_is_left_out(value: str) -> None:
    """Arguments of programs have neither NUL nor what is no text."""
    assert not completion._can_be_passed(value)
