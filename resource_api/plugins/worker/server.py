"""What a worker process does: it makes the provider of one type and answers the runtime's calls, one after the other.

Runs in a process of its own, see ``plugins.worker.process``; the provider is made, lent a context and guarded
as it is anywhere. Which frames there are is in ``docs/isolation.md``.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Change, Changes
from resource_api.model.provider_functions import Planned
from resource_api.model.values.errors import Problem
from resource_api.model.values.reference import split_instance
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker import exceptions as failure
from resource_api.plugins.worker.channel import DISCONNECTED, Channel, Disconnected, secured
from resource_api.plugins.worker.messages import PROTOCOL
from resource_api.plugins.worker.relay import DistantRun
from resource_api.provider.base import call_arguments, collect_rows
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.system.process import process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import TypeDefinition

#: What is only called of a provider that has its configuration.
_CONFIGURED: Final = frozenset({"get", "set", "refresh", "due"})
#: What is asked of many resources in one call.
_OF_MANY: Final = frozenset({"validate", "insync"})
#: What a provider may leave out.
_OPTIONAL: Final = frozenset({"check_config", "diff_config"})


def main(requests: int, replies: int, lifeline: int, places: Sequence[str]) -> None:
    """Serve the provider that the first frame names, found in ``places``, until ``close``."""
    _die_with(lifeline)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # real streams
    channel = Channel(requests, replies)
    try:
        hello = channel.receive().body
        if hello["protocol"] != PROTOCOL:
            channel.send("ready", protocol=PROTOCOL)
            return
        _Server(channel, Registry(ModulePath(places, distributions=False)), hello).serve()
    except Disconnected:
        os._exit(DISCONNECTED)


def _die_with(lifeline: int) -> None:
    """Have the kernel kill this process when the other end of a pipe is closed, whatever we are busy with."""
    lifeline = secured(lifeline)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(DISCONNECTED)


class _Server:
    """Answers calls of one provider."""

    def __init__(self, channel: Channel, registry: Registry, hello: Mapping[str, Any]) -> None:
        self._channel = channel
        self._instance: str = hello["instance"]
        self._run = DistantRun(channel, hello["level"])
        self._registry = registry
        self._providers = ProviderPool(registry, self._run)
        self._pid = os.getpid()
        process.set_listener(lambda pid, *, running: channel.send("program", pid=pid, running=running))
        if hello["level"] == "debug":
            import faulthandler  # noqa: PLC0415 - only for those who debug

            faulthandler.enable()

    def serve(self) -> None:
        """Load the type, say so, and answer until ``close``."""
        if not self._attempt("ready", self._load):
            return
        while (frame := self._channel.receive()).kind != "close":
            if frame.kind == "call":
                self._attempt("done", lambda call=frame.body: {"value": self._call(**call)})
        self._attempt("closed", lambda: self._close(**frame.body))

    def _load(self) -> Mapping[str, Any]:
        definition = self._definition()
        self._registry.provider(definition.name)
        return {
            "protocol": PROTOCOL,
            "schema_version": definition.schema_version,
            "features": definition.features,
        }

    def _definition(self) -> TypeDefinition:
        return self._registry.type(split_instance(self._instance)[0]).for_instance(self._instance)

    def _close(self, *, interrupted: bool) -> Mapping[str, Any]:
        self._providers.close(interrupted=interrupted)
        return {}

    def _attempt(self, kind: str, work: Any) -> bool:
        """Do something, and say what came of it: a frame of ``kind``, or what was raised."""
        try:
            try:
                body = work()
            finally:
                if os.getpid() != self._pid:
                    os._exit(70)
                for stream in (sys.stdout, sys.stderr):
                    with suppress(OSError, ValueError):
                        stream.flush()
            self._channel.send(kind, **body)
        except Disconnected:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the runtime decides what to do about it
            self._channel.send("raised", **failure.describe(error))
            return False
        return True

    def _call(
        self, method: str, arguments: Sequence[Any], *, terms: Mapping[str, Any], fresh: bool, config: Any = None
    ) -> Any:
        """Call the provider; ``terms`` are those of the context, ``fresh`` asks for one that has cached nothing.

        Without a ``config`` only what answers from its arguments alone can be called of a type that is configured.
        """
        with self._run.attending():
            if fresh:
                self._providers.close()
            if config is not None:
                self._providers.configure(self._instance, config)
            function = method in self._definition().functions
            provider = self._providers.instance(self._instance, configured=function or method in _CONFIGURED)
            context = self._context(**terms)
            with process_guard.protected(), context.activate(provider):
                return self._ask(provider, context, method, arguments)

    def _ask(self, provider: Any, context: Context, method: str, arguments: Sequence[Any]) -> Any:
        """Call one method as its provider expects it; gives plain data."""
        if method in _OPTIONAL and not hasattr(provider, method):
            # Of what may be left out, nothing is said.
            return arguments[0] if method == "check_config" else None
        ask = getattr(provider, method)
        if method in _OF_MANY:
            return [_answer(context, method, ask, calls) for calls in arguments[0]]
        if method in context.type.functions:
            return ask(context, **arguments[0])
        if method == "set":
            extra = {"noop": context.noop} if "noop_handler" in context.type.features else {}
            ask(context, self._changes(**arguments[0]), **extra)
            return None
        return _data(context.type, method, ask(*call_arguments(method, context, arguments)))

    def _context(self, subjects: Any, *, noop: bool, reading: bool, seconds: float | None) -> Context:
        return Context(
            self._definition(),
            self._run,
            subjects={name: Subject(*shown) for name, *shown in subjects},
            noop=noop,
            reading=reading,
            deadline=None if seconds is None else time.monotonic() + seconds,
        )

    def _changes(self, offered: Sequence[Any], blocked: Sequence[Any]) -> Changes:
        before = set(blocked)
        changes = {name: Change(_fixed(change.is_), _fixed(change.should)) for name, change in offered}
        return Changes(changes, lambda name: name in before or self._run.blocked(name))


def _answer(
    context: Context, method: str, ask: Callable[..., Any], calls: Sequence[Sequence[Any]]
) -> Mapping[str, Any]:
    """Answer one of many questions, each alone with what it raises."""
    try:
        return {"value": [_data(context.type, method, ask(context, *call)) for call in calls]}
    except Disconnected:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the runtime decides what to do about it
        return {"raised": failure.describe(error)}


def _fixed(state: Any) -> Any:
    return None if state is None else MappingProxyType(state)


def _data(definition: TypeDefinition, method: str, answer: Any) -> Any:
    """Give an answer as plain data, where what is asked for may be more than that."""
    if method == "get":
        return collect_rows(definition, answer)
    if method == "refresh":
        return None
    if method == "validate":
        found = [answer] if isinstance(answer, (str, Problem)) else () if answer is None else answer
        return [each if isinstance(each, Problem) else Problem(None, str(each)) for each in found]
    if method == "plan" and isinstance(answer, Planned):
        state = dict(answer.state) if hasattr(answer.state, "items") else answer.state
        return Planned(state, list(answer.unknown), list(answer.replace), answer.delete_first)
    if method == "upgrade" and hasattr(answer, "keys"):
        return dict(answer)
    return answer
