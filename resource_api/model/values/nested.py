"""Places within nested values, ``settings.tls.key`` or ``rules[0].port``: their text, and what stands there.

The first word of such a text is an attribute; what an attribute is does not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: Keys of hashes and indexes of arrays, from the outside in.
    Place = tuple[str | int, ...]

_PLAIN: Final = regex(r"[A-Za-z0-9_-]+")
_STEP: Final = regex(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\['((?:[^']|'')*)'\]")
_ATTRIBUTE: Final = regex(r"[a-z_][a-z0-9_]*")


def place_text(path: Iterable[str | int]) -> str:
    """Return the text of a place behind the name of its attribute: ``.tls.key``, ``[0]``, ``['a.b']``."""
    return "".join(f".{step}" if type(step) is str and _PLAIN.fullmatch(step) else _bracketed(step) for step in path)


def _bracketed(step: str | int) -> str:
    return f"[{step}]" if type(step) is int else "['{}']".format(str(step).replace("'", "''"))


def attribute_of(text: str) -> str:
    """Return the attribute that the text of a place begins with."""
    return text.partition(".")[0].partition("[")[0]


def parse_place(text: str) -> tuple[str, Place]:
    """Return attribute and place of ``settings.tls.key``. Raises ``ValueError`` with a sentence for the user."""
    head = _ATTRIBUTE.match(text)
    path, end = list[str | int](), head.end() if head else 0
    while head and (step := _STEP.match(text, end)):
        key, index, quoted = step.groups()
        path.append(int(index) if index is not None else key if quoted is None else quoted.replace("''", "'"))
        end = step.end()
    if head is None or end < len(text):
        msg = f"'{text}' is no place in an attribute; write settings.tls.key, rules[0].port or labels['a.b']"
        raise ValueError(msg)
    return head[0], tuple(path)


def with_present(should: Any, is_: Any, path: Place) -> Any:
    """Return ``should`` with what stands at a place in ``is_``; without that place where a hash does not have it."""
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        should, is_ = (each.reveal() if isinstance(each, Sensitive) else each for each in (should, is_))
        return Sensitive(with_present(should, is_, path))
    if not path:
        return is_
    step = path[0]
    if type(should) is dict and type(is_) is dict:
        if step not in is_ or (step not in should and len(path) > 1):
            return {key: value for key, value in should.items() if key != step} if len(path) == 1 else should
        return {**should, step: with_present(should.get(step), is_[step], path[1:])}
    if type(should) is list and type(is_) is list and type(step) is int and step < min(len(should), len(is_)):
        return [*should[:step], with_present(should[step], is_[step], path[1:]), *should[step + 1 :]]
    return should
