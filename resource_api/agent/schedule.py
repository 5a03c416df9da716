"""When an agent runs: pure, from two clocks, so that a thousand days of it are simulated in a second.

The time of a run within each period is a hash of machine and subject: many machines are spread evenly, and each keeps
its time. The clock of the wall may jump; how long ago the last run ended is measured by one that does not.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Final

from resource_api.model.values._namedtuple import NamedTuple

#: Seconds over which machines are spread that catch up after an outage of all of them.
CATCH_UP: Final = 300.0
#: Seconds that a run may be late without having been missed.
PROMPT: Final = 5.0
_WORD: Final = 8


class Now(NamedTuple):
    """One moment by two clocks, in seconds.

    ``wall``: since 1970; it jumps when it is set. ``boot``: since the machine was started, with the time that it was
    suspended; it never jumps.
    """

    wall: float
    boot: float


class Schedule(NamedTuple):
    """Runs at ``offset`` + n times ``period`` seconds since 1970, and ``delay`` seconds after one is missed."""

    period: float
    offset: float
    delay: float


class Wait(NamedTuple):
    """How many seconds to wait; ``catch_up`` is when a missed run is made up for by the boot clock, None without."""

    seconds: float
    catch_up: float | None = None


def schedule(machine: str, subject: str, period: float, splay: float | None = None) -> Schedule:
    """Return the schedule of a machine, which runs within ``splay`` seconds of the beginning of each period.

    ``splay`` of None is the whole period; ``subject`` distinguishes several agents of one machine.
    """
    digest = sha256(f"{machine}\0{subject}".encode()).digest()
    share, another = (int.from_bytes(digest[at : at + _WORD], "big") / (1 << 64) for at in (0, _WORD))
    spread = period if splay is None else min(splay, period)
    return Schedule(period, share * spread, another * min(spread, CATCH_UP))


def slot_after(times: Schedule, wall: float) -> float:
    """Return the first time of a run after ``wall``, also where rounding would make it the same."""
    number = math.floor((wall - times.offset) / times.period) + 1
    found = times.offset + number * times.period
    return found if found > wall else found + times.period


def next_run(times: Schedule, now: Now, ended: float | None, catch_up: float | None = None) -> Wait:
    """Return how long to wait for the next run; it is due when that is 0.

    ``ended``: when the last run ended, by the boot clock; None if that is not known. ``catch_up``: that of the answer
    before, unless a run was made since. While a run lasts, the times that pass are not missed: it delays the next.
    """
    if catch_up is None:
        if ended is not None:
            # When the last run ended, by the clock of the wall as it goes now.
            due = slot_after(times, now.wall - (now.boot - ended))
            if now.wall - due <= PROMPT:
                return Wait(max(due - now.wall, 0.0))
        catch_up = now.boot + min(times.delay, slot_after(times, now.wall) - now.wall)
    return Wait(max(catch_up - now.boot, 0.0), catch_up)
