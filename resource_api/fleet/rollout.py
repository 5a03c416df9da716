"""How a run goes over many hosts: who is next, or why it stops. Pure: counts in, a decision out."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARE: Final = re.compile(r"([0-9]{1,9})(%?)")
_WHOLE: Final = 100


class Share(NamedTuple):
    """A number of hosts, or a share of all of them in percent."""

    number: int
    percent: bool = False

    def of(self, total: int) -> int:
        """Return how many of ``total`` hosts it is, rounded down."""
        return total * self.number // _WHOLE if self.percent else self.number

    def __str__(self) -> str:
        """Return ``3`` or ``10%``."""
        return f"{self.number}{'%' if self.percent else ''}"


class Rollout(NamedTuple):
    """What was decided before the first host: the hosts are numbered from 0 and started in this order."""

    total: int
    #: How many hosts there are up to the end of each batch.
    ends: Sequence[int]
    at_once: int
    #: The run stops when more hosts than that have failed; None: it never does.
    bound: int | None


class Progress(NamedTuple):
    """What has happened so far."""

    #: Hosts that were started, those of them that have ended, and those of them that have failed.
    started: int = 0
    ended: int = 0
    failed: int = 0
    #: Batches after which the next one was allowed: the first needs no permission.
    allowed: int = 1
    #: Why no further host is to be started, as was decided elsewhere; empty: there is no reason.
    halted: str = ""


class Decision(NamedTuple):
    """What is to be done now."""

    #: So many further hosts are started.
    start: int = 0
    #: The number of the batch, from 1, that has just ended and after which the next one needs a permission; 0: none.
    ask: int = 0
    #: Why no further host is started; empty: nothing stands against it.
    stop: str = ""
    #: Whether nothing is left to do or to wait for.
    done: bool = False


def share(text: str) -> Share:
    """Return what ``3`` or ``10%`` means. Raise ``ValueError``."""
    found = _SHARE.fullmatch(text.strip())
    if found is None or (found[2] and int(found[1]) > _WHOLE):
        msg = f"'{text}' is neither a number of hosts nor a share of them from 0% to 100%"
        raise ValueError(msg)
    return Share(int(found[1]), percent=bool(found[2]))


def batches(text: str) -> list[Share]:
    """Return the sizes of batches, as ``1,10%,100%`` gives them. Raise ``ValueError``."""
    found = [share(each) for each in text.split(",")]
    if not all(each.number for each in found):
        msg = f"'{text}': a batch has at least one host"
        raise ValueError(msg)
    return found


def sizes(total: int, given: Sequence[Share]) -> list[int]:
    """Return the sizes of the batches of ``total`` hosts: as given, the last one repeated; none is empty."""
    found, left = list[int](), total
    while left:
        wanted = given[min(len(found), len(given) - 1)].of(total)
        found.append(min(max(wanted, 1), left))
        left -= found[-1]
    return found


def rollout(total: int, at_once: int, given: Sequence[Share] | None, stop_after: Share | None) -> Rollout:
    """Return what the options mean for so many hosts.

    With batches the first failure stops the run unless ``stop_after`` allows more; without them nothing does.
    """
    bound = stop_after.of(total) if stop_after is not None else None if given is None else 0
    ends = list(accumulate(sizes(total, given or (Share(_WHOLE, percent=True),))))
    return Rollout(total, ends, at_once, bound)


def decide(plan: Rollout, progress: Progress) -> Decision:
    """Return what is to be done next.

    The hosts of a batch are started when all of the one before have ended, never more than ``at_once`` side by side.
    After a stop, what runs is waited for.
    """
    running = progress.started - progress.ended
    if reason := _stopped(plan, progress):
        return Decision(stop=reason, done=not running)
    if progress.ended == plan.total:
        return Decision(done=True)
    limit = plan.ends[progress.allowed - 1]
    if progress.ended == limit:
        return Decision(ask=progress.allowed)
    return Decision(start=min(limit - progress.started, plan.at_once - running))


def _stopped(plan: Rollout, progress: Progress) -> str:
    if progress.started == plan.total:
        return ""
    if plan.bound is not None and progress.failed > plan.bound:
        count = progress.failed
        return f"{count} {'host has' if count == 1 else 'hosts have'} failed, and {_allowance(plan.bound)}"
    return progress.halted


def _allowance(bound: int) -> str:
    return "none may" if bound == 0 else f"{bound} may"


def batch_of(plan: Rollout, number: int) -> int:
    """Return the number, from 1, of the batch that a host is in."""
    return bisect_right(plan.ends, number) + 1
