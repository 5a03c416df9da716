"""What a host knows of the jobs that it was given: the newest of each stack, and the report of that when it has ended.

A job that is delivered twice is done once: the second time its report is sent again. One that is older than the newest,
or has its generation and is another one, is superseded: nothing is ever decided by the order in which jobs arrive.
Kept beside the state, one file for each stack.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, StateError, StateLocked
from resource_api.state.lock import Lock
from resource_api.state.sqlite.database import prepare_directory
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.fleet.job import Job
    from resource_api.state.store import StackName

#: Bytes of the documents of a report that are kept; of a larger one only the summary is.
MOST: Final = 4 << 20


class Superseded(ResourceAPIError):  # noqa: N818 - reads as what it says
    """A newer job was given to this host, or another one of the same run."""

    exit_code = StateLocked.exit_code


class Report(NamedTuple):
    """What a job that has ended has sent: its exit code and the documents that say what it did."""

    code: int
    documents: Sequence[Mapping[str, Any]]


class Journal:
    """The jobs of one stack."""

    def __init__(self, state: str, name: StackName) -> None:
        """Keep them beside the database ``state``, in a directory that is this user's alone."""
        self._state = state
        self._directory = f"{os.path.dirname(state)}/jobs"
        self._path = f"{self._directory}/{name.project}--{name.stack}.json"
        self._lock = Lock(f"{self._directory}/{name.project}--{name.stack}")

    @contextmanager
    def held(self, command: str, timeout: float) -> Iterator[None]:
        """Let no other job of the stack run meanwhile. Raise ``StateLocked``, ``StateError``."""
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

    def begin(self, job: Job) -> Report | None:
        """Return the report of a job that was done; else note it as the newest and return None.

        Raise ``Superseded`` for an older job, and for another one of the same generation; ``StateError``.
        """
        known = self._read()
        if known is not None and known["id"] == job.id:
            if known["report"] is not None:
                return Report(known["report"][0], known["report"][1])
        elif known is not None and job.generation <= known["generation"]:
            raise Superseded(_superseded(job.generation, known["generation"]))
        self._write(job, None)
        return None

    def finish(self, job: Job, report: Report) -> None:
        """Note the report of the job that was begun."""
        self._write(job, report)

    def _read(self) -> dict[str, Any] | None:
        try:
            raw = private_files.read(self._path)
            found = json.loads(raw or b"")
            if {type(found["id"]), type(found["generation"])} == {str, int} and "report" in found:
                return dict(found)
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"{self._path}: {error.strerror}"
            raise StateError(msg) from error
        except (ValueError, LookupError, TypeError):
            pass
        msg = f"{self._path}: it is damaged, or others can write to it; remove it, and every job is taken as a new one"
        raise StateError(msg)

    def _write(self, job: Job, report: Report | None) -> None:
        found = {"id": job.id, "generation": job.generation, "report": report}
        raw = json.dumps(found, separators=(",", ":")).encode()
        if report is not None and len(raw) > MOST:
            last = [each for each in report.documents if each.get("type") == "summary"]
            raw = json.dumps({**found, "report": [report.code, last]}, separators=(",", ":")).encode()
        try:
            private_files.replace(self._path, raw)
        except OSError as error:
            msg = f"{self._path}: {error.strerror}"
            raise StateError(msg) from error


def _superseded(generation: int, newest: int) -> str:
    if generation == newest:
        return "another job of this generation was given to this host, as where two names select it; nothing was done"
    return f"a newer job was given to this host: generation {newest}, and this one has {generation}; nothing was done"
