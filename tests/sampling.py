"""How much is tried of a law that has many cases: a sample in ``make test``, the whole in ``make test-all``.

``make test`` tries each law that needs processes with one of its cases, and each provider with some laws of the kit.
Which ones follows from the commit: each commit tries another sample, and everybody who tests a commit tries the same.
The points of the fault sweeps are sampled by ``tests.faults``.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

# Without a database nothing is written for each example; what fails is printed to be repeated.
settings.register_profile("sample", deadline=None, max_examples=25, database=None, print_blob=True)
settings.register_profile("whole", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))

_ROOT: Final = Path(__file__).resolve().parent.parent
#: Directories whose laws need no process: all their cases are tried.
_IN_PROCESS: Final = ("tests/unit/", "tests/lifecycle/")
#: By their names: the kits must not be imported before pytest rewrites their assertions.
_KITS: Final = {"ProviderCompliance", "CarrierCompliance"}
#: Of so many laws of a kit, and of so many cases of workers, a sample has one.
_KIT_LAWS: Final = 6
_WORKER_CASES: Final = 24


def times(factor: float) -> int:
    """Return the number of examples of a property that needs ``factor`` times the usual number; at least 1."""
    return max(1, round(factor * settings.default.max_examples))


def seed() -> int:
    """Return the number that selects the sample: ``SAMPLE`` of the environment, or else one of the present commit."""
    if text := os.environ.get("SAMPLE"):
        return int(text)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout[:6] or "0", 16)


def sample(items: Sequence[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of a sample and those that it leaves out, both in their order."""
    laws: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    chosen: set[pytest.Item] = set()
    for item in items:
        if item.get_closest_marker("whole"):
            continue
        if (law := _law(item)) is None:
            chosen.add(item)
        else:
            laws[law].append(item)
    for law, cases in laws.items():
        chosen.update(_chosen(law, cases, seed))
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _law(item: pytest.Item) -> tuple[str, ...] | None:
    """Return the law of which a test is a case, or None for a test that every sample has."""
    if "[in_a_worker" in item.name:
        return ("in a worker", item.nodeid)
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    if any(base.__name__ in _KITS for base in bases) and item.function.__module__ != item.module.__name__:
        return ("kit", item.nodeid.rpartition("::")[0])
    if item.nodeid.startswith(_IN_PROCESS):
        return None
    return ("cases", item.nodeid.partition("[")[0])


def _chosen(law: tuple[str, ...], cases: Sequence[pytest.Item], seed: int) -> Sequence[pytest.Item]:
    """Return the cases of a law that the sample ``seed`` has."""
    turn = seed + crc32("".join(law).encode())
    if law[0] == "in a worker":
        return () if turn % _WORKER_CASES else cases
    if law[0] == "kit":
        return cases[turn % _KIT_LAWS :: _KIT_LAWS]
    return [cases[turn % len(cases)]]
