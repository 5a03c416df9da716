"""The start of a worker, and an interrupt in the middle of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.masking import Mask
from resource_api.plugins.worker.process import ProgramWorker, PythonWorker, WorkerProcess
from resource_api.system.process import process

if TYPE_CHECKING:
    from collections.abc import Callable


def _ignore(_stream: int, _line: bytes) -> None:
    """Drop a line."""


def _descriptors() -> list[str]:
    """Return the names of the open descriptors of this process, that of the listing included."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(
    ("worker", "first"), [(PythonWorker, ["/nowhere"]), (ProgramWorker, "/bin/cat")], ids=["python", "program"]
)
def test_an_interrupt_while_a_worker_starts_is_raised_and_closes_its_descriptors(
    worker: type[WorkerProcess], first: object
) -> None:
    """It arrives between the fork and the registration, and was an error about a bad descriptor."""

    class Interrupted(worker):  # type: ignore[misc,valid-type] # a class of the parameters
        def _starter(self, *arguments: Any) -> Callable[..., object]:
            start = super()._starter(*arguments)
            return partial(self._start_interrupted, start)

        def _start_interrupted(self, start: Callable[..., object], *arguments: Any) -> object:
            child = start(*arguments)
            process.interrupt("in the middle")
            return child

    before = _descriptors()
    with pytest.raises(KeyboardInterrupt, match="in the middle"):
        Interrupted(first, _ignore, Mask())
    assert _descriptors() == before
