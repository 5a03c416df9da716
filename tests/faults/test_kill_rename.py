"""SIGKILL while a stack is renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.state.sqlite.recovery import read_marker
from resource_api.state.sqlite.store import SqliteStore
from tests.faults import tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]


def test_a_killed_rename_leaves_one_stack_whose_loss_is_noticed(bench: Make) -> None:
    """Under the old name or the new one, with its records; the next rename or run works with it."""
    resources = {"Thing[@/t]": {"text": "thing"}}
    machine = bench("apply", resources, before=[resources])
    whole = machine.before.state

    def rename(point: Any = None) -> Any:
        machine.reset()
        words = ["stack", "rename", "default", "live"]
        watched = [str(machine.place)]
        return tracer.run(words, cwd=machine.home, env=machine.environment, watched=watched, point=point)

    machine.points = rename().points
    assert len(machine.points) >= 20
    names = set()
    for point in machine.sample(4):
        assert rename(point).returncode == -9, point
        store = SqliteStore(str(machine.state))
        store.check()
        (name,) = store.stacks()
        names.add(name.stack)
        assert store.load(name).records == whole.records, point
        declared = read_marker(str(machine.state))
        assert declared is not None
        assert list(declared.losses({})), point
        result = machine.again() if name.stack == "default" else rename_back(machine)
        assert result.returncode == 0, (point, result.stderr)
    assert names == {"default", "live"}


def rename_back(machine: Any) -> Any:
    """Give the stack its former name."""
    words = ["stack", "rename", "live", "default"]
    return tracer.run(words, cwd=machine.home, env=machine.environment, watched=[])
