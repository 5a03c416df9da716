"""From the two states of one resource to what must be done with it; the same rules in plan and apply.

Pure. Order, references and what other resources do are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.nouns.change import Action, Difference, diff, exists
from resource_api.nouns.errors import reason
from resource_api.nouns.step import SAME, Decision
from resource_api.nouns.text import show
from resource_api.nouns.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.nouns.entry import Entry
    from resource_api.nouns.tools import Tools


class Incomparable(Exception):  # noqa: N818 - a finding
    """The provider's own comparison failed or gave nonsense."""


def decide(entry: Entry, is_: Mapping[str, Any] | None, should: Mapping[str, Any], tools: Tools) -> Decision:
    """Compare what is with what should be; ``is_`` None means that the resource does not exist."""
    if entry.meta.lifecycle.external:
        return Decision(Action.READ) if exists(is_) else Decision(Action.READ, error="does not exist, and is external")
    try:
        if not exists(is_):
            return _missing(entry, should)
        assert is_ is not None
        if not exists(should):
            return _deletion(entry, is_, should)
        return _existing(entry, is_, should, tools)
    except Incomparable as error:
        return Decision(Action.UPDATE, error=str(error))


def _missing(entry: Entry, should: Mapping[str, Any]) -> Decision:
    if not entry.definition.ensurable:
        return Decision(Action.UPDATE, error="does not exist; resources of this type can be configured, not created")
    if "ensure" not in should or not exists(should):
        return SAME
    return Decision(Action.CREATE, (Difference("ensure", "absent", should["ensure"]),))


def _deletion(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any]) -> Decision:
    change = (Difference("ensure", is_.get("ensure", "present"), should["ensure"]),)
    lifecycle = entry.meta.lifecycle
    if lifecycle.protect:
        return Decision(
            Action.DELETE, change, error="is protected and would be deleted; set lifecycle.protect to false"
        )
    if lifecycle.retain:
        return Decision(Action.FORGET, reasons=("retained",))
    return Decision(Action.DELETE, change)


def _existing(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: Tools) -> Decision:
    definition, lifecycle = entry.definition, entry.meta.lifecycle
    differences = [d for d in compare(entry, is_, should, tools) if d.attribute not in lifecycle.ignore_changes]
    if not differences:
        return SAME
    fixed = [d for d in differences if definition.attributes[d.attribute].kind == "init_only"]
    wanted = [d for d in differences if d.attribute in lifecycle.replace_on_changes]
    if not fixed and not wanted:
        return Decision(Action.UPDATE, differences)
    return _replacement(entry, differences, fixed, wanted)


def _replacement(
    entry: Entry, differences: Sequence[Difference], fixed: Sequence[Difference], wanted: Sequence[Difference]
) -> Decision:
    """Replace only what asks for it: an ``init_only`` change without ``lifecycle.replace`` is an error."""
    because = tuple(d.attribute for d in (*fixed, *wanted))
    lifecycle = entry.meta.lifecycle
    if lifecycle.replace not in {"delete_first", "create_first"} and (fixed or lifecycle.replace == "never"):
        changed = "; ".join(
            f"'{d.attribute}' can only be set at creation: it is {show(d.is_)} and should be {show(d.should)}"
            if d in fixed
            else f"a change of '{d.attribute}' replaces it, and lifecycle.replace is never"
            for d in (*fixed, *wanted)
        )
        return Decision(Action.UPDATE, differences, error=f"{changed}; lifecycle.replace allows a replacement")
    if lifecycle.protect:
        return Decision(
            Action.REPLACE, differences, error="is protected and would be replaced", replaces_because=because
        )
    return Decision(Action.REPLACE, differences, replaces_because=because)


def compare(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: Tools) -> list[Difference]:
    """Compare attribute by attribute, ``ensure`` first; the provider's own comparison decides where it wants to.

    Raises ``Incomparable`` when that comparison fails.
    """
    definition = entry.definition
    if tools.insync is None:
        return diff(definition, is_, should)
    plain = {d.attribute: d for d in diff(definition, is_, should)}
    found = []
    for attribute in definition.managed:
        if attribute not in should or attribute in definition.write_only:
            continue
        if should[attribute] is UNKNOWN:
            found.append(Difference(attribute, is_.get(attribute), UNKNOWN))
            continue
        verdict, message = _ask(entry, attribute, is_, should, tools)
        if verdict is None and attribute in plain:
            found.append(plain[attribute])
        elif verdict is False:
            found.append(Difference(attribute, is_.get(attribute), should[attribute], message))
    return found


def _ask(
    entry: Entry, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any], tools: Tools
) -> tuple[bool | None, str]:
    assert tools.insync is not None
    try:
        answer = tools.insync(entry.name, attribute, dict(is_), dict(should))
    except Exception as error:  # a foreign comparison may fail in any way
        msg = f"insync of '{attribute}' failed: {reason(error)}"
        raise Incomparable(msg) from error
    if answer is None or isinstance(answer, bool):
        return answer, ""
    if isinstance(answer, tuple) and len(answer) == 2 and answer[0] is False:  # noqa: PLR2004 - (False, message)
        return False, str(answer[1])
    msg = f"insync of '{attribute}' must return True, False, None or (False, message), not {show(answer)}"
    raise Incomparable(msg)
