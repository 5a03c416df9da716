"""What passes between here and one host: bytes come in, events go out, and bytes are to be sent. No I/O.

A host says which archives it needs, or that it has all; only then is the job sent. Whatever it says is data: bounded,
checked, and about that host alone. Carriers move the bytes; every one uses this, so all behave alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet.carriers import carrier
from resource_api.fleet.carriers.carrier import HostEvent
from resource_api.fleet.payload import boot_arguments
from resource_api.model.values.errors import BUG, NOTHING_DONE
from resource_api.plugins.worker import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.fleet.job import Job

#: The types of documents that a host may send; its ``end`` has a frame of its own.
TYPES: Final = frozenset(
    {
        "diagnostic",
        "hello",
        "log",
        "outputs",
        "planned_change",
        "refused",
        "resource_drift",
        "result",
        "step_end",
        "step_start",
        "summary",
    }
)
#: Kinds of frames from a host, and how large each may be.
_LARGEST: Final = {
    "event": jobs.MAX_EVENT,
    "result": jobs.MAX_RESULT,
    "end": carrier.MAX_BUFFERED,
    "have": carrier.MAX_BUFFERED,
    "need": carrier.MAX_BUFFERED,
}
#: Bytes that programs of a login may print around the frames.
_MAX_OTHER: Final = 1024 * 1024
#: What Python says of a module that is missing; nothing of ours is, in an archive with the right digest.
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: (.*)")
#: The exit codes of a run that may have done nothing.
_REFUSALS: Final = frozenset({*NOTHING_DONE, BUG})


class Channel:
    """One job on its way to one host, and what comes back."""

    def __init__(self, host: str, job: Job, bytes_of: Callable[[str], bytes]) -> None:
        """Begin before anything is sent; ``bytes_of`` returns an archive by its digest."""
        self.host = host
        self._job = job
        self._bytes_of = bytes_of
        self._decoder = protocol.Decoder(self._count_other, plain=True, largest=_LARGEST)
        self._outgoing: list[bytes] = []
        self._other = self._events = 0
        self._asked = self._refused = self._interrupted = False
        #: Whether the job was sent: without it nothing was done there.
        self.sent = False
        #: Whether the last event has come.
        self.ended = False

    def arguments(self, cache_directory: str = "") -> list[str]:
        """Return the arguments of the interpreter on the host; ``cache_directory``: as ``boot_arguments`` takes it."""
        return boot_arguments((self._job.payload, self._job.modules), cache_directory)

    def receive(self, data: bytes) -> list[HostEvent]:
        """Return the events that the next bytes from the host complete; after the end none."""
        found: list[HostEvent] = []
        if self.ended:
            return found
        try:
            for frame in self._decoder.feed(data):
                found.extend(self._answer(frame.kind, frame.body))
                if self.ended:
                    break
        except (ValueError, LookupError, TypeError) as error:
            found.extend(self.close(f"it sent what is no event: {error}"))
        return found

    def take(self) -> list[bytes]:
        """Return what is to be sent to the host now, in this order."""
        taken, self._outgoing = self._outgoing, []
        return taken

    def interrupt(self) -> None:
        """Have the run there asked to end after its segment; once more: to end its programs.

        A job that was not sent yet is not sent any more.
        """
        self._interrupted = True
        if self.sent:
            self._outgoing.append(protocol.encode_plain("interrupt", {}))

    def close(self, error: str) -> list[HostEvent]:
        """Return the end of a host whose stream has ended, because of ``error``; nothing where it has come already."""
        if self.ended:
            return []
        if not self.sent and (missing := _NO_MODULE.fullmatch(error)):
            error = f"needs all of Python's standard library (Debian: the package python3): {missing[1]}"
        return [self._end(carrier.LOST if self.sent else carrier.UNREACHABLE, error=error)]

    def _answer(self, kind: str, body: Mapping[str, Any]) -> list[HostEvent]:
        if kind in {"need", "have"} and not self.sent:
            if self._interrupted:
                return self.close("interrupted before the job was sent")
            self._supply(kind, body)
            return []
        if kind == "end" and self.sent:
            return [self._ended(body["code"])]
        if kind in {"event", "result"} and self.sent:
            return [self._event(kind, body["document"])]
        msg = f"a frame '{kind}' at the wrong time"
        raise ValueError(msg)

    def _supply(self, kind: str, body: Mapping[str, Any]) -> None:
        """Send the archives that a host asks for, once; then, when it has all, the job."""
        if kind == "have":
            self._outgoing.append(jobs.encode(self._job))
            self.sent = True
            return
        digests = str(body["digests"]).split()
        if self._asked or not set(digests) <= {self._job.payload, self._job.modules}:
            msg = "it asks for archives that are not for it"
            raise ValueError(msg)
        self._asked = True
        for digest in digests:
            raw = self._bytes_of(digest)
            self._outgoing += [b"%d\n" % len(raw), raw]

    def _event(self, kind: str, document: Any) -> HostEvent:
        self._events += 1
        if self._events > carrier.MAX_EVENTS:
            msg = f"more than {carrier.MAX_EVENTS} events"
            raise ValueError(msg)
        if (
            type(document) is not dict
            or document.get("type") not in TYPES
            or (document["type"] == "result") != (kind == "result")
        ):
            msg = "a document of an unknown type"
            raise ValueError(msg)
        self._refused = self._refused or document["type"] == "refused"
        return HostEvent(self.host, document)

    def _ended(self, code: Any) -> HostEvent:
        if type(code) is not int or not 0 <= code <= 255:  # noqa: PLR2004 - the largest exit code
            msg = "no exit code"
            raise ValueError(msg)
        if self._refused and code in _REFUSALS:
            return self._end(carrier.REFUSED, code)
        return self._end(carrier.ENDED, code)

    def _end(self, status: str, code: int | None = None, error: str | None = None) -> HostEvent:
        self.ended = True
        self._outgoing = []
        return carrier.end(self.host, status, code, error)

    def _count_other(self, line: bytes) -> None:
        self._other += len(line)
        if self._other > _MAX_OTHER:
            msg = "more than 1 MiB of lines that are no frames"
            raise ValueError(msg)
