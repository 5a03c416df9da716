"""The start of a worker, and an interrupt in the middle of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.masking import Mask
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker import proxy
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


def test_a_program_that_never_answers_ends_the_load_and_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads ``hello`` and is silent: the run would wait for ever."""
    monkeypatch.setattr(proxy, "READY_TIMEOUT", 0.2)
    (tmp_path / "types").mkdir()
    (tmp_path / "types/thing.json").write_text(
        '{"name": "thing", "docs": "t", "attributes": {"name": {"type": "String", "docs": "n", "kind": "namevar"}}}'
    )
    program = tmp_path / "providers/thing"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nread -r hello\nexec sleep 600\n")
    program.chmod(0o755)
    registry = Registry(ModulePath([str(tmp_path)], distributions=False))
    with pytest.raises(ManifestError, match=r"the worker of 'thing' did not answer within 0\.2 s while it loaded"):
        Runtime(registry).plan({"resources": {"Thing[a]": {}}})
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
