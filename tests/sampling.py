"""The sample of the tests that ``make test`` runs; ``make test-all`` runs all of them.

A law that needs processes is tried with one of its cases, a provider with one in nine laws of the kit, and a file that
takes much processor time with one in ``TURNS`` of its laws. The commit selects the sample: consecutive commits try
different samples, and two runs of one commit try the same. ``tests.faults`` samples the points of the fault sweeps.
``python -m tests.tiers`` writes the page that lists the tier of each law.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

# Without a database nothing is written for each example; what fails is printed to be repeated. Two runs of one commit
# try the same examples, and ``make test-all`` tries other ones each time.
_REPEATED: Final[dict[str, Any]] = {"deadline": None, "database": None, "print_blob": True, "derandomize": True}
settings.register_profile("quick", **_REPEATED, max_examples=10)
settings.register_profile("sample", **_REPEATED, max_examples=15)
settings.register_profile("whole", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))

_ROOT: Final = Path(__file__).resolve().parent.parent
#: Directories whose laws need no process: all their cases are tried.
IN_PROCESS: Final = ("tests/unit/", "tests/lifecycle/")
#: By their names: the kits must not be imported before pytest rewrites their assertions.
_KITS: Final = {"ProviderCompliance", "CarrierCompliance"}
#: One in how many laws of a kit, and of the laws that are tried in a worker too, a sample has.
_KIT_LAWS: Final = 9
_WORKER_CASES: Final = 24
#: One in how many laws of a directory or file a sample has, by processor time (``python -m tests.cost``); the row of
#: the longest path counts. In ``tests/unit`` and ``tests/lifecycle`` each case is a law here.
TURNS: Final = {
    "tests/faults/": 2,
    "tests/hostile/": 2,
    "tests/scenarios/": 2,
    "tests/providers/": 3,
    "tests/fleet/": 4,
    "tests/terraform/": 4,
    "examples/postgresql/tests/test_postgresql_role.py": 3,
    "examples/protocol/tests/test_programs.py": 3,
    "tests/faults/test_kill.py": 3,
    "tests/hostile/test_canary.py": 3,
    "tests/hostile/test_code_trust.py": 3,
    "tests/hostile/test_signals.py": 3,
    "tests/hostile/test_surroundings.py": 3,
    "tests/lifecycle/test_scenarios_command.py": 3,
    "tests/lifecycle/test_scenarios_kills.py": 3,
    "tests/scenarios/test_cli.py": 3,
    "tests/scenarios/test_completion.py": 3,
    "tests/scenarios/test_configured_providers.py": 3,
    "tests/scenarios/test_functions.py": 3,
    "tests/scenarios/test_implementations.py": 3,
    "tests/scenarios/test_log_fields.py": 3,
    "tests/scenarios/test_logging.py": 3,
    "tests/scenarios/test_pages.py": 3,
    "tests/scenarios/test_remote_resources.py": 3,
    "tests/scenarios/test_resource_list.py": 3,
    "tests/scenarios/test_secret_commands.py": 3,
    "tests/unit/runtime/test_options.py": 3,
    "tests/unit/state/test_keys.py": 3,
    "tests/unit/state/test_postgresql_store.py": 3,
    "tests/unit/state/test_sqlite_store.py": 3,
    "tests/unit/system/test_archive_members.py": 3,
    "tests/unit/system/test_files.py": 3,
    "tests/unit/system/test_mounts.py": 3,
    "tests/hostile/test_executed_code.py": 4,
    "tests/hostile/test_no_endless_work.py": 4,
    "tests/hostile/test_workers.py": 4,
    "tests/providers/test_first_apply.py": 4,
    "tests/providers/test_nft_ruleset.py": 4,
    "tests/providers/test_package.py": 4,
    "tests/providers/test_package_rpm.py": 4,
    "tests/providers/test_postgresql_role.py": 4,
    "tests/providers/test_systemd_unit.py": 4,
    "tests/providers/test_user.py": 4,
    "tests/providers/test_user_service.py": 4,
    "tests/scenarios/test_agent.py": 4,
    "tests/scenarios/test_contents.py": 4,
    "tests/scenarios/test_preflight.py": 4,
    "tests/scenarios/test_rehearse.py": 4,
    "tests/scenarios/test_team_state.py": 4,
    "tests/unit/cache/test_incremental_plan.py": 4,
    "tests/unit/state/test_postgresql_faults.py": 4,
    "tests/unit/state/test_state_faults.py": 4,
    "tests/fleet/test_archives.py": 5,
    "tests/providers/test_git_checkout.py": 5,
    "tests/unit/cli/test_scaffold.py": 5,
    "tests/unit/system/test_process.py": 5,
    "tests/unit/testing/test_seeded_faults.py": 5,
    "tests/fleet/test_hosted_commands.py": 6,
    "tests/providers/test_debian.py": 6,
    "tests/providers/test_python_package.py": 6,
    "tests/providers/test_service.py": 6,
    "tests/unit/testing/test_compliance.py": 6,
    "examples/webserver/tests/test_webserver.py": 8,
    "examples/workstation/tests/test_workstation.py": 8,
}


def times(factor: float) -> int:
    """Return the number of examples of a property that needs ``factor`` times the usual number; at least 1."""
    return max(1, round(factor * settings.default.max_examples))


def seed() -> int:
    """Return the number that selects the sample: ``SAMPLE`` of the environment, or one of the commit; 0 without git."""
    if text := os.environ.get("SAMPLE"):
        return int(text)
    if shutil.which("git") is None:
        return 0
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(revision.stdout[:6] or "0", 16)


def turns(nodeid: str) -> int:
    """Return in how many samples one has a law: 1 where each sample has it."""
    paths = [path for path in TURNS if nodeid.startswith(path)]
    return TURNS[max(paths, key=len)] if paths else 1


def sample(
    items: Sequence[pytest.Item], seed: int, *, quick: bool = False
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of a sample and those that it leaves out, both in their order.

    A quick one has one case of each law, also of those that need no process.
    """
    laws: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("whole"):
            laws[_law(item, quick=quick)].append(item)
    turn: Counter[str] = Counter()
    chosen: set[pytest.Item] = set()
    for law, cases in laws.items():
        chosen.update(_chosen(law, cases, seed, turn))
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _law(item: pytest.Item, *, quick: bool) -> tuple[str, ...]:
    """Return the law of which a test is a case, after its kind."""
    if "[in_a_worker" in item.name:
        return ("in a worker", item.nodeid)
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    if any(base.__name__ in _KITS for base in bases) and item.function.__module__ != item.module.__name__:
        return ("kit", item.nodeid.rpartition("::")[0])
    each_case = item.nodeid.startswith(IN_PROCESS) and not quick
    return ("cases", item.nodeid if each_case else item.nodeid.partition("[")[0])


def _chosen(law: tuple[str, ...], cases: Sequence[pytest.Item], seed: int, turn: Counter[str]) -> Sequence[pytest.Item]:
    """Return the cases of a law that the sample ``seed`` has; ``turn`` counts the laws of each file."""
    kind, name = law
    number = seed + crc32("".join(law).encode())
    if kind == "in a worker":
        return () if number % _WORKER_CASES else cases
    if kind == "kit":
        return cases[number % _KIT_LAWS :: _KIT_LAWS]
    file = name.partition("::")[0]
    turn[file] += 1
    if (seed + crc32(file.encode()) + turn[file]) % turns(name):
        return ()
    return [cases[number % len(cases)]]
