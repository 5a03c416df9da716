"""Suggestions for an unknown word: the nearest known word, or the equivalent of another tool's word.

Imported only for errors. ``foreign_terms.json`` has the words of Puppet, Ansible, Salt, Terraform and Pulumi that users
write from habit, by context; no command-line option that deletes or replaces resources is suggested.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache, partial
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.text import common_start

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

#: How alike two words are at least, as difflib counts; below it, unrelated words of one length are alike.
_ALIKE: Final = 0.72
#: The same for words of three letters, of which one may be another.
_ALIKE_SHORT: Final = 0.66
_SHORT: Final = 3
#: The most known words to compare; of more, those with the same beginning and end.
_COMPARED: Final = 50
#: A shorter beginning of a word fits too many.
_SHORTEST_BEGINNING: Final = 3


@cache
def foreign_terms() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return the words of other tools, to advise users who know these: context → word → (equivalent here, sentence).

    A context is ``attribute``, for example, or for the attributes of one type ``attribute file``.
    """
    loader: Any = __spec__.loader  # reads a directory and a zip file alike
    tables = json.loads(loader.get_data(f"{__file__.rpartition('/')[0]}/foreign_terms.json"))
    return {
        context: {word: (term, sentence) for words, (term, sentence) in table.items() for word in words.split()}
        for context, table in tables.items()
    }


def suggest(word: str, words: Iterable[str], context: str, type_name: str) -> tuple[str, str]:
    """Return the suggested word, or "", and the hint: ``did you mean 'x'?``, a sentence, both, or "".

    ``words`` are the known words. ``context`` and ``type_name`` select the words of other tools: ``attribute`` and a
    type, or ``option`` alone. These take precedence over similar spelling.
    """
    names = sorted(words)
    equivalent, sentence = _translate(word, names, context, type_name)
    if not (equivalent or sentence):
        equivalent = closest(word, names)
    question = f"did you mean '{equivalent}'?" if equivalent else ""
    return equivalent, f"{question} {sentence}".strip()


def _translate(word: str, words: Collection[str], context: str, type_name: str) -> tuple[str, str]:
    """Return the equivalent here of a word of another tool, if it is among ``words``, and a sentence; "" for either."""
    terms = foreign_terms()
    for table in (terms.get(f"{context} {type_name}", {}), terms.get(context, {})):
        lower = word.lower()
        # The entry ``name-`` is for every word that begins with it. Without a dash the prefix is "", and no entry.
        prefix = lower[: lower.find("-") + 1]
        equivalent, sentence = table.get(word) or table.get(lower) or table.get(prefix) or ("", "")
        if sentence and not equivalent:
            return "", sentence
        if equivalent in words:
            return equivalent, sentence
    return "", ""


def closest(word: str, words: Collection[str]) -> str:
    """Return the known word that is most like ``word``, or else the only one that begins with it, or "".

    Case and kinds of dashes do not count. The comparison is slow: of very many words, only those that have most
    characters at their beginning and end in common with ``word`` are compared. References must also be alike in their
    titles, since those of one type are always alike.
    """
    spelt = {_plain(candidate): candidate for candidate in words}
    plain = _plain(word)
    candidates = spelt if len(spelt) <= _COMPARED else nlargest(_COMPARED, spelt, key=partial(_common_ends, plain))
    for match in _alike(plain, candidates):
        if _have_alike_titles(plain, match):
            return spelt[match]
    longer = [candidate for candidate in spelt if len(plain) >= _SHORTEST_BEGINNING and candidate.startswith(plain)]
    return spelt[longer[0]] if len(longer) == 1 else ""


def _common_ends(word: str, candidate: str) -> int:
    """Return the number of characters that two words have in common at their beginnings and at their ends."""
    return common_start(word, candidate) + common_start(word[::-1], candidate[::-1])


def _alike(word: str, words: Iterable[str]) -> Sequence[str]:
    """Return the words that are like ``word``, the nearest first."""
    return get_close_matches(word, list(words), cutoff=_ALIKE if len(word) > _SHORT else _ALIKE_SHORT)


def _have_alike_titles(reference: str, other: str) -> bool:
    """Return whether the titles of two references are alike: by their types alone ``File[a]`` is like ``File[x]``."""
    title, other_title = (text.partition("[")[2].removesuffix("]") for text in (reference, other))
    return len(title) <= 1 or not other_title or bool(_alike(title, [other_title]))


def _plain(word: str) -> str:
    """Return a word in the form in which words are compared: neither case nor the kind of dash counts."""
    return word.lower().replace("-", "_")
