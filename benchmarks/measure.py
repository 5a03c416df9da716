"""Run programs alternately and measure each: processor time of the whole process, and its peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Environment variables that slow down a start, or select another state.
_REMOVED = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPATH", "RESOURCE_API_STATE", "RESOURCE_API_STACK")
#: Starts a program and prints its cost.
LAUNCH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")))


class Cost(NamedTuple):
    """The cost of one process: processor time, user and system, in seconds; peak memory in MiB; elapsed seconds."""

    seconds: float
    memory: float
    elapsed: float


class Ratio(NamedTuple):
    """Two programs in pairs: medians of both in seconds; median, least and greatest ratio; memory of ours in MiB."""

    floor: float
    ours: float
    ratio: float
    least: float
    greatest: float
    memory: float


class Command(NamedTuple):
    """A program, additional environment variables, and its valid exit codes."""

    words: Sequence[str]
    environment: Mapping[str, str] = {}
    codes: Sequence[int] = (0,)


def cost(command: Command | Sequence[str]) -> Cost:
    """Run a program to its end and return its cost. Raise ``RuntimeError`` if its exit code is not valid."""
    command = command if isinstance(command, Command) else Command(command)
    environment = {name: value for name, value in os.environ.items() if name not in _REMOVED}
    output = subprocess.run(  # noqa: S603 - our own commands
        [*LAUNCH, *command.words], env={**environment, **command.environment}, stdout=subprocess.PIPE, check=True
    ).stdout
    code, seconds, memory, elapsed = output.split()
    if int(code) not in command.codes:
        raise RuntimeError(f"{' '.join(command.words)} ended with {int(code)}")
    return Cost(float(seconds), int(memory) / 1024, float(elapsed))


def pairs(
    floor: Command | Sequence[str],
    ours: Command | Sequence[str],
    times: int,
    prepare: Callable[[], None] = lambda: None,
    of: Callable[[Cost], float] = attrgetter("seconds"),
) -> Ratio:
    """Run two programs alternately, ``times`` each, ``prepare`` before each run; ``of`` selects the compared cost."""
    pairs: list[tuple[Cost, Cost]] = []
    for _ in range(times):
        prepare()
        below = cost(floor)
        prepare()
        pairs.append((below, cost(ours)))
    return ratio(pairs, of)


def ratio(costs: Sequence[tuple[Cost, Cost]], of: Callable[[Cost], float] = attrgetter("seconds")) -> Ratio:
    """Return what pairs of costs, of a floor and of ours, say."""
    ratios = [of(ours) / of(floor) for floor, ours in costs]
    return Ratio(
        statistics.median(of(floor) for floor, _ in costs),
        statistics.median(of(ours) for _, ours in costs),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        statistics.median(ours.memory for _, ours in costs),
    )
