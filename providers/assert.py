"""Check conditions, and fail the assertions that do not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib import regular_expressions, wait_conditions
from lib.imperative import ImperativeProvider
from lib.sensitive import has_secret, refused_secrets, reveal
from resource_api import Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Change, Context

#: The attributes that compare a value.
COMPARISONS = ("equals", "one_of", "matches")


class Provider(ImperativeProvider):
    """The assertions of one run."""

    unlisted = "assertions leave nothing behind that could be listed"

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse an assertion of nothing, and comparisons without a value: each of them would always hold."""
        yield from wait_conditions.problems(should, ("value",))
        yield from refused_secrets(should, "value", *COMPARISONS, "message")
        comparisons = [name for name in COMPARISONS if should.get(name) is not None]
        if comparisons and "value" not in should:
            yield Problem(comparisons[0], f"'{comparisons[0]}' compares 'value', which is not declared")
        if "value" in should and not comparisons:
            yield Problem("value", f"value is compared with nothing; declare one of {', '.join(COMPARISONS)}")
        yield from regular_expressions.problems("matches", reveal(should.get("matches")))

    def due(self, _context: Context, _name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:
        """Return whether a condition does not hold, and which: then the assertion will fail."""
        unmet = _unmet(should)
        return (True, f"does not hold: {unmet}") if unmet else False

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Check each assertion, and fail those that do not hold: resources that depend on one are then skipped."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Checking"):
                if unmet := _unmet(should):
                    message = should.get("message")
                    msg = f"{message} ({unmet})" if message else unmet
                    raise ResourceError(msg)
                context.unchanged(name)


def _unmet(should: Mapping[str, Any]) -> str:
    """Return the reason why a condition does not hold, or an empty text."""
    return (_compare(should) if "value" in should else "") or wait_conditions.unmet(should)


def _compare(should: Mapping[str, Any]) -> str:
    """Return the reason, without secrets, why ``value`` fails ``equals``, ``one_of`` or ``matches``, or ""."""
    plain, choices = reveal(should), should.get("one_of")
    value = plain["value"]
    subject = "the value" if has_secret(should["value"]) else f"'{value}'"
    if "equals" in should and not _same(value, plain["equals"]):
        return f"{subject} is not '{should['equals']}'"
    if "one_of" in should and not any(_same(value, choice) for choice in plain["one_of"]):
        return f"{subject} is not one of {', '.join(map(str, choices)) if isinstance(choices, list) else choices}"
    if "matches" in should and not regular_expressions.find(plain["matches"], [str(value)]):
        return f"{subject} does not match '{should['matches']}'"
    return ""


def _same(value: Any, expected: Any) -> bool:
    """Return whether two values are the same, a number and a truth value never."""
    return type(value) is type(expected) and bool(value == expected)
