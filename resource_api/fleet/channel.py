"""The exchange with one host, without I/O: received bytes become events, and bytes to send.

A host requests the archives that it needs; the job is sent when it has all. Its messages are untrusted data: bounded,
checked, and about that host alone. All connections use this module and behave alike.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet.archives import boot_arguments
from resource_api.fleet.connections import (
    ENDED,
    LOST,
    MAX_BUFFERED,
    MAX_EVENTS,
    REFUSED,
    UNREACHABLE,
    HostEvent,
    end_event,
)
from resource_api.model.values.errors import BUG, NOTHING_DONE
from resource_api.plugins.worker import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.fleet.job import HostJob

#: The types of documents that a host may send; ``end`` has a frame of its own.
TYPES: Final = frozenset(
    (
        *("diagnostic", "hello", "log", "outputs", "planned_change", "refused"),
        *("resource_drift", "result", "step_end", "step_start", "summary"),
    )
)
#: The reason of a host that was interrupted without a job.
UNSENT: Final = "interrupted before the job was sent"
#: Kinds of frames from a host, and their largest sizes in bytes.
_LARGEST: Final = {
    "event": jobs.MAX_EVENT,
    "result": jobs.MAX_RESULT,
    "end": MAX_BUFFERED,
    "have": MAX_BUFFERED,
    "need": MAX_BUFFERED,
}
#: Levels of nested values in a document: what shows one follows them by recursion.
_DEEPEST: Final = 250
_CONTAINERS: Final = (dict, list)
#: Largest output of login programs around the frames in bytes.
_MAX_OTHER: Final = 1024 * 1024
#: Python's error for a missing module, which is one of the standard library: archives are complete.
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: (.*)")
#: The exit codes of a run that changed nothing.
_REFUSALS: Final = frozenset({*NOTHING_DONE, BUG})


class HostChannel:
    """The exchange of one job and its events with one host."""

    def __init__(self, host: str, job: HostJob, bytes_of: Callable[[str], bytes]) -> None:
        """Begin the exchange with a host that is to run ``job``; ``bytes_of`` returns an archive by its digest."""
        self.host = host
        self._job = job
        self._bytes_of = bytes_of
        self._decoder = protocol.Decoder(self._count_other, plain=True, largest=_LARGEST)
        self._outgoing: list[bytes] = []
        #: Bytes of lines that are no frames, and the number of events.
        self._other = self._events = 0
        #: Whether archives were sent, a document ``refused`` came, and the user interrupted the run.
        self._supplied = self._refused = self._interrupted = False
        #: Whether the job was sent; otherwise the host was not changed.
        self.sent = False
        #: Whether the last event was returned.
        self.ended = False

    def arguments(self, cache_directory: str = "") -> list[str]:
        """Return the arguments of the interpreter on the host; ``cache_directory`` as for ``boot_arguments``."""
        return boot_arguments((self._job.payload, self._job.modules), cache_directory)

    def receive(self, data: bytes) -> list[HostEvent]:
        """Return the events that these bytes from the host complete, none after its end.

        Data in another form ends the exchange with the host, which is untrusted: the bytes after a damaged frame cannot
        be interpreted.
        """
        events: list[HostEvent] = []
        if self.ended:
            return events
        try:
            for frame in self._decoder.feed(data):
                events.extend(self._answer(frame.kind, frame.body))
                if self.ended:
                    break
        except (ValueError, LookupError, TypeError) as error:
            events.extend(self.close(f"it sent what is no event: {error}"))
        return events

    def take(self) -> list[bytes]:
        """Return the bytes to send to the host, in order, each once."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def interrupt(self) -> None:
        """Ask the host to end its run after the present operations; at the second call, to end also its programs.

        A job that was not sent yet is never sent: the exchange ends at the next frame ``need`` or ``have`` of the host.
        """
        self._interrupted = True
        if self.sent:
            self._outgoing.append(protocol.encode_plain("interrupt", {}))

    def close(self, error: str) -> list[HostEvent]:
        """Return the end of a host whose stream ended with ``error``: lost, or unreachable if no job was sent.

        An exchange that has ended already returns no further event, so that a host has exactly one end.
        """
        if self.ended:
            return []
        # Before the job, the host imports only the standard library and this package, whose archive is complete.
        if not self.sent and (missing := _NO_MODULE.fullmatch(error)):
            error = f"needs all of Python's standard library (Debian: the package python3): {missing[1]}"
        return [self._end(LOST if self.sent else UNREACHABLE, error=error)]

    def _answer(self, kind: str, body: Mapping[str, object]) -> list[HostEvent]:
        """Queue the answer to a frame of the host, or return its event or end.

        ``need`` and ``have`` come before the job is sent, all other kinds after it. Raise ``ValueError`` for a frame at
        another time, which the untrusted host may send.
        """
        if kind in {"need", "have"} and not self.sent:
            if self._interrupted:
                return self.close(UNSENT)
            self._supply(kind, body)
            return []
        if kind == "end" and self.sent:
            return [self._ended(body["code"])]
        if kind in {"event", "result"} and self.sent:
            return [self._event(kind, body["document"])]
        raise ValueError(f"a frame '{kind}' at the wrong time")

    def _supply(self, kind: str, body: Mapping[str, object]) -> None:
        """Queue the answer to a frame: for ``need`` the archives in its list; for ``have``, when it has all, the job.

        The host is untrusted: raise ``ValueError`` for archives that are not for this job, and for a second ``need``,
        since a host could ask again without end.
        """
        if kind == "have":
            self._outgoing.append(jobs.encode(self._job))
            self.sent = True
            return
        # Each must be one of the job's archives, named once.
        digests = str(body["digests"]).split()
        if self._supplied or len(digests) != len({self._job.payload, self._job.modules}.intersection(digests)):
            raise ValueError("it asks for archives that are not for it")
        self._supplied = True
        for digest in digests:
            raw = self._bytes_of(digest)
            self._outgoing += [b"%d\n" % len(raw), raw]

    def _event(self, kind: str, document: object) -> HostEvent:
        """Return the event of a document from the host. Raise ``ValueError`` for a document that no run sends.

        Frames of the kind ``result`` may be larger than others, so they must contain a document of this type.
        """
        # Too many events and deep nesting could exhaust this machine.
        self._events += 1
        if self._events > MAX_EVENTS:
            raise ValueError(f"more than {MAX_EVENTS} events")
        if (
            type(document) is not dict
            or document.get("type") not in TYPES
            or (document["type"] == "result") != (kind == "result")
        ):
            raise ValueError("a document of an unknown type")
        if _is_too_deep(document):
            raise ValueError(f"a document of more than {_DEEPEST} levels")
        self._refused = self._refused or document["type"] == "refused"
        return HostEvent(self.host, document)

    def _ended(self, code: object) -> HostEvent:
        """Return the host's last event after its job: refused if nothing was done, else ended.

        A refusal needs both a document ``refused`` and an exit code of a run without changes, as the host is untrusted.
        ``code``: the exit code that the host sent. Raise ``ValueError`` for an invalid one.
        """
        if type(code) is not int or not 0 <= code <= 255:  # noqa: PLR2004 - the largest exit code
            raise ValueError("no exit code")
        if self._refused and code in _REFUSALS:
            return self._end(REFUSED, code)
        return self._end(ENDED, code)

    def _end(self, status: str, code: int | None = None, error: str | None = None) -> HostEvent:
        """Return the host's last event, after which nothing is sent or received."""
        self.ended = True
        self._outgoing = []
        return end_event(self.host, status, code, error)

    def _count_other(self, line: bytes) -> None:
        """Drop a line that is no frame, such as a greeting of the login. Raise ``ValueError`` for a flood of them."""
        self._other += len(line)
        if self._other > _MAX_OTHER:
            raise ValueError("more than 1 MiB of lines that are no frames")


def _is_too_deep(document: Mapping[str, object]) -> bool:
    """Return whether a document of an untrusted host has values below ``_DEEPEST`` levels.

    Recursive functions of the controller could fail on such a document, so this function searches it level by level.
    """
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        members = (item.values() if type(item) is dict else item for item in level)
        level = [member for member in chain.from_iterable(members) if type(member) in _CONTAINERS]
        if not level:
            return False
    return True
