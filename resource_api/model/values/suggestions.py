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


def suggest(word: str, known: Iterable[str], place: str = "", about: str = "") -> str:
    """Return ``did you mean 'x'?``, with a sentence where one is known, or that sentence alone; else an empty string.

    ``place`` and ``about`` select the words of other tools: ``attribute`` and a type, ``option``, and so on.
    """
    names = sorted(known)
    return _of_another_tool(word, names, place, about) or _question(closest(word, names))


def _of_another_tool(word: str, known: Collection[str], place: str, about: str) -> str:
    """Return the advice for a word of another tool; nothing where the word here does not exist in this place."""
    for table in (WORDS.get(f"{place} {about}", {}), WORDS.get(place, {})):
        meant, sentence = table.get(word) or table.get(word.lower()) or ("", "")
        if sentence and not meant:
            return sentence
        if meant in known:
            return f"{_question(meant)} {sentence}".rstrip()
    return ""


def closest(word: str, known: Collection[str]) -> str:
    """Return the known word that is nearest; an empty string if none is near."""
    spelt = {_plain(each): each for each in known}
    plain = _plain(word)
    near = spelt if len(spelt) <= _COMPARED else nlargest(_COMPARED, spelt, key=lambda each: _common_ends(plain, each))
    if found := get_close_matches(plain, near, n=1, cutoff=_ALIKE if len(plain) > _SHORT else _ALIKE_SHORT):
        return spelt[found[0]]
    longer = [each for each in spelt if len(plain) >= _SHORTEST_BEGINNING and each.startswith(plain)]
    return spelt[longer[0]] if len(longer) == 1 else ""


def _common_ends(word: str, other: str) -> int:
    """Return how many characters two words have in common at their beginnings and at their ends."""
    return _common_beginning(word, other) + _common_beginning(word[::-1], other[::-1])


def _common_beginning(word: str, other: str) -> int:
    for number, (one, two) in enumerate(zip(word, other, strict=False)):
        if one != two:
            return number
    return min(len(word), len(other))


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _question(word: str) -> str:
    return f"did you mean '{word}'?" if word else ""
