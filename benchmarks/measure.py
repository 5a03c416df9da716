"""Runs programs in turns and says what each cost: processor time of the whole process, and its memory at the peak."""

from __future__ import annotations

import os
import statistics
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What would make a start slower than it is for people, or send us to another state.
_FORGOTTEN = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPATH", "RESOURCE_API_STATE", "RESOURCE_API_STACK")


class Cost(NamedTuple):
    """What one process cost: seconds of the processor, user and system; the most memory it had, in MiB."""

    seconds: float
    memory: float


class Ratio(NamedTuple):
    """Two programs in pairs: medians of both in seconds, and the pairs' ratios: median, least, greatest."""

    floor: float
    ours: float
    ratio: float
    least: float
    greatest: float
    memory: float


def cost(command: Sequence[str], codes: Sequence[int] = (0,)) -> Cost:
    """Run a program to its end. Raises ``RuntimeError`` when it ends with another code than ``codes``."""
    environment = {name: value for name, value in os.environ.items() if name not in _FORGOTTEN}
    with subprocess.Popen(  # noqa: S603 - our own commands
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        msg = f"{' '.join(command)} ended with {process.returncode}"
        raise RuntimeError(msg)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def pairs(floor: Sequence[str], ours: Sequence[str], times: int, prepare: Callable[[], None] = lambda: None) -> Ratio:
    """Run two programs in turns, ``times`` each, ``prepare`` before every one of them."""
    found: list[tuple[Cost, Cost]] = []
    for _ in range(times):
        prepare()
        below = cost(floor)
        prepare()
        found.append((below, cost(ours)))
    ratios = [ours.seconds / floor.seconds for floor, ours in found]
    return Ratio(
        statistics.median(floor.seconds for floor, _ in found),
        statistics.median(ours.seconds for _, ours in found),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        max(ours.memory for _, ours in found),
    )
