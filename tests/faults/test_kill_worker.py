"""SIGKILL of a run and its workers at the mutating system calls of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.faults.test_kill import MINE, sweep, thirty

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]


def leaves(*numbers: int, **more: str) -> dict[str, dict[str, Any]]:
    """Return leaves, a text for each, and a service that reads one of them."""
    entries: dict[str, dict[str, Any]] = {
        f"Leaf[@/leaf{number}]": {"text": f"leaf {number}", "notify": "Daemon[@/daemon]"} for number in numbers
    }
    entries |= {f"Leaf[@/{name}]": {"text": text} for name, text in more.items()}
    return {**entries, "Daemon[@/daemon]": {"reads": [f"@/leaf{numbers[0]}"]}}


def test_a_run_with_workers_may_be_killed_at_any_system_call(bench: Make) -> None:
    """The worker of each provider is a process of its own, which does not outlive the run."""
    sweep(bench("apply", thirty("one"), foreign=MINE, options=["--isolate"]), 1, floor=300)


def test_a_run_with_a_provider_that_is_a_program_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Also in the middle of what the program writes."""
    after = leaves(1, 2, 3, changed="two")
    after["Leaf[@/deleted]"] = {"ensure": "absent"}
    machine = bench("apply", after, before=[leaves(1, changed="one", deleted="gone")])
    assert {point.call for point in machine.points if point.text.startswith("/world/leaf")} >= {"openat", "write"}
    sweep(machine, 1, floor=110)
