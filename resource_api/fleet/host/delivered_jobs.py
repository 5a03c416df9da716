"""The host's job journal: per stack, the newest job and its final report, in a file beside the state.

A job that is delivered twice runs once: the second time its report is sent again. A job is superseded if it is older
than the newest, or another job of the same generation; the order of arrival decides nothing.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ResourceAPIError, StateError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.state.lock import Lock
from resource_api.state.sqlite.database import prepare_directory
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.fleet.job import HostJob
    from resource_api.state.store import StackName

#: Largest report in bytes; of a larger one only the summary is recorded.
MAX_REPORT: Final = 4 << 20


class Superseded(ResourceAPIError):  # noqa: N818 - reads as what it says
    """The host received a newer job before, or another job of the same generation."""

    exit_code = StateLocked.exit_code


class JobReport(NamedTuple):
    """The exit code of a finished job and the documents of its results."""

    code: int
    documents: Sequence[Mapping[str, object]]


class Journal:
    """The journal of one stack."""

    def __init__(self, state: str, name: StackName) -> None:
        """Use a file beside the database ``state``, in a directory that only this user can open."""
        self._state = state
        self._directory = f"{os.path.dirname(state)}/jobs"
        self._path = f"{self._directory}/{name.project}--{name.stack}.json"
        self._lock = Lock(f"{self._directory}/{name.project}--{name.stack}")

    @contextmanager
    def held(self, command: str, timeout: float) -> Iterator[None]:
        """Lock the stack against other jobs. Raise ``StateLocked``, ``StateError``."""
        prepare_directory(self._state)
        try:
            make_directory(self._directory)
            private = private_files.is_private_directory(self._directory)
        except OSError as error:
            msg = f"{self._directory}: {error.strerror}"
            raise StateError(msg) from error
        if not private:
            msg = f"{self._directory}: must be a directory that only its owner can open, and no link"
            raise StateError(msg)
        with self._lock.held(timeout):
            self._lock.write_holder(command)
            yield

    def begin(self, job: HostJob) -> JobReport | None:
        """Return the report of a finished job; otherwise record the job as the newest and return None.

        Raise ``Superseded`` for an older job or another one of the same generation, and ``StateError``.
        """
        newest = self._read()
        if newest is not None and newest["id"] == job.id:
            if newest["report"] is not None:
                return JobReport(*newest["report"])
        elif newest is not None and job.generation <= newest["generation"]:
            raise Superseded(_superseded(job.generation, newest["generation"]))
        self._write(job, None)
        return None

    def finish(self, job: HostJob, report: JobReport) -> None:
        """Record the report of the job that was begun."""
        self._write(job, report)

    def _read(self) -> dict[str, Any] | None:
        try:
            raw = private_files.read(self._path)
            entry = json.loads(raw or b"")
            if {type(entry["id"]), type(entry["generation"])} == {str, int} and "report" in entry:
                return dict(entry)
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"{self._path}: {error.strerror}"
            raise StateError(msg) from error
        except (ValueError, LookupError, TypeError):
            pass
        msg = f"{self._path}: it is damaged, or others can write to it; remove it, and every job is taken as a new one"
        raise StateError(msg)

    def _write(self, job: HostJob, report: JobReport | None) -> None:
        entry = {"id": job.id, "generation": job.generation, "report": report}
        raw = json.dumps(entry, separators=(",", ":")).encode()
        if report is not None and len(raw) > MAX_REPORT:
            summary = [document for document in report.documents if document.get("type") == "summary"]
            raw = json.dumps({**entry, "report": [report.code, summary]}, separators=(",", ":")).encode()
        try:
            private_files.replace(self._path, raw)
        except OSError as error:
            msg = f"{self._path}: {error.strerror}"
            raise StateError(msg) from error


def _superseded(generation: int, newest: int) -> str:
    if generation == newest:
        return "another job of this generation was given to this host, as where two names select it; nothing was done"
    return f"a newer job was given to this host: generation {newest}, and this one has {generation}; nothing was done"
