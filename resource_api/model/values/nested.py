"""Key paths within nested values, ``settings.tls.key`` or ``rules[*].port``: their texts, and the values there.

The first word of such a text is an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    #: Keys of hashes and indexes of arrays, from the outside in; None means each member.
    KeyPath = tuple[str | int | None, ...]

_PLAIN: Final = regex(r"[A-Za-z0-9_-]+")
_STEP: Final = regex(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\['((?:[^']|'')*)'\]|\.\*|\[\*\]")
_ATTRIBUTE: Final = regex(r"[a-z_][a-z0-9_]*")


def place_text(path: Iterable[str | int]) -> str:
    """Return the text of a key path behind the name of its attribute: ``.tls.key``, ``[0]``, ``['a.b']``."""
    return "".join(f".{step}" if type(step) is str and _PLAIN.fullmatch(step) else _bracketed(step) for step in path)


def _bracketed(step: str | int) -> str:
    return f"[{step}]" if type(step) is int else "['{}']".format(str(step).replace("'", "''"))


def attribute_of(text: str) -> str:
    """Return the attribute at the beginning of a key path's text."""
    return text.partition(".")[0].partition("[")[0]


def parse_place(text: str) -> tuple[str, KeyPath]:
    """Return attribute and key path of ``settings.tls.key``. Raises ``ValueError`` with a sentence for the user."""
    head = _ATTRIBUTE.match(text)
    path, end = list[str | int | None](), head.end() if head else 0
    while head and (step := _STEP.match(text, end)):
        key, index, quoted = step.groups()
        path.append(int(index) if index is not None else key if quoted is None else quoted.replace("''", "'"))
        end = step.end()
    if head is None or end < len(text):
        msg = f"'{text}' is no place in an attribute; write settings.tls.key, rules[0].port or labels['a.b']"
        raise ValueError(msg)
    return head[0], tuple(path)


def nearest_place(text: str) -> tuple[str, tuple[str | int, ...]]:
    """Return attribute and key path of ``rules[0].port``, up to a ``*`` or a mistake."""
    head = attribute_of(text)
    path, end = list[str | int](), len(head)
    while (step := _STEP.match(text, end)) and any(groups := step.groups()):
        key, index, quoted = groups
        path.append(int(index) if index is not None else key if quoted is None else quoted.replace("''", "'"))
        end = step.end()
    return head, tuple(path)


def with_present(should: Any, is_: Any, path: KeyPath) -> Any:
    """Return ``should`` with the value of ``is_`` at a path; without that key if a hash of ``is_`` lacks it."""
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        should, is_ = (side.reveal() if isinstance(side, Sensitive) else side for side in (should, is_))
        return Sensitive(with_present(should, is_, path))
    if not path:
        return is_
    step = path[0]
    if step is None:
        if len(path) == 1:
            return is_ if type(should) is type(is_) else should
        for member in _members(should, is_):
            should = with_present(should, is_, (member, *path[1:]))
        return should
    if type(should) is dict and type(is_) is dict:
        if step not in is_ or (step not in should and len(path) > 1):
            return {key: value for key, value in should.items() if key != step} if len(path) == 1 else should
        return {**should, step: with_present(should.get(step), is_[step], path[1:])}
    if type(should) is list and type(is_) is list and type(step) is int and step < min(len(should), len(is_)):
        return [*should[:step], with_present(should[step], is_[step], path[1:]), *should[step + 1 :]]
    return should


def at_place(is_: Any, should: Any, path: KeyPath) -> Iterator[tuple[Any, Any]]:
    """Yield the two values at each match of a path; None if one of them has no such part."""
    if not path:
        yield is_, should
        return
    is_, should = (side.reveal() if isinstance(side, Sensitive) else side for side in (is_, should))
    for step in _members(is_, should) if path[0] is None else path[:1]:
        yield from at_place(_member(is_, step), _member(should, step), path[1:])


def _members(*values: Any) -> list[str | int]:
    """Return the keys of hashes, or the indexes of arrays, that any of the values has."""
    keys = [key for value in values for key in (value if type(value) is dict else ())]
    longest = max((len(value) for value in values if type(value) is list), default=0)
    return [*dict.fromkeys(keys), *range(longest)]


def _member(value: Any, step: str | int | None) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    if type(value) is dict:
        return value.get(step)
    return value[step] if type(value) is list and type(step) is int and step < len(value) else None


def declared_part(is_: Any, should: Any) -> Any:
    """Return the members of a present value that ``should`` has, at any depth; None for a missing one.

    Elements of two arrays of one length belong together.
    """
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        is_, should = (side.reveal() if isinstance(side, Sensitive) else side for side in (is_, should))
        return Sensitive(declared_part(is_, should))
    if type(is_) is dict and type(should) is dict:
        return {key: declared_part(is_.get(key), value) for key, value in should.items()}
    if type(is_) is list and type(should) is list and len(is_) == len(should):
        return list(map(declared_part, is_, should))
    return is_
