"""Wait until conditions hold, attempt by attempt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lib import wait_conditions
from lib.imperative import ImperativeProvider
from lib.sensitive import refused_secrets
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Change, Context, Problem

#: Seconds between two looks at whether the run has been interrupted.
TICK = 0.2


class Provider(ImperativeProvider):
    """The waits of one run."""

    unlisted = "waits leave nothing behind that could be listed"

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a wait for nothing, and conditions that do not go together."""
        yield from wait_conditions.problems(should)
        yield from refused_secrets(should)

    def due(self, _context: Context, _name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:
        """Return whether a condition does not hold yet, and which."""
        unmet = wait_conditions.unmet(should)
        return (True, unmet) if unmet else False

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Wait for each condition until it holds, or the time is over: resources that depend on it come later."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Waiting"):
                _wait(context, should)
                context.updated(name, message="Holds now")


def _wait(context: Context, should: Mapping[str, Any]) -> None:
    """Wait until the condition holds. Raise ``ResourceError`` at the deadline or an interrupt."""
    began = time.monotonic()
    while unmet := wait_conditions.unmet(should, _attempt_seconds(context)):
        until = time.monotonic() + should["interval"]
        while (time_now := time.monotonic()) < until and not context.cancelled:
            if context.deadline is not None and time_now >= context.deadline:
                break
            time.sleep(min(TICK, until - time_now))
        if context.cancelled or (context.deadline is not None and time.monotonic() >= context.deadline):
            waited = f"{time.monotonic() - began:.1f} s"
            reason = f"interrupted after {waited}" if context.cancelled else f"its timeout has passed, after {waited}"
            raise ResourceError(f"{unmet} ({reason})")


def _attempt_seconds(context: Context) -> float:
    """Return the time limit of one attempt in seconds, so that no attempt outlasts the time limit of the resource."""
    if context.deadline is None:
        return wait_conditions.ATTEMPT
    return min(wait_conditions.ATTEMPT, max(0.1, context.deadline - time.monotonic()))
