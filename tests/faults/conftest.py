"""Fixtures of the sweeps: memory to work in, and a function that builds the bench of a case."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests import command
from tests.faults.bench import WHOLE, Bench, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session", autouse=True)
def _preloaded() -> None:
    """Import the command once: each run is a fork."""
    command.preload()


@pytest.fixture
def memory() -> Iterator[Path]:
    """Yield a directory in memory: a sweep does not depend on a disk, and is faster without one."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture
def bench(memory: Path) -> Callable[..., Bench]:
    """Return a function that builds a bench of a command, the resources of its manifest and the fields of ``Case``."""
    return lambda command, resources, **more: Bench(memory, Case(command, resources, **more))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow whole sweeps more time."""
    for item in items:
        if WHOLE and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(3600))
