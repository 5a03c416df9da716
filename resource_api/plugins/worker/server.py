"""The program of a worker process: it makes the provider of one type and answers the runtime's calls one by one.

The provider is made, given a context and guarded as it is in the runtime. Which frames there are is in
``docs/protocol.md``; how the process is started is in ``process``.
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Change, Changes
from resource_api.model.provider_functions import Planned
from resource_api.model.values.errors import Problem
from resource_api.model.values.reference import split_instance
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.protocol import DISCONNECTED
from resource_api.plugins.worker.runtime_connection import Connection, Disconnected, WorkerRun, move_descriptor
from resource_api.provider.base import call_arguments, collect_rows, validation_answers
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.system.process import core_dumps, process, process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name, TypeDefinition

#: Methods that need a configured provider.
_CONFIGURED: Final = frozenset({"get", "set", "refresh", "due", "preflight", "side_effects"})
#: Methods that report on resources.
_REPORTING: Final = frozenset({"get", "set", "refresh", "due"})
#: Methods of which one frame holds many calls.
_BATCHED: Final = frozenset({"validate", "insync"})


#: The members of a call that are known in this version of the protocol, beside its id.
_CALL: Final = frozenset({"method", "arguments", "terms", "bound", "fresh", "config"})


def main(descriptors: Sequence[int], directories: Sequence[str], trust: Sequence[str], core: int | None) -> None:
    """Serve the provider that the first frame names, found in ``directories``, until the frame ``close``.

    ``descriptors``: the worker's ends of the pipes, see ``process``. Code beneath the directories of ``trust`` is not
    checked. ``core``: the caller's limit of core dumps, for the programs that are run here, if the
    runtime has forbidden them.
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
    """Serve a provider as a program does: frames on standard input and output; prints go to standard error."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    _serve(requests, replies, Registry.from_path(*directories))


def _serve(requests: int, replies: int, registry: Registry, interrupts: int | None = None) -> None:
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
        os._exit(DISCONNECTED)


def _end_with_runtime(lifeline: int) -> None:
    """Have the kernel kill this process, whatever it does, when the runtime's end of the pipe is closed."""
    lifeline = move_descriptor(lifeline)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(DISCONNECTED)


class _Server:
    """Answers calls of one provider."""

    def __init__(self, connection: Connection, registry: Registry, hello: Mapping[str, Any]) -> None:
        self._connection = connection
        self._instance: str = hello["instance"]
        self._run = WorkerRun(connection, hello["level"])
        self._run.log.mask.on_secret = lambda _secret, _declared: core_dumps.forbid()
        self._registry = registry
        self._providers = ProviderPool(registry, self._run)
        self._providers.only = hello["implementation"]
        self._pid = os.getpid()
        process.set_listener(lambda pid, *, running: connection.send("program", pid=pid, running=running))
        if hello["level"] == "debug":
            faulthandler.enable()

    def await_interrupt(self, interrupts: int) -> None:
        """Wait in a thread until the run is interrupted; call ``cancel`` of the provider beside its current call."""
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
                members = {name: value for name, value in frame.body.items() if name in _CALL}
                self._answer("done", partial(self._call_frame, members), id=frame.body["id"])
        self._answer("closed", lambda: self._close(interrupted=frame.body.get("interrupted", False)))

    def _load(self) -> Mapping[str, Any]:
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
        return self._registry.type(split_instance(self._instance)[0]).for_instance(self._instance)

    def _close(self, *, interrupted: bool) -> Mapping[str, Any]:
        self._providers.close(interrupted=interrupted)
        return {}

    def _answer(self, kind: str, make_body: Callable[[], Mapping[str, Any]], **common: Any) -> bool:
        """Send a frame of ``kind``, or one with the error that its body raised; return whether it was the first."""
        try:
            try:
                body = make_body()
            finally:
                if os.getpid() != self._pid:
                    os._exit(70)
                for stream in (sys.stdout, sys.stderr):
                    with suppress(OSError, ValueError):
                        stream.flush()
            self._connection.send(kind, **body, **common)
        except Disconnected:
            raise
        except BaseException as error:  # noqa: BLE001 - the runtime decides the consequences
            self._run.log_traceback(error, self._instance)
            self._connection.send("raised", **protocol.encode_error(error, self._run.log.mask), **common)
            return False
        return True

    def _call_frame(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"value": self._call(**body)}

    def _call(
        self,
        method: str,
        arguments: Sequence[Any],
        *,
        terms: Mapping[str, Any],
        bound: Mapping[str, Any],
        fresh: bool,
        config: Any = None,
    ) -> Any:
        """Call the provider; ``terms`` are those of the context, ``bound`` are fields of the log.

        ``fresh`` has the provider made anew. Without a ``config``, one that needs it can answer pure methods only.
        """
        with self._run.call():
            if fresh:
                self._providers.close()
            if config is not None:
                self._providers.configure(self._instance, config)
            is_function = method in self._definition().functions
            provider = self._providers.instance(self._instance, configured=is_function or method in _CONFIGURED)
            context = self._context(**terms, answering=method not in _REPORTING)
            with self._run.log.bind(**bound), process_guard.protected(), context.activate(provider):
                return self._call_method(provider, context, method, arguments)

    def _call_method(self, provider: Any, context: Context, method: str, arguments: Sequence[Any]) -> Any:
        """Call one method with the arguments that it expects; return plain data."""
        call = getattr(provider, method)
        if method in _BATCHED:
            return [_answer(context, method, call, item) for item in arguments[0]]
        if method in context.type.functions:
            return call(context, **arguments[0])
        if method == "preflight":
            arguments = [{item["name"]: item["should"] for item in arguments[0]}]
        if method == "side_effects":
            arguments = [{item["name"]: Change(item["is"], item["should"]) for item in arguments[0]}]
        if method == "set":
            extra = {"noop": context.noop} if "noop_handler" in context.type.features else {}
            changes = self._changes(**arguments[0])
            try:
                call(context, changes, **extra)
            finally:
                if self._run.cancelled:
                    self._run.report_begun(changes.begun)
            return None
        return _plain_data(context.type, method, call(*call_arguments(method, context, arguments, call)))

    def _context(
        self, subjects: Any, *, noop: bool, reading: bool, answering: bool, seconds: float | None, **_later: object
    ) -> Context:
        return Context(
            self._definition(),
            self._run,
            subjects={subject.pop("name"): Subject(**subject) for subject in subjects},
            noop=noop,
            reading=reading,
            answering=answering,
            deadline=None if seconds is None else time.monotonic() + seconds,
        )

    def _changes(self, changes: Sequence[Mapping[str, Any]], blocked: Sequence[Name]) -> Changes:
        offered = {change["name"]: Change(change["is"], change["should"]) for change in changes}
        blocked_names = set(blocked)

        def is_blocked(name: Name) -> bool:
            return name in blocked_names or self._run.blocked(name)

        return Changes(offered, is_blocked, lambda: self._run.cancelled)


def _answer(context: Context, method: str, call: Callable[..., Any], arguments: Sequence[Any]) -> Mapping[str, Any]:
    """Return the answer to one of many calls, or the error that it raised."""
    try:
        return {"value": _plain_data(context.type, method, call(context, *arguments))}
    except Disconnected:
        raise
    except BaseException as error:  # noqa: BLE001 - the runtime decides the consequences
        return {"raised": protocol.encode_error(error, context.mask)}


def _plain_data(definition: TypeDefinition, method: str, answer: Any) -> Any:
    """Return an answer as plain data where the provider may return other objects, such as iterators."""
    if method == "get":
        return collect_rows(definition, answer)
    if method == "refresh":
        return None
    if method == "preflight":
        return [[name, protocol.problem_fields(problem)] for name, problem in (() if answer is None else answer)]
    if method == "side_effects":
        return [[name, protocol.side_effect_fields(effect)] for name, effect in (() if answer is None else answer)]
    if method == "validate":
        answers = validation_answers(answer)
        return [protocol.problem_fields(part) if isinstance(part, Problem) else part for part in answers]
    if method == "plan" and isinstance(answer, Planned):
        state = dict(answer.state) if hasattr(answer.state, "items") else answer.state
        return {**answer._asdict(), "state": state, "unknown": list(answer.unknown), "replace": list(answer.replace)}
    if method == "upgrade" and hasattr(answer, "keys"):
        return dict(answer)
    return answer
