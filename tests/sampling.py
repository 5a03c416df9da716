"""How much is tried of what can be tried many times: a sample by ``make test``, less by ``make quick``.

The points of the fault sweeps are sampled by ``tests.faults``.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

_EXAMPLES: Final = {"quick": 25, "sample": 40, "whole": 200}
for _name, _examples in _EXAMPLES.items():
    settings.register_profile(_name, deadline=None, max_examples=_examples)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))

_ROOT: Final = Path(__file__).resolve().parent.parent
#: Of these files a sample has a third of the laws that hold for every type, which here start programs, ask servers or
#: change databases, and a third of what is tried once more in a worker.
_SAMPLED: Final = {
    _ROOT / name
    for name in """
        examples/postgresql/tests/test_postgresql_role.py examples/protocol/tests/test_programs.py
        tests/providers/test_alternatives.py tests/providers/test_apt_key.py tests/providers/test_cron.py
        tests/providers/test_git_checkout.py tests/providers/test_group.py tests/providers/test_http_resource.py
        tests/providers/test_known_host.py tests/providers/test_user.py
        tests/providers/test_locale.py tests/providers/test_mysql_database.py tests/providers/test_mysql_grant.py
        tests/providers/test_mysql_user.py tests/providers/test_nft_ruleset.py tests/providers/test_package.py
        tests/providers/test_postgresql_database.py tests/providers/test_postgresql_grant.py
        tests/providers/test_postgresql_role.py tests/providers/test_python_package.py
        tests/providers/test_python_venv.py tests/scenarios/test_configured_providers.py
    """.split()  # noqa: SIM905 - shorter
}


def times(factor: float) -> int:
    """Return how many examples a property gets that needs ``factor`` times as many as others; at least 1."""
    return max(1, round(factor * settings.default.max_examples))


def sample(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that a sample has and those that it leaves out; each file begins with another law."""
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    seen: Counter[Path] = Counter()
    for item in items:
        if item.path in _SAMPLED and _is_repeated(item):
            turn = seen[item.path] + crc32(item.path.name.encode())
            seen[item.path] += 1
            (left_out if turn % 3 else chosen).append(item)
        else:
            chosen.append(item)
    return chosen, left_out


def _is_repeated(item: pytest.Item) -> bool:
    """Return whether a test is a law that other types are tested for as well, or is done a second time in a worker."""
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    # By its name: the kit must not be imported before pytest rewrites its assertions.
    return "[in_a_worker" in item.name or any(each.__name__ == "ProviderCompliance" for each in bases)
