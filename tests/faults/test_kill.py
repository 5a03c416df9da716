"""SIGKILL at the mutating system calls of a run: the next run needs no help, and nothing is lost or left over.

``FAULTS_ALL_POINTS=1`` sweeps every point; otherwise a sample, always in the same order, within a time limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.faults import invariants

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

MINE = {"etc/ours": "found here\n", "etc/near": "not ours\n", "etc/theirs": "theirs\n"}


def thirty(word: str) -> dict[str, dict[str, Any]]:
    """Return thirty resources of three types in seven segments, with relationships and one refresh."""
    entries: dict[str, dict[str, Any]] = {"File[@/etc]": {"ensure": "directory", "mode": "0750"}}
    entries["File[@/etc/ours]"] = {"content": "found here\n"}
    entries["File[@/etc/near]"] = {"content": f"near {word}\n"}
    entries["File[@/d]"] = {"ensure": "directory"}
    for number in range(6):
        entries[f"Thing[@/d/t{number}]"] = {"text": f"thing {number} {word}", "require": "File[@/d]"}
    entries["File[@/d/sum]"] = {"content": "${Thing[@/d/t5].text} ${File[@/etc/near].checksum}\n"}
    for number in range(5):
        entries[f"File[@/d/f{number}]"] = {"content": f"file {number} {word}\n", "mode": "0640"}
    entries["File[@/d/link]"] = {"ensure": "link", "target": "f0"}
    for number in range(6):
        entries[f"Thing[@/x{number}]"] = {"text": f"{word} {number}", "before": "File[@/conf]"}
    entries["File[@/conf]"] = {"content": f"conf {word}\n", "notify": "Daemon[@/daemon]"}
    entries["Daemon[@/daemon]"] = {"reads": ["@/conf"]}
    entries["Daemon[@/idle]"] = {}
    for number in range(4):
        entries[f"File[@/late{number}]"] = {"content": f"late {word} {number}\n", "require": "Daemon[@/daemon]"}
    return entries


def sweep(bench: Any, count: int, *, floor: int) -> None:
    """Kill the run at its points, or at ``count`` of them; too few points are an error of the sweep."""
    assert len(bench.points) >= floor
    for point in bench.sample(count):
        bench.kill(point)
        invariants.hold(bench, point)


def test_the_fixture_is_an_apply_of_thirty_resources() -> None:
    """The sweep covers them all."""
    assert len(thirty("one")) == 30


def test_a_first_apply_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Nothing was there before, not even state."""
    sweep(bench("apply", thirty("one"), foreign=MINE), 4, floor=340)


def test_a_parallel_apply_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Several calls are running then, and several resources in doubt."""
    sweep(bench("apply", thirty("one"), foreign=MINE, parallel=4), 4, floor=300)


def test_an_apply_that_changes_existing_resources_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Updates, creations, declared deletions, and a refresh of a running service."""
    after = thirty("another")
    for title in ("Thing[@/x1]", "File[@/late0]", "File[@/d/link]"):
        after[title] = {"ensure": "absent"}
    after["Thing[@/new]"] = {"text": "new"}
    sweep(bench("apply", after, before=[thirty("one")], foreign=MINE), 4, floor=250)


def test_a_destroy_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Resources of ours are deleted, adopted ones stay."""
    sweep(bench("destroy", thirty("one"), before=[thirty("one")], foreign=MINE), 4, floor=200)


def test_a_replacement_may_be_killed_at_any_system_call(bench: Make) -> None:
    """After the deletion the next run creates it, and it is ours as before."""

    def made(mode: str) -> dict[str, dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {"File[@/conf]": {"content": mode}}
        for number in range(3):
            entries[f"Thing[@/r{number}]"] = {
                "text": f"text {number}",
                "make": mode,
                "lifecycle": {"replace": "delete_first"},
                "notify": "Daemon[@/daemon]",
            }
        entries["Thing[@/found]"] = {"text": "there", "make": mode, "lifecycle": {"replace": "delete_first"}}
        entries["Daemon[@/daemon]"] = {"reads": ["@/conf", "@/r1"]}
        return entries

    first = made("0600")
    del first["Thing[@/found]"]
    foreign = {"found": "there"}
    sweep(bench("apply", made("0640"), before=[first], foreign=foreign), 4, floor=150)


def test_a_create_first_replacement_may_be_killed_at_any_system_call(bench: Make) -> None:
    """The old one is finally deleted, wherever the run was killed."""

    def moved(path: str) -> dict[str, dict[str, Any]]:
        return {
            "Thing[site]": {"path": f"@/{path}", "text": path, "lifecycle": {"replace": "create_first"}},
            "File[@/conf]": {"content": "${Thing[site].path}\n", "notify": "Daemon[@/daemon]"},
            "Daemon[@/daemon]": {"reads": ["@/conf"]},
        }

    sweep(bench("apply", moved("new"), before=[moved("old")], foreign=MINE), 4, floor=100)


def test_a_killed_imperative_resource_is_in_doubt(bench: Make) -> None:
    """``due`` decides whether it runs again: at most once more, and only if it was interrupted."""
    resources = {
        "Errand[@/one]": {"text": "one", "notify": "Daemon[@/daemon]"},
        "File[@/conf]": {"content": "conf"},
        "Errand[@/two]": {"text": "two"},
        "Daemon[@/daemon]": {"reads": ["@/one.done", "@/conf"]},
    }
    machine = bench("apply", resources, counted=("one", "two"))
    assert len(machine.points) >= 150
    for point in machine.sample(3):
        machine.kill(point)
        cut = machine.observe()
        invariants.hold(machine, point)
        for name in ("one", "two"):
            lines = (machine.world / name).read_text(encoding="utf-8").splitlines()
            assert len(lines) <= (2 if ("errand", str(machine.world / name)) in cut.state.intents else 1), point


def test_the_next_run_removes_files_that_a_kill_left_beside_the_database(bench: Make) -> None:
    """Also if everything had been written, and only a copy of it was being made."""
    machine = bench("apply", {"Thing[@/one]": {"text": "one"}})
    point = next(point for point in machine.points if point.call == "pwrite64" and point.text == "/state/state.db.0")
    machine.kill(point)
    machine.run_in_process("apply")
    assert not {name for name in machine.observe().kept if name.startswith("state.db.0")}
