"""The job journal of a stack, a file beside the state: its newest job and its final report.

A job that is delivered twice runs once: the second time its report is sent again. The journal numbers jobs under its
lock, in the order in which they get it, not by a clock. A job is superseded if it was given before the newest, or if
that has the same run.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceAPIError, StateError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape
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
#: The number of earlier jobs whose ids are kept.
_EARLIER: Final = 50


class Superseded(ResourceAPIError):  # noqa: N818 - reads as what it says
    """The host did the job, and a newer one since, or another job of the same run."""

    exit_code = StateLocked.exit_code


class JobReport(NamedTuple):
    """The exit code of a finished job and the documents of its results."""

    code: int
    documents: Sequence[Mapping[str, object]]


class Journal:
    """The journal of one stack."""

    def __init__(self, state: str, name: StackName) -> None:
        """Choose the files of journal and lock for a stack, in a directory beside the database ``state``.

        Each stack has its own, so that jobs of several stacks run at the same time.
        """
        self._state = state
        self._directory = f"{os.path.dirname(state)}/jobs"
        self._path = f"{self._directory}/{name.project}--{name.stack}.json"
        self._lock = Lock(f"{self._directory}/{name.project}--{name.stack}")
        #: The fields of the job that was begun, as in the file, without its report.
        self._entry: Mapping[str, object] = {}

    @contextmanager
    def held(self, command: str, timeout: float) -> Iterator[None]:
        """Lock the stack against other jobs, from the search for a report to its writing, so that no job runs twice.

        ``command``: this job in the error for another one. Raise ``StateLocked`` after ``timeout`` seconds,
        ``StateError``.
        """
        prepare_directory(self._state)
        with errors_as(StateError, OSError, f"{self._directory}: "):
            make_directory(self._directory)
            private = private_files.is_private_directory(self._directory)
        if not private:
            raise StateError(f"{self._directory}: must be a directory that only its owner can open, and no link")
        with self._lock.held(timeout):
            self._lock.write_holder(command)
            yield

    def begin(self, job: HostJob) -> JobReport | None:
        """Return the report of a job that is delivered again after its end; record any other as the newest, to run it.

        Raise ``Superseded`` for a job that came before the newest one, since it would undo the newer changes; and for a
        second job of the newest one's run, which comes if two names select this host. Raise ``StateError``.
        """
        newest = self._read() or {"id": "", "generation": 0, "report": None}
        generation, earlier = newest["generation"], newest.get("earlier", [])
        if newest["id"] != job.id:
            if job.id in earlier:
                raise Superseded(_superseded(newest))
            if newest.get("run") == job.run:
                msg = "another job of this run was given to this host, as where two names select it; nothing was done"
                raise Superseded(msg)
            generation, earlier = generation + 1, [newest["id"], *earlier][:_EARLIER]
        elif newest["report"] is not None:
            return JobReport(*newest["report"])
        # The same job without a report was interrupted: it runs again.
        fields = {"id": job.id, "generation": generation, "run": job.run, "operator": job.operator}
        self._entry = {**fields, "started": time.time(), "earlier": earlier}
        self._write(None)
        return None

    def finish(self, report: JobReport) -> None:
        """Record the report of the job that was begun."""
        self._write(report)

    def _read(self) -> dict[str, Any] | None:
        """Return the entry of the stack's newest job, or None. Raise ``StateError`` for a damaged or foreign file.

        A damaged entry regarded as none could let the job run twice.
        """
        try:
            entry = json.loads(private_files.read(self._path) or b"")
            if {type(entry["id"]), type(entry["generation"])} == {str, int} and "report" in entry:
                return dict(entry)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{self._path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError):
            pass
        msg = f"{self._path}: it is damaged, or others can write to it; remove it, and every job is taken as a new one"
        raise StateError(msg)

    def _write(self, report: JobReport | None) -> None:
        """Record the begun job and its report, None before its end, to answer the job if it is delivered again.

        Of a report larger than ``MAX_REPORT`` only the summary is recorded. Raise ``StateError``.
        """
        entry = {**self._entry, "report": report}
        raw = json.dumps(entry, separators=(",", ":")).encode()
        if report is not None and len(raw) > MAX_REPORT:
            summary = [document for document in report.documents if document.get("type") == "summary"]
            raw = json.dumps({**entry, "report": [report.code, summary]}, separators=(",", ":")).encode()
        with errors_as(StateError, OSError, f"{self._path}: "):
            private_files.replace(self._path, raw)


def _superseded(newest: Mapping[str, object]) -> str:
    """Return the message for an operator whose job came before the ``newest`` one and must not run any more.

    It names the operator and the time of the newest job, and the remedy.
    """
    started = newest.get("started")
    moment = time.strftime(" at %Y-%m-%d %H:%M:%S UTC", time.gmtime(started)) if isinstance(started, float) else ""
    operator = escape(str(newest.get("operator") or "another machine"))
    return f"{operator} has given this host a newer job{moment}; nothing was done; give the command again to go on"
