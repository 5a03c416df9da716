"""Checks the values of metaparameters, the same for every type, and of other fixed structures.

Each check yields violations with their paths inside the value. Positions in files and the targets of references do not
enter. No message repeats a value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import quoting_hints
from resource_api.model.attribute import OPERATIONS, RELATIONSHIPS
from resource_api.model.values import document
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Check = Callable[["Path", Any], Iterator["Violation"]]

Path = tuple[str | int, ...]

LOGLEVELS: Final = ("debug", "info", "notice", "warning", "err")
REPLACEMENTS: Final = ("never", "delete_first", "create_first")

_TAG: Final = regex(r"[a-z0-9_][a-z0-9_:.\-]*\Z")
_CUT_REFERENCE: Final = regex(r"[A-Za-z]\w*\[(?!.*\]\Z)", re.DOTALL)


class Violation(NamedTuple):
    """What is wrong, and the path of keys to it."""

    path: Path
    message: str
    hint: str = ""


def document_violation(data: Any) -> Violation | None:
    """Return why a document cannot be a manifest; None when it can."""
    if type(data) is not dict:
        return Violation((), "a manifest is a mapping", "begin with a line such as resources:")
    if "format_version" in data:
        hint = "apply carries it out, given the name of its file"
        return Violation(("format_version",), "this is a saved plan, not a manifest", hint)
    return None


def violations(name: str, value: Any) -> Iterator[Violation]:
    """Yield everything that is wrong with the value of the metaparameter ``name``."""
    return _METAPARAMETERS[name]((name,), value)


def is_valid_reference(name: str, value: Any) -> bool:
    """Whether a value is certainly valid: one reference in a relationship, the most frequent metaparameter."""
    return type(value) is str and value[-1:] == "]" and name in RELATIONSHIPS


def unknown_keys(path: Path, mapping: dict[str, Any], known: tuple[str, ...], place: str) -> Iterator[Violation]:
    """Yield a violation for each key that is not ``known``, with the nearest known one; ``place`` as in ``suggest``."""
    for key, value in mapping.items():
        if key not in known:
            hint = nearest(key, known, place) or module_hint(value) or f"known are {', '.join(known)}"
            yield Violation((*path, key), f"unknown key {document.quote_key(key)}", hint)


def module_hint(body: Any) -> str:
    """Return the hint for a body whose key is a module of Salt, as ``pkg.installed``; empty for others."""
    return next(filter(None, (nearest(str(key), (), "module") for key in body)), "") if type(body) is dict else ""


def lacks_bracket(value: Any) -> bool:
    """Whether a value is a reference without its end, as YAML reads one with `` #`` in its title."""
    return type(value) is str and _CUT_REFERENCE.match(value) is not None


def quoting_hint(value: Any) -> str:
    """Return the hint for a reference without quotes that YAML has read as a mapping, or as a list in a list."""
    if type(value) is dict and len(value) == 1:
        key, rest = next(iter(value.items()))
        return quoting_hints.hint(key if rest is None else f"{key}: {rest}")
    return quoting_hints.QUOTING if type(value) is list else ""


def _references(path: Path, value: Any) -> Iterator[Violation]:
    """Check one reference or a list of them. They are not parsed: a title may still hold ``${...}``."""
    if type(value) is list:
        for number, item in enumerate(value):
            yield from _reference((*path, number), item)
    else:
        yield from _reference(path, value)


def _reference_list(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is list:
        yield from _references(path, value)
    else:
        yield Violation(path, f"{path[-1]} must be a list of references")


def _reference(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not str:
        yield Violation(path, f"{_name(path)} must be a reference such as Package[nginx]", quoting_hint(value))
    elif not value:
        yield Violation(path, f"{_name(path)} is empty")
    elif lacks_bracket(value):
        yield Violation(path, f"{_name(path)} is a reference without its ']'", quoting_hints.QUOTING)


def _name(path: Path) -> str:
    """Return the name of a value for messages: its last key; for an item, that of its list."""
    name = next(step for step in reversed(path) if isinstance(step, str))
    return f"each item of {name}" if isinstance(path[-1], int) else name


def _boolean(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not bool:
        yield Violation(path, f"{_name(path)} must be true or false")


def _string(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not str or not value:
        hint = "write it in quotes" if type(value) in (int, float, bool) else ""
        yield Violation(path, f"{_name(path)} must be a string that is not empty", hint)
    elif "${" in value:
        yield Violation(path, f"{_name(path)} cannot hold ${{...}}", "only attributes and relationships can")


def _strings(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not list:
        yield Violation(path, f"{_name(path)} must be a list of strings")
        return
    for number, item in enumerate(value):
        yield from _string((*path, number), item)


def _string_or_list(path: Path, value: Any) -> Iterator[Violation]:
    return (_strings if type(value) is list else _string)(path, value)


def _tag(path: Path, value: Any) -> Iterator[Violation]:
    wrong = list(_string_or_list(path, value))
    yield from wrong
    for number, item in enumerate([] if wrong else value if type(value) is list else [value]):
        if not _TAG.match(item.lower()):
            message = "a tag consists of letters, digits and _ : . -, and begins with none of the last three"
            yield Violation((*path, number) if type(value) is list else path, message)


def _one_of(words: tuple[str, ...]) -> Check:
    def check(path: Path, value: Any) -> Iterator[Violation]:
        if value not in words:
            hint = nearest(value, words, "value") if type(value) is str else ""
            yield Violation(path, f"{_name(path)} must be one of {', '.join(words)}", hint)

    return check


def _seconds(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) not in (int, float) or not value >= 0:
        yield Violation(path, f"{_name(path)} must be a number of seconds, or 0 for no limit")


def _timeout(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not dict:
        yield from _seconds(path, value)
        return
    yield from unknown_keys(path, value, OPERATIONS, "timeout")
    for name in OPERATIONS:
        if value.get(name) is not None:
            yield from _seconds((*path, name), value[name])


def _lifecycle(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) is not dict:
        yield Violation(path, "lifecycle must be a mapping", "as in lifecycle: {protect: true}")
        return
    yield from unknown_keys(path, value, tuple(_LIFECYCLE), "lifecycle")
    for name, check in _LIFECYCLE.items():
        if value.get(name) is not None:
            yield from check((*path, name), value[name])


_LIFECYCLE: Final[dict[str, Check]] = {
    "protect": _boolean,
    "retain": _boolean,
    "owned": _boolean,
    "ignore_changes": _strings,
    "replace": _one_of(REPLACEMENTS),
    "replace_on_changes": _strings,
    "replace_triggered_by": _reference_list,
    "deleted_with": _reference,
    "aliases": _strings,
    "import": _string,
    "external": _boolean,
}

_METAPARAMETERS: Final[dict[str, Check]] = {
    "require": _references,
    "before": _references,
    "notify": _references,
    "subscribe": _references,
    "noop": _boolean,
    "tag": _tag,
    "loglevel": _one_of(LOGLEVELS),
    "alias": _string_or_list,
    "provider": _string,
    "implementation": _string,
    "timeout": _timeout,
    "lifecycle": _lifecycle,
}
