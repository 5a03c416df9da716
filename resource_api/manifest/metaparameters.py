"""Check the values of metaparameters, and the entries of ``purge``, whose conditions have the same form.

Each check yields all violations of a value, at their key paths. Types, attributes and the targets of references are the
catalog's part.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import conditions, syntax_hints
from resource_api.model.attribute import OPERATIONS
from resource_api.model.values import expression, reference
from resource_api.model.values.document import Violation, unknown_keys
from resource_api.model.values.errors import suggestion
from resource_api.model.values.start_up import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Path = tuple[str | int, ...]
    #: Yields the violations of the value at a key path.
    Check = Callable[[Path, Any], Iterator[Violation]]

LOGLEVELS: Final = ("debug", "info", "notice", "warning", "err")
REPLACEMENTS: Final = ("never", "delete_first", "create_first")

_PURGE_KEYS: Final = ("type", "at_most", "except", "where", "provider", "when")
_RETRY_KEYS: Final = ("tries", "delay")
_ONLY_THESE: Final = "only attributes, relationships, lifecycle, loglevel, noop, retry, tag and timeout can"
_AT_MOST: Final = "the number of resources that one run may delete"
_TAG: Final = regex(r"[a-z0-9_][a-z0-9_:.\-]*\Z")


def violations(name: str, value: object) -> Iterator[Violation]:
    """Yield the violations of a value of the metaparameter ``name``; their paths begin with the name."""
    return _METAPARAMETERS[name]((name,), value)


def purge_violations(path: Path, item: object) -> Iterator[Violation]:
    """Yield the violations of an entry of ``purge`` (contract §10.7) that show before its type is loaded."""
    if type(item) is not dict:
        yield Violation(path, "an item of purge must be a mapping", "as in {type: Cron, at_most: 10}")
        return
    yield from unknown_keys(path, item, _PURGE_KEYS, "purge")
    type_name, at_most = item.get("type"), item.get("at_most")
    if "type" not in item:
        yield Violation(path, "purge needs type, the name of a type", "as in {type: Cron, at_most: 10}")
    elif type(type_name) is not str or not reference.TYPE_NAME.match(reference.uncapitalize_type(type_name)):
        message = "type must be the name of a type, without [...]"
        yield Violation((*path, "type"), message, "as in {type: Cron, at_most: 10}")
    if "at_most" not in item:
        yield Violation(path, "purge needs at_most", _AT_MOST)
    elif type(at_most) is not int or at_most < 0:
        yield Violation((*path, "at_most"), "at_most must be a whole number, 0 or more", _AT_MOST)
    yield from _member_violations(path, item, _PURGE_CONDITIONS)


def _references(path: Path, value: object) -> Iterator[Violation]:
    """Check one reference or a list of them. They are not parsed: a title may still hold ``${...}``."""
    if type(value) is list:
        for number, item in enumerate(value):
            yield from _reference((*path, number), item)
    else:
        yield from _reference(path, value)


def _reference_list(path: Path, value: object) -> Iterator[Violation]:
    """Check a metaparameter that must be a list of references, even for a single reference."""
    if type(value) is list:
        yield from _references(path, value)
    else:
        yield Violation(path, f"{path[-1]} must be a list of references")


def _reference(path: Path, value: object) -> Iterator[Violation]:
    """Check that a value may be a reference, before expressions in it are evaluated.

    The hint is about missing quotes if YAML has probably misread a reference without them.
    """
    if type(value) is not str:
        message = f"{_name(path)} must be a reference such as Package[nginx]"
        yield Violation(path, message, syntax_hints.value_quoting_hint(value))
    elif not value:
        yield Violation(path, f"{_name(path)} is empty")
    elif syntax_hints.lacks_bracket(value):
        yield Violation(path, f"{_name(path)} is a reference without its ']'", syntax_hints.QUOTING)


def _name(path: Path) -> str:
    """Return the name of the value at ``path`` for messages: its key; for an item of a list, "each item of KEY"."""
    name = next(step for step in reversed(path) if isinstance(step, str))
    return f"each item of {name}" if isinstance(path[-1], int) else name


def _boolean(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not bool:
        yield Violation(path, f"{_name(path)} must be true or false")


def _string(path: Path, value: object) -> Iterator[Violation]:
    """Check a text that is not empty and has no expression: it is needed before expressions are evaluated."""
    if type(value) is not str or not value:
        hint = "write it in quotes" if type(value) in (int, float, bool) else ""
        yield Violation(path, f"{_name(path)} must be a string that is not empty", hint)
    elif "${" in value:
        yield Violation(path, f"{_name(path)} cannot hold ${{...}}", _ONLY_THESE)


def _strings(path: Path, value: object) -> Iterator[Violation]:
    """Check a list of texts, each as ``_string`` does. For a single text the hint is the list with it."""
    if type(value) is not list:
        item = "*" if value == "all" else value  # other tools write ``all`` for every name
        hint = f'write ["{item}"]' if type(value) is str else ""
        yield Violation(path, f"{_name(path)} must be a list of strings", hint)
        return
    for number, item in enumerate(value):
        yield from _string((*path, number), item)


def _string_or_list(path: Path, value: object) -> Iterator[Violation]:
    return (_strings if type(value) is list else _string)(path, value)


def _tag(path: Path, value: Any) -> Iterator[Violation]:
    """Check a tag, or each tag in a list; in lower case, as ``--tags`` selects it, only some characters are allowed."""
    if violations_of_text := list(_string_or_list(path, value)):
        yield from violations_of_text
        return
    items = {(*path, number): item for number, item in enumerate(value)} if type(value) is list else {path: value}
    for item_path, item in items.items():
        if not _TAG.match(item.lower()):
            message = "a tag consists of letters, digits and _ : . -, and begins with none of the last three"
            yield Violation(item_path, message)


def _one_of(words: tuple[str, ...]) -> Check:
    """Return the check of a value that must be one of ``words``; for any other text the hint is the nearest word."""

    def check(path: Path, value: object) -> Iterator[Violation]:
        if value not in words:
            hint = suggestion(value, words, "value") if type(value) is str else ""
            yield Violation(path, f"{_name(path)} must be one of {', '.join(words)}", hint)

    return check


def _seconds(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) not in (int, float) or not value >= 0:
        yield Violation(path, f"{_name(path)} must be a number of seconds, or 0 for no limit")


def _retry(path: Path, value: object) -> Iterator[Violation]:
    """Check ``retry: {tries: N, delay: SECONDS}`` (contract §10.8)."""
    if type(value) is not dict:
        yield Violation(path, "retry must be a mapping", "as in retry: {tries: 3, delay: 5}")
        return
    yield from unknown_keys(path, value, _RETRY_KEYS, "retry")
    tries, delay = value.get("tries"), value.get("delay")
    if tries is None:
        yield Violation(path, "retry needs tries, the number of all calls", "as in retry: {tries: 3, delay: 5}")
    elif type(tries) is not int or tries < 1:
        yield Violation((*path, "tries"), "tries must be a whole number from 1", _number_hint(tries))
    if delay is not None and (type(delay) not in (int, float) or not 0 <= delay < inf):
        yield Violation((*path, "delay"), "delay must be a number of seconds, 0 or more", _number_hint(delay))


def _number_hint(value: object) -> str:
    return "write it without quotes" if type(value) is str and value.strip().isdigit() else ""


def _timeout(path: Path, value: object) -> Iterator[Violation]:
    """Check ``timeout``: seconds for one change, or a mapping of operation → seconds."""
    if type(value) is not dict:
        yield from _seconds(path, value)
        return
    yield from unknown_keys(path, value, OPERATIONS, "timeout")
    yield from _member_violations(path, value, dict.fromkeys(OPERATIONS, _seconds))


def _lifecycle(path: Path, value: object) -> Iterator[Violation]:
    """Check ``lifecycle``: each option by its check in ``_LIFECYCLE``; report unknown options."""
    if type(value) is not dict:
        yield Violation(path, "lifecycle must be a mapping", "as in lifecycle: {protect: true}")
        return
    yield from unknown_keys(path, value, tuple(_LIFECYCLE), "lifecycle")
    yield from _member_violations(path, value, _LIFECYCLE)


def _member_violations(path: Path, mapping: Mapping[str, object], checks: Mapping[str, Check]) -> Iterator[Violation]:
    """Check the value under each key of ``checks`` by that key's check; null means not declared."""
    for key, check in checks.items():
        if mapping.get(key) is not None:
            yield from check((*path, key), mapping[key])


def _for_each(path: Path, value: object) -> Iterator[Violation]:
    """Check that ``for_each`` is a collection or one reference; its elements are checked when it is evaluated."""
    if type(value) in {dict, list} or expression.is_reference_at(value, ()):
        return
    message = "for_each must be a mapping, a list, or one reference to such a value"
    yield Violation(path, message, "write for_each: ${inputs.NAME}, or for_each: [a, b]")


def _when(path: Path, value: object) -> Iterator[Violation]:
    return conditions.violations(path, value)  # not in the table itself: most manifests need no parser of conditions


def _where(path: Path, value: object) -> Iterator[Violation]:
    """Check ``where`` of a purge: tests of attributes, written like those of conditions."""
    if type(value) is not dict:
        yield Violation(path, "where must be a mapping of attributes to tests", "as in where: {size: {lt: 10}}")
        return
    for name, test in value.items():
        yield from conditions.test_violations((*path, name), test)


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

_PURGE_CONDITIONS: Final[dict[str, Check]] = {"except": _strings, "where": _where, "provider": _string, "when": _when}

_METAPARAMETERS: Final[dict[str, Check]] = {
    "require": _references,
    "before": _references,
    "notify": _references,
    "subscribe": _references,
    "on_failure": _references,
    "noop": _boolean,
    "tag": _tag,
    "loglevel": _one_of(LOGLEVELS),
    "alias": _string_or_list,
    "provider": _string,
    "implementation": _string,
    "timeout": _timeout,
    "retry": _retry,
    "lifecycle": _lifecycle,
    "for_each": _for_each,
    "when": _when,
}
