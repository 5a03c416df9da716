"""The program of a worker process: it makes the provider of one type and answers the runtime's calls one by one.

The provider is made, given a context and guarded as it is in the runtime. Its connection to the runtime is frames over
two pipes: ``docs/protocol.md``; ``process`` starts the process.

``python -m resource_api.plugins.worker.server [DIRECTORY ...]`` serves a Python provider on standard input and output:
``hello`` names the type; the directories are the module path, before the bundled types.
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import io
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.change import Change, Changes
from resource_api.model.provider_functions import Planned
from resource_api.model.values.archive_rules import Limits, Member
from resource_api.model.values.assets import KINDS, Archive, Asset, Content
from resource_api.model.values.errors import Problem, ProviderError
from resource_api.model.values.masking import Mask
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import is_secret
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.protocol import DISCONNECTED, Decoder, decode_error, difference_fields, encode
from resource_api.provider.base import call_arguments, collect_rows, validation_answers
from resource_api.provider.context import Context, RunContext
from resource_api.provider.outcomes import CallOutcomes, Subject
from resource_api.provider.stored_values import PrivateData
from resource_api.system import process_guard
from resource_api.system.log import ForwardedLog
from resource_api.system.process import core_dumps, process, process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.record import RecordKey
    from resource_api.model.report import LogEvent
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.worker.protocol import Frame


_CHUNK: Final = 1 << 16
#: Our descriptors get high numbers: a provider that closes low ones, or expects them for its own files, may.
_LOWEST_DESCRIPTOR: Final = 200


class Disconnected(BaseException):
    """The connection is lost; no ``Exception``, because a provider must not handle it."""


class Connection:
    """Frames from one descriptor and to another, for the process that made it: a forked child has no connection."""

    def __init__(self, source: int, target: int) -> None:
        """Take over two descriptors, moved to high numbers: a provider may use the low ones for its own files."""
        self._source = move_descriptor(source)
        self._target = move_descriptor(target)
        #: The process that may use the connection: a child that the provider forks neither sends nor reads.
        self._pid = os.getpid()
        self.decoder = Decoder()
        #: The frames that were read and not received yet.
        self._frames: deque[Frame] = deque()
        #: Held while a frame is sent: threads of the provider log and report too.
        self._send_lock = threading.Lock()

    def send(self, kind: str, **body: object) -> None:
        """Send a frame to the runtime. Raise ``Disconnected``, and ``ProviderError`` for one that is too large.

        In a child that the provider has forked do nothing: its frames would mix with the parent's.
        """
        data = memoryview(encode(kind, body))
        if os.getpid() != self._pid:
            return
        try:
            with self._send_lock:
                while data:
                    data = data[os.write(self._target, data) :]
        except OSError as error:
            raise Disconnected from error

    def receive(self) -> Frame:
        """Wait for the next frame, and return it. Raise ``Disconnected``."""
        while not self._frames:
            self._read()
        return self._frames.popleft()

    def has_input(self) -> bool:
        """Return whether a frame of the runtime can be received without waiting, such as ``cancel`` during a call.

        Return false in a child that the provider has forked, whose parent reads the frames. Raise ``Disconnected``.
        """
        if os.getpid() != self._pid:
            return False
        try:
            return bool(self._frames or select.select([self._source], [], [], 0)[0])
        except (OSError, ValueError) as error:
            raise Disconnected from error

    def _read(self) -> None:
        """Wait for bytes and add their frames to ``_frames``. Raise ``Disconnected`` at the end and for garbage."""
        if os.getpid() != self._pid:  # in a forked child: the input is for its parent
            raise Disconnected
        try:
            data = os.read(self._source, _CHUNK)
            self._frames.extend(self.decoder.feed(data))
        except (OSError, ValueError) as error:
            raise Disconnected from error
        if not data:
            raise Disconnected


def move_descriptor(descriptor: int) -> int:
    """Move a descriptor to a high number and return that; executed programs do not inherit it.

    A provider may close the low numbers, or expect them for its own files.
    """
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    except OSError:  # the limit of descriptors is lower
        fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        return descriptor
    os.close(descriptor)
    return high


class WorkerRun(RunContext):
    """The run as a worker sees it: log lines, outcomes and requests go through the connection."""

    def __init__(self, connection: Connection, level: str) -> None:
        """Send log lines of ``level`` and above, secrets, reports and requests by ``connection``; keep none here."""
        self._connection = connection
        #: Held while something is requested and the answer awaited.
        self._lock = threading.Lock()
        #: The number of the current call: a context that a thread keeps from an earlier one sends nothing.
        self._call_number = 0
        #: Whether a call runs, and whether the runtime cancelled it.
        self._calling = False
        self._cancelled = False
        #: Whether the run is interrupted, and not only the current call to be ended.
        self.interrupted = False
        #: Whether the current call has reported a failure.
        self._any_failed = False
        connection.decoder.content = self._content
        super().__init__(ForwardedLog(level, self._send_event))
        self.isolate = False  # this is the worker
        self.private = _RequestedPrivateData(self.request)
        self.log.mask = mask = _SendingMask(connection)
        connection.decoder.on_secret = partial(Mask.add, mask)  # without sending it back

    @property
    def cancelled(self) -> bool:
        """Whether the runtime cancelled the current call.

        The frames that have arrived are read here, as nothing else reads them during a call. Only ``cancel`` can be
        among them, because an answer arrives only while ``request`` holds the lock.
        """
        if self.interrupted:
            return True
        with self._lock:
            while self._calling and not self._cancelled and self._connection.has_input():
                self._cancelled = self._connection.receive().kind == "cancel"
            return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        """Ignore the initial value that ``RunContext`` sets: only the runtime cancels."""

    @contextmanager
    def call(self) -> Iterator[None]:
        """Mark the ``with`` block as a call of the provider.

        Only during a call ``request`` and ``cancelled`` read frames from the connection; otherwise the main loop reads
        them all, so that no frame gets to the wrong reader.
        """
        with self._lock:
            self._call_number += 1
            self._calling, self._cancelled, self._any_failed = True, False, False
        try:
            yield
        finally:
            with self._lock:
                self._calling = False

    def new_outcomes(self, *arguments: object, **keywords: object) -> CallOutcomes:
        """Return outcomes that are also sent to the runtime."""
        return _SendingOutcomes(partial(self._send_outcome, self._call_number), *arguments, **keywords)

    def blocked(self, name: Name) -> bool:
        """Request whether a prerequisite of a name has failed; while nothing has failed in this call, none can have."""
        return self._any_failed and bool(self.request("blocked", name=name))

    def request(self, kind: str, **body: object) -> Any:
        """Send a request of this kind to the runtime during a call, and return its answer.

        Raise the error in the answer, and ``ProviderError`` outside of a call, as from a thread that has outlived it.
        """
        with self._lock:
            if not self._calling:
                raise ProviderError(f"'{kind}' is requested after the call has ended that it belongs to")
            self._connection.send(kind, **body)
            while (answer := self._connection.receive()).kind == "cancel":
                self._cancelled = True
        if answer.kind == "refused":
            raise decode_error(answer.body)
        return answer.body["value"]

    def _content(self, word: str, sha256: str, origin: str, source: object) -> Content:
        """Return an asset or archive whose bytes the runtime sends when they are read: here files may be unreadable."""
        read = self._open_asset if word == Asset.word else self._members
        return KINDS[word](sha256, origin, source, partial(read, sha256))

    def _open_asset(self, sha256: str) -> BinaryIO:
        """Return the requested bytes of an asset as a file, read by further requests as the provider reads it."""
        reader = self.request("open", word=Asset.word, sha256=sha256, limits=None)
        return io.BufferedReader(_RequestedBytes(partial(self.request, "read", reader=reader)))

    def _members(self, sha256: str, limits: Limits) -> Iterator[Member]:
        """Yield the members of an archive, which the runtime sends one by one at requests.

        The bytes of a member can be read only before the next member is requested.
        """
        reader = self.request("open", word=Archive.word, sha256=sha256, limits=tuple(limits))
        while (member := self.request("member", reader=reader)) is not None:
            name, kind, mode, target = member
            yield Member(name, kind, mode, target, iter(partial(self.request, "read", reader=reader), None))

    def _send_outcome(self, call: int, kind: str, **body: object) -> None:
        """Send a report on a resource, unless ``call``, the number of its call, has ended: a thread may outlive it.

        A failure is noted: before the first one ``blocked`` needs no request to the runtime.
        """
        if self._calling and call == self._call_number:
            self._any_failed = self._any_failed or body.get("status") == "failed"
            self._connection.send(kind, **body)

    def _send_event(self, event: LogEvent) -> None:
        """Send a line of the log to the runtime, which masks and shows it as its own."""
        level, subject, text, fields, change = event
        extra = {} if change is None else {"change": difference_fields(change)}
        self._connection.send("log", level=level, subject=subject, text=text, fields=fields, **extra)


class _RequestedPrivateData(PrivateData):
    """The private data of resources, which the runtime keeps."""

    def __init__(self, request: Callable[..., object]) -> None:
        """Read and store by ``request``, a frame to the runtime that has an answer."""
        super().__init__()
        self._request = request

    def get(self, key: RecordKey) -> object:
        return self._request("private", name=key[1])  # the runtime knows the instance

    def store(self, key: RecordKey, data: object) -> None:
        self._request("store_private", name=key[1], data=data)


class _SendingOutcomes(CallOutcomes):
    """Outcomes that are sent to the runtime after the check of the rules of reporting."""

    def __init__(self, send: Callable[..., None], *arguments: Any, **keywords: Any) -> None:
        """Begin without outcomes; ``send`` sends a report to the runtime."""
        super().__init__(*arguments, **keywords)
        self._send = send

    def set_status(self, names: list[Name], status: str, cause: object = "", *, tainted: bool = False) -> None:
        """Check and keep the status of each name, and send it to the runtime, which records it.

        The field ``logged`` is true: ``log_status`` sends the line for the log, and the runtime must not add one.
        """
        for name in names:
            super().set_status([name], status, cause, tainted=tainted)
            fields = {"tainted": True} if tainted else {}
            self._send("status", name=name, status=status, reason=self[name].reason, logged=True, **fields)

    def log_status(self, names: list[Name], status: str, text: object) -> None:
        """Send the line instead of logging it: in the runtime it may have to wait for the verification."""
        self._send("status_line", names=list(names), status=status, text=f"{text}")

    def add_attribute(self, name: Name, difference: Difference, text: str) -> None:
        """Check, keep and log that an attribute has been changed, and send it to the runtime, which records it."""
        super().add_attribute(name, difference, text)
        self._send("attribute", name=name, **difference_fields(difference))


class _SendingMask(Mask):
    """Sends secrets to the runtime, which masks them; here they are known for texts that must be shortened."""

    def __init__(self, connection: Connection) -> None:
        """Send new secrets by ``connection``."""
        super().__init__()
        self._connection = connection

    def add(self, value: object) -> None:
        """Add the secrets in a value, and send them: the runtime masks them in its own log and output too."""
        if is_secret(value):
            super().add(value)
            self._connection.send("conceal", value=value)


class _RequestedBytes(io.RawIOBase):
    """The bytes of an asset, requested chunk by chunk."""

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        """Take the chunks that ``read`` returns, until an empty one; each call of it is a request to the runtime."""
        self._read_chunk = read
        #: The end of the last chunk, for which the caller's buffer had no room.
        self._remaining = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the rest of the last chunk, or from the next chunk, which is requested from the runtime.

        Return the number of bytes, 0 at the end, as ``io.RawIOBase`` requires.
        """
        if not self._remaining:
            self._remaining = self._read_chunk() or b""
        piece = self._remaining[: len(buffer)]
        buffer[: len(piece)] = piece
        self._remaining = self._remaining[len(piece) :]
        return len(piece)


#: Methods that need a configured provider.
_CONFIGURED: Final = frozenset({"get", "set", "refresh", "due", "import_", "preflight", "side_effects"})
#: Methods that report on resources.
_REPORTING: Final = frozenset({"get", "set", "refresh", "due", "import_"})
#: Methods of which one frame holds many calls.
_BATCHED: Final = frozenset({"validate", "insync"})


def main(descriptors: Sequence[int], directories: Sequence[str], trust: Sequence[str], core: int | None) -> None:
    """Serve the provider that the first frame names, found in ``directories``, until the frame ``close``.

    ``descriptors``: the worker's ends of the pipes, see ``process``. Code beneath the directories of ``trust`` is not
    checked. ``core``: if the runtime has forbidden core dumps, the limit that its caller had set, which the programs
    that are run here get back; otherwise None.
    """
    process_tree.end_with(os.getppid())  # the guardian
    if core is not None:
        core_dumps.forbid(core)
    requests, replies, lifeline, interrupts = descriptors
    _end_with_runtime(lifeline)
    _serve(
        requests, replies, Registry(ModulePath(directories, distributions=False), trust), move_descriptor(interrupts)
    )


def serve_standard_streams(directories: Sequence[str]) -> None:
    """Serve a provider as an executable does: frames go over standard input and output.

    The provider's output goes to standard error instead, so that it does not mix with frames. Standard input is empty
    for it.
    """
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    _serve(requests, replies, Registry.from_path(*directories))


def _serve(requests: int, replies: int, registry: Registry, interrupts: int | None = None) -> None:
    """Answer the calls of one runtime, which come through ``requests``, by ``replies``, until it disconnects.

    A byte from ``interrupts`` interrupts the run. A runtime with another version of the protocol gets only the version
    of this worker, and reports the difference.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # real streams
    connection = Connection(requests, replies)
    try:
        hello = connection.receive().body
        if hello["protocol"] != protocol.VERSION:
            connection.send("ready", protocol=protocol.VERSION)
            return
        server = _Server(connection, registry, hello)
        if interrupts is not None:
            _thread.start_new_thread(server.await_interrupt, (interrupts,))
        server.serve()
    except Disconnected:
        os._exit(DISCONNECTED)  # at once: threads of the provider may run on for ever


def _end_with_runtime(lifeline: int) -> None:
    """Have the kernel kill this process in any state once the runtime has ended: then ``lifeline`` becomes readable."""
    lifeline = move_descriptor(lifeline)
    # O_ASYNC sends the signal F_SETSIG to the process F_SETOWN as soon as the descriptor is readable, fcntl(2).
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before
        os._exit(DISCONNECTED)


class _Server:
    """Answers the runtime's calls of one provider, in the worker process."""

    def __init__(self, connection: Connection, registry: Registry, hello: Mapping[str, Any]) -> None:
        """Prepare to serve the instance and the implementation in ``hello``, the body of the first frame."""
        self._connection = connection
        self._instance: str = hello["instance"]
        self._run = WorkerRun(connection, hello["level"])
        # A core dump would hold the secret.
        self._run.log.mask.on_secret = lambda _secret, _declared: core_dumps.forbid()
        self._registry = registry
        self._providers = ProviderPool(registry, self._run)
        self._providers.only = hello["implementation"]
        #: A child that the provider forks has another: it must not answer.
        self._pid = os.getpid()
        process.set_listener(lambda pid, *, running: connection.send("program", pid=pid, running=running))
        if hello["level"] == "debug":
            faulthandler.enable()

    def await_interrupt(self, interrupts: int) -> None:
        """Wait in a thread until the run is interrupted, then call ``cancel`` of the provider beside its call.

        ``interrupts``: the pipe for a byte at an interrupt, as frames are not read during a call.
        """
        with suppress(OSError):
            if os.read(interrupts, 1):
                self._run.interrupted = True
                self._providers.cancel()

    def serve(self) -> None:
        """Load the type, report that it is ready, and answer calls until the frame ``close``."""
        if not self._answer("ready", self._load):
            return
        while (frame := self._connection.receive()).kind != "close":
            if frame.kind == "call":
                self._answer("done", partial(self._call, **frame.body), id=frame.body["id"])
        self._answer("closed", lambda: self._close(interrupted=frame.body.get("interrupted", False)))

    def _load(self) -> Mapping[str, Any]:
        """Load the type and the provider, and return the body of the frame ``ready``.

        It describes the type and the provider for the runtime, which loads no code of this provider, and which may have
        read the type from files that were replaced since then.
        """
        definition = self._definition()
        provider = self._registry.provider(definition.name, implementation=self._providers.only)
        return {
            "protocol": protocol.VERSION,
            "priority": getattr(provider, "priority", 0),
            "methods": [method for method in protocol.OPTIONAL_METHODS if hasattr(provider, method)],
            "schema_version": definition.schema_version,
            "features": definition.features,
        }

    def _definition(self) -> TypeDefinition:
        """Return the type, for the one instance that is served."""
        return self._registry.type(split_instance(self._instance)[0]).for_instance(self._instance)

    def _close(self, *, interrupted: bool) -> Mapping[str, object]:
        """Close the provider; return the body of the frame ``closed``, which has none."""
        self._providers.close(interrupted=interrupted)
        return {}

    def _answer(self, kind: str, make_body: Callable[[], Mapping[str, object]], **common: object) -> bool:
        """Send the frame ``kind`` with the body that ``make_body`` returns; return whether it has succeeded.

        If it raises, the frame is ``raised`` with the error; ``common`` are fields of both.
        """
        try:
            self._connection.send(kind, **self._body(make_body), **common)
        except Disconnected:
            raise
        except BaseException as error:  # noqa: BLE001 - the runtime decides the consequences
            self._run.log_traceback(error, self._instance)
            self._connection.send("raised", **protocol.encode_error(error, self._run.log.mask), **common)
            return False
        return True

    def _body(self, make_body: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
        """Return the body that the provider's code makes, with its output flushed.

        If the code has forked, the child returns here too: it is ended, because only its parent may answer.
        """
        try:
            return make_body()
        finally:
            if os.getpid() != self._pid:
                os._exit(70)  # EX_SOFTWARE, sysexits.h
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()

    def _call(
        self,
        method: str,
        arguments: Sequence[object],
        *,
        terms: Mapping[str, Any],
        bound: Mapping[str, object],
        fresh: bool,
        config: Any = None,
        **_other: object,
    ) -> Mapping[str, object]:
        """Call a method of the provider and return the body of the answer.

        ``terms``: those of the context, ``bound``: the fields of the log. ``fresh``: the provider is made anew, because
        a call in another worker may have changed its cached data. Without a ``config``, a provider that needs one can
        answer pure methods only. Members that a later version of the runtime adds are ignored.
        """
        with self._run.call():
            if fresh:
                self._providers.close()
            if config is not None:
                self._providers.configure(self._instance, config)
            function = self._definition().functions.get(method)  # None for a method such as ``get``
            configured = method in _CONFIGURED if function is None else not function.pure
            provider = self._providers.instance(self._instance, configured=configured)
            context = self._context(**terms, answering=method not in _REPORTING)
            with self._run.log.bind(**bound), process_guard.protected(), context.activate(provider):
                return {"value": self._call_method(provider, context, method, arguments)}

    def _call_method(self, provider: object, context: Context, method: str, arguments: Sequence[Any]) -> object:
        """Call one method, with the arguments of the frame in the form that the method expects; return plain data.

        Resources in a frame are lists, since a name may be no text: here they become mappings by name again. A method
        of ``_BATCHED`` is called for each item, because the proxy sends its calls together.
        """
        call = getattr(provider, method)
        if method in _BATCHED:
            return [_answer_one(context, method, call, item) for item in arguments[0]]
        if method in context.type.functions:
            return call(context, **arguments[0])
        if method == "preflight":
            arguments = [{item["name"]: item["should"] for item in arguments[0]}]
        if method == "side_effects":
            arguments = [{item["name"]: Change(item["is"], item["should"]) for item in arguments[0]}]
        if method == "set":
            self._set(context, call, **arguments[0])
            return None
        return _plain_data(context.type, method, call(*call_arguments(method, context, arguments, call)))

    def _set(
        self,
        context: Context,
        call: Callable[..., object],
        changes: Sequence[Mapping[str, Any]],
        blocked: Sequence[Name],
    ) -> None:
        """Call ``set`` with changes whose iterator skips names with a failed prerequisite.

        ``blocked``: the names with a prerequisite that failed before this call; later failures are requested from the
        runtime. After a cancelled call the changes that it has begun are reported: the others were not made.
        """
        blocked_names = frozenset(blocked)
        offered = Changes(
            {change["name"]: Change(change["is"], change["should"]) for change in changes},
            lambda name: name in blocked_names or self._run.blocked(name),
            lambda: self._run.cancelled,
        )
        extra = {"noop": context.noop} if "noop_handler" in context.type.features else {}
        try:
            call(context, offered, **extra)
        finally:
            if self._run.cancelled:
                self._connection.send("begun", names=list(offered.begun))

    def _context(
        self, subjects: Any, *, noop: bool, reading: bool, answering: bool, seconds: float | None, **_later: object
    ) -> Context:
        """Return the context of a call from its terms in the frame; those that a later version adds are ignored."""
        return Context(
            self._definition(),
            self._run,
            subjects={subject.pop("name"): Subject(**subject) for subject in subjects},
            noop=noop,
            reading=reading,
            answering=answering,
            deadline=None if seconds is None else time.monotonic() + seconds,
        )


def _answer_one(
    context: Context, method: str, call: Callable[..., object], arguments: Sequence[object]
) -> Mapping[str, object]:
    """Return the value of one of the calls in a frame, or its error, which must not end the others."""
    try:
        return {"value": _plain_data(context.type, method, call(context, *arguments))}
    except Disconnected:
        raise
    except BaseException as error:  # noqa: BLE001 - the runtime decides the consequences
        return {"raised": protocol.encode_error(error, context.mask)}


def _plain_data(definition: TypeDefinition, method: str, answer: Any) -> object:
    """Return a provider's answer as data that a frame can hold: it may be an iterator or a ``Planned``.

    The proxy in the runtime builds the same objects from it again. The result of ``refresh`` has no meaning.
    """
    if method == "get":
        return collect_rows(definition, answer)
    if method == "refresh":
        return None
    if method == "preflight":
        return _named_fields(answer, protocol.problem_fields)
    if method == "side_effects":
        return _named_fields(answer, protocol.side_effect_fields)
    if method == "validate":
        answers = validation_answers(answer)
        return [protocol.problem_fields(part) if isinstance(part, Problem) else part for part in answers]
    if method == "plan" and isinstance(answer, Planned):
        state = dict(answer.state) if hasattr(answer.state, "items") else answer.state
        return {**answer._asdict(), "state": state, "unknown": list(answer.unknown), "replace": list(answer.replace)}
    if method == "upgrade" and hasattr(answer, "keys"):
        return dict(answer)
    return answer


def _named_fields(pairs: Iterable[tuple[Name, Any]] | None, fields: Callable[[Any], object]) -> list[list[object]]:
    """Return the pairs of a name and a value that a method returned, each value by its ``fields``; None has none."""
    return [] if pairs is None else [[name, fields(value)] for name, value in pairs]


if __name__ == "__main__":
    serve_standard_streams(sys.argv[1:])
