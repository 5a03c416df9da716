"""Places within nested values, ``settings.tls.key`` or ``rules[*].port``: their text, and what stands there.

The first word of such a text is an attribute; what an attribute is does not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    #: Keys of hashes and indexes of arrays, from the outside in; None is each member.
    KeyPath = tuple[str | int | None, ...]

_PLAIN: Final = regex(r"[A-Za-z0-9_-]+")
_STEP: Final = regex(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\['((?:[^']|'')*)'\]|\.\*|\[\*\]")
_ATTRIBUTE: Final = regex(r"[a-z_][a-z0-9_]*")


def place_text(path: Iterable[str | int]) -> str:
    """Return the text of a place behind the name of its attribute: ``.tls.key``, ``[0]``, ``['a.b']``."""
    return "".join(f".{step}" if type(step) is str and _PLAIN.fullmatch(step) else _bracketed(step) for step in path)


def _bracketed(step: str | int) -> str:
    return f"[{step}]" if type(step) is int else "['{}']".format(str(step).replace("'", "''"))


def attribute_of(text: str) -> str:
    """Return the attribute that the text of a place begins with."""
    return text.partition(".")[0].partition("[")[0]


def parse_place(text: str) -> tuple[str, KeyPath]:
    """Return attribute and place of ``settings.tls.key``. Raises ``ValueError`` with a sentence for the user."""
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
    """Return attribute and place of ``rules[0].port``, as far as it names one place: up to a ``*`` or what is wrong."""
    head = attribute_of(text)
    path, end = list[str | int](), len(head)
    while (step := _STEP.match(text, end)) and any(found := step.groups()):
        key, index, quoted = found
        path.append(int(index) if index is not None else key if quoted is None else quoted.replace("''", "'"))
        end = step.end()
    return head, tuple(path)


def with_present(should: Any, is_: Any, path: KeyPath) -> Any:
    """Return ``should`` with what stands at a place in ``is_``; without that place where a hash does not have it."""
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        should, is_ = (each.reveal() if isinstance(each, Sensitive) else each for each in (should, is_))
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
    """Yield the two values at each place that a path names; None where one of them has no such place."""
    if not path:
        yield is_, should
        return
    is_, should = (each.reveal() if isinstance(each, Sensitive) else each for each in (is_, should))
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
    """Return of a present value the members that ``should`` has, at any depth; None for one that is not there.

    Elements of two arrays of one length belong together.
    """
    if isinstance(should, Sensitive) or isinstance(is_, Sensitive):
        is_, should = (each.reveal() if isinstance(each, Sensitive) else each for each in (is_, should))
        return Sensitive(declared_part(is_, should))
    if type(is_) is dict and type(should) is dict:
        return {key: declared_part(is_.get(key), value) for key, value in should.items()}
    if type(is_) is list and type(should) is list and len(is_) == len(should):
        return list(map(declared_part, is_, should))
    return is_
