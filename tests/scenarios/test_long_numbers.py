"""Numbers of more digits than Python converts: refused in the manifest, and no number in what a machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from resource_api import files
from tests import bundled

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

DIGITS: Final = "9" * 5000


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("File[{home}/x]: {{content: a, owner: '" + DIGITS + "'}}", "there is no user '999"),
        ("Cron[ra-test]: {{command: 'true', hour: '" + DIGITS + "'}}", "Cron[ra-test]: hour: '999"),
        ("User[ra-test]: {{subuids: ['" + DIGITS + ":1']}}", "subuids[0] must be"),
    ],
)
def test_a_number_that_is_too_long_is_refused_in_words(bench: Bench, resource: str, says: str) -> None:
    """Nobody has to know Python's limit to understand why."""
    bench.write("site.yaml", "resources:\n  " + resource.format(home=bench.home))
    result = bench.run("apply", "site.yaml")
    assert result.code in {1, 65}
    assert says in result.err
    assert "Exceeds the limit" not in result.err


def test_an_entry_with_a_long_number_is_read() -> None:
    """As one that has none."""
    entry = bundled.execute("providers", "mount").parse_line(f"/dev/a /mnt ext4 defaults {DIGITS} 1")
    assert entry["dump"] == 0
    assert files.owner_number(DIGITS) is None
    assert files.owner_number("4294967294") == 4294967294
    assert files.owner_number("4294967295") is None
