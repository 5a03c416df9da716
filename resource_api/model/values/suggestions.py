"""Suggestions for a word that is not known: the word that is meant, or a sentence that there is none.

Imported only where something is wrong, as the table of words is large. The table is in ``peer_words``.
"""

from __future__ import annotations

from difflib import get_close_matches
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from resource_api.model.values.peer_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: How alike two words are at least, as difflib counts; below it, unrelated words of one length are alike.
_ALIKE: Final = 0.72
#: The same for words of three letters, of which one may be another.
_ALIKE_SHORT: Final = 0.66
_SHORT: Final = 3
#: So many known words are compared at most; of more, those with the same beginning and end.
_COMPARED: Final = 50
#: A shorter beginning of a word fits too many.
_SHORTEST_BEGINNING: Final = 3


def suggest(word: str, words: Iterable[str], context: str = "", type_name: str = "") -> str:
    """Return ``did you mean 'x'?``, with a sentence where one is known, or that sentence alone; else an empty string.

    ``place`` and ``about`` select the words of other tools: ``attribute`` and a type, ``option``, and so on.
    """
    names = sorted(words)
    return _of_another_tool(word, names, context, type_name) or _question(closest(word, names))


def _of_another_tool(word: str, words: Collection[str], context: str, type_name: str) -> str:
    """Return the advice for a word of another tool; nothing where the word here does not exist in this place."""
    for table in (WORDS.get(f"{context} {type_name}", {}), WORDS.get(context, {})):
        equivalent, sentence = table.get(word) or table.get(word.lower()) or ("", "")
        if sentence and not equivalent:
            return sentence
        if equivalent in words:
            return f"{_question(equivalent)} {sentence}".rstrip()
    return ""


def closest(word: str, words: Collection[str]) -> str:
    """Return the known word that is nearest; an empty string if none is near."""
    spelt = {_plain(candidate): candidate for candidate in words}
    plain = _plain(word)
    near = (
        spelt
        if len(spelt) <= _COMPARED
        else nlargest(_COMPARED, spelt, key=lambda candidate: _common_ends(plain, candidate))
    )
    if matches := get_close_matches(plain, near, n=1, cutoff=_ALIKE if len(plain) > _SHORT else _ALIKE_SHORT):
        return spelt[matches[0]]
    longer = [candidate for candidate in spelt if len(plain) >= _SHORTEST_BEGINNING and candidate.startswith(plain)]
    return spelt[longer[0]] if len(longer) == 1 else ""


def _common_ends(word: str, candidate: str) -> int:
    """Return how many characters two words have in common at their beginnings and at their ends."""
    return _common_beginning(word, candidate) + _common_beginning(word[::-1], candidate[::-1])


def _common_beginning(word: str, candidate: str) -> int:
    for number, (one, two) in enumerate(zip(word, candidate, strict=False)):
        if one != two:
            return number
    return min(len(word), len(candidate))


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _question(word: str) -> str:
    return f"did you mean '{word}'?" if word else ""
