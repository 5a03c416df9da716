"""Faults of authors, put into the examples: each is reported as ``docs/internals/faults.md`` says, by the named law.

With ``SEEDED_FAULTS=write`` in the environment the page is written anew, from what is found; read each message then.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.testing import seeded_faults
from tests.unit.testing.seeded_faults import FAULTS, LOADING, PAGE, TOLERATED, Fault, Systems, report

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITE: Final = os.environ.get("SEEDED_FAULTS") == "write"
#: What a user of the terminal sees at once.
LINES, CHARACTERS = 30, 4000
ROWS: Final = dict(seeded_faults.rows(PAGE.read_text(encoding="utf-8"))) if PAGE.exists() else {}
CAUGHT: Final = [fault for fault in FAULTS if fault.what not in TOLERATED]
#: The laws of each example that are to pass without a fault.
NAMED: Final = sorted(
    {(fault.file.partition("/")[0], ROWS[fault.what][0]) for fault in CAUGHT if fault.what in ROWS} - {("", "")}
)


@pytest.fixture(scope="module")
def systems() -> Iterator[Systems]:
    """Provide the systems that the examples manage."""
    result = Systems()
    yield result
    result.stop()


@pytest.mark.parametrize("fault", CAUGHT, ids=lambda fault: re.sub(r"\W+", "-", fault.what).strip("-"))
def test_a_fault_is_reported(fault: Fault, systems: Systems, capfd: pytest.CaptureFixture[str]) -> None:
    """The law that the page names fails with the message that the page shows, which fits on a screen."""
    example = fault.file.partition("/")[0]
    law, message = ROWS[fault.what]
    result = report(fault, law, systems.config(example), capfd)
    assert stable(law, result) == stable(law, message), result
    assert len(result.splitlines()) <= LINES
    assert len(result) <= CHARACTERS


@pytest.mark.parametrize(("example", "law"), NAMED)
def test_the_examples_have_no_fault(
    example: str, law: str, systems: Systems, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a fault the same law reports nothing, so the fault alone is reported."""
    assert not report(None, law, systems.config(example), capfd, example)


def test_the_page_lists_every_fault() -> None:
    """The page has each fault, in the order of the table, and the reason for each that is tolerated."""
    text = PAGE.read_text(encoding="utf-8")
    assert [subject for subject, _ in seeded_faults.rows(text)] == [fault.what for fault in CAUGHT]
    assert all(f"| {name} | {reason} |" in text for name, reason in TOLERATED.items())
    assert len(CAUGHT) >= 55


def stable(law: str, message: Any) -> str:
    """Return the part of a message that is the same in every run: its beginning, without numbers and names."""
    text = re.sub(r"\w+\[[^\]]*\]", "REFERENCE", seeded_faults.shown(message))
    # Which call loses depends on the order of threads.
    return re.sub(r"\d+", "", text)[: 39 if "side_by_side" in law else 100].rstrip()


if WRITE:

    @pytest.mark.timeout(1200)
    def test_write_the_page(systems: Systems, capfd: pytest.CaptureFixture[str]) -> None:
        """For each fault the first law that fails, in the order in which an author sees them, is written."""
        entries: dict[str, tuple[str, str]] = {}
        for fault in CAUGHT:
            for law in (LOADING, *seeded_faults.laws()):
                if message := report(fault, law, systems.config(fault.file.partition("/")[0]), capfd):
                    entries[fault.what] = law, message
                    break
        PAGE.write_text(seeded_faults.page(entries), encoding="utf-8")
        assert entries.keys() == {fault.what for fault in CAUGHT}
