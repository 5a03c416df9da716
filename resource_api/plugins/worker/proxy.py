"""Providers that run in workers: what stands in for one here, and the worker processes behind it.

A worker answers one call at a time; calls side by side get a worker each. What is lost with one is its call.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Changes
from resource_api.model.values.errors import DefinitionError, ProviderError
from resource_api.plugins.worker import exceptions as failure
from resource_api.plugins.worker.call import Exchange, Overdue, never
from resource_api.plugins.worker.messages import PROTOCOL
from resource_api.plugins.worker.process import Lost, Worker
from resource_api.plugins.worker.relay import hear
from resource_api.provider.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.provider_functions import Question
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem
    from resource_api.plugins.worker.messages import Frame
    from resource_api.provider.context import RunContext

#: Seconds that a worker has to end by itself.
PATIENCE: Final = 2.0

_LEVELS: Final = {1: "notice", 2: "warning"}


class WorkerProvider:
    """Stands in for a provider that runs in workers: it has the same methods."""

    def __init__(self, definition: TypeDefinition, places: Sequence[str], run: RunContext) -> None:
        """Start the first worker. Raises ``DefinitionError`` when it cannot load the type and its provider."""
        self._workers = _Workers(definition, places, run)
        self._finalizer = weakref.finalize(self, self._workers.close)
        self._workers.warm()

    def get(self, context: Context, *names: Any) -> Any:
        """Give what exists."""
        return self._workers.call(context, "get", *names)

    def set(self, context: Context, changes: Mapping[Name, Any], **_noop: bool) -> None:
        """Bring every name from ``is_`` to ``should``."""
        self._workers.call(context, "set", changes if isinstance(changes, Changes) else Changes(changes, never))

    def refresh(self, context: Context, names: Sequence[Name]) -> None:
        """Refresh what was notified."""
        self._workers.call(context, "refresh", names)

    def due(self, context: Context, name: Name, should: Resource) -> Any:
        """Tell whether to run."""
        return self._workers.call(context, "due", name, should)

    def canonicalize(self, context: Context, resources: list[Resource]) -> Any:
        """Give resources in their one form."""
        return self._workers.call(context, "canonicalize", resources)

    def validate_each(self, context: Context, resources: Iterable[Resource]) -> Iterator[list[Problem] | Exception]:
        """Give what is wrong with each of many resources, asked for in one go."""
        for found in self._each(context, "validate", [[(should,)] for should in resources]):
            yield found if isinstance(found, Exception) else found[0]

    def insync_each(self, context: Context, questions: Iterable[Question]) -> Iterator[list[Any] | Exception]:
        """Give whether attributes of many resources are as they should be, asked for in one go."""
        asked = [[(name, each, is_, should) for each in some] for name, some, is_, should in questions]
        return self._each(context, "insync", asked)

    def _each(self, context: Context, method: str, questions: list[list[tuple[Any, ...]]]) -> Iterator[Any]:
        """Put questions, each a list of the arguments of its calls; gives what those returned, or the first error."""
        try:
            answers = self._workers.call(context, method, questions) if questions else []
        except Exception as error:  # noqa: BLE001 - the answer to each
            answers = [{"raised": failure.describe(error)}] * len(questions)
        for found in answers:
            yield failure.contained(found["raised"]) if "raised" in found else found["value"]

    def plan(self, context: Context, name: Name, is_: Resource | None, should: Resource) -> Any:
        """Foresee."""
        return self._workers.call(context, "plan", name, is_, should)

    def upgrade(self, version: int, values: Resource) -> Any:
        """Bring recorded values to the type's version."""
        return self._workers.call(self._workers.nobody, "upgrade", version, values)

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Be configured: each worker is, before its first call that needs it."""
        self._workers.config = dict(config)

    def check_config(self, context: Context, config: Resource) -> Any:
        """Give the configuration with what only the provider can tell."""
        return self._workers.call(context, "check_config", config)

    def diff_config(self, context: Context, is_: Resource, should: Resource) -> Any:
        """Tell which changes put what was made out of reach."""
        return self._workers.call(context, "diff_config", is_, dict(should))

    def __getattr__(self, name: str) -> Any:
        """Give a function of the provider: it takes its inputs by name."""
        if name.startswith("_") or name not in self._workers.functions:
            raise AttributeError(name)
        return lambda context, **inputs: self._workers.call(context, name, inputs)

    def cancel(self) -> None:
        """Be interrupted: each provider is told before it is closed."""
        self._workers.interrupted = True

    def begin_close(self) -> None:
        """Tell the workers to end, and do not wait."""
        self._workers.begin_close()

    def close(self) -> None:
        """End the workers."""
        self._finalizer()


class _Workers:
    """The worker processes of one provider."""

    def __init__(self, definition: TypeDefinition, places: Sequence[str], run: RunContext) -> None:
        self._definition = definition
        self._places = places
        self._run = run
        self.functions = definition.functions
        #: What the provider is configured with; None: nothing yet.
        self.config: Mapping[str, Any] | None = None
        self.interrupted = False
        #: What is said in no call is said in this one.
        self.nobody = Context(definition, run, reading=True)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._leaving: list[Worker] = []
        #: How many calls have changed something, and how many of those each worker has made or been renewed after.
        self._changes = 0
        self._known: dict[Worker, int] = {}

    def warm(self) -> None:
        """Start a worker, to wait for the first call."""
        self._idle.append(self._start())

    def call(self, context: Context, method: str, *arguments: Any) -> Any:
        """Have one worker carry out a call. Raises what the provider raises, and ``Lost``."""
        worker, before = self._take(), self._changes
        call = Exchange(self._run, context, method, self.config)
        try:
            answer = call.carry_out(worker, arguments, fresh=self._known.get(worker) != before)
        except Overdue:
            self._drop(worker, context)
            call.give_up()
            return None
        except BaseException:
            self._drop(worker, context)
            raise
        with self._lock:
            self._changes += not context.reading
            # Whose call was the only one to change something meanwhile need not forget what it has cached.
            self._known[worker] = self._changes if self._changes == before + (not context.reading) else -1
            self._idle.append(worker)
        return answer()

    def begin_close(self) -> None:
        """Tell the workers that nothing more is asked of them."""
        with self._lock:
            leaving, self._idle = self._idle, []
        self._leaving += leaving
        for worker in leaving:
            worker.send("close", interrupted=self.interrupted)

    def close(self) -> None:
        """Wait until the workers have ended, but not for long."""
        self.begin_close()
        while self._leaving:
            for frame in self._leaving.pop().end(PATIENCE):
                if frame.kind in {"line", "conceal"}:
                    hear(self._run, self.nobody, *frame)

    def _take(self) -> Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None and worker.has_ended():
            lost = worker.lost()
            self._known.pop(worker, None)
            if not worker.stopped:
                text = f"its worker {lost.how} while nothing was asked of it{lost.more}; another is started"
                self._run.log.write("warning", self._definition.name, text)
            worker = None
        return worker or self._start()

    def _drop(self, worker: Worker, context: Context) -> None:
        worker.kill()
        with self._lock:
            self._changes += not context.reading
            self._known.pop(worker, None)

    def _start(self) -> Worker:
        name = self._definition.name
        try:
            worker = Worker(self._places, self._say)
        except OSError as error:
            msg = f"the worker of '{name}' cannot be started: {error.strerror}"
            raise ProviderError(msg) from error
        try:
            instance = self._definition.instance
            worker.send("hello", protocol=PROTOCOL, instance=instance, level=self._run.log.level)
            answer = worker.receive()
            while answer.kind not in {"ready", "raised"}:
                answer = worker.receive()
        except BaseException as error:
            worker.kill()
            if not isinstance(error, Lost):
                raise
            msg = f"the worker of '{name}' {error.how} while it loaded the type and its provider{error.more}"
            raise DefinitionError(msg) from error
        worker.drain()
        if problem := self._unfit(answer):
            worker.kill()
            raise problem
        self._known[worker] = self._changes
        return worker

    def _unfit(self, answer: Frame) -> BaseException | None:
        """Give why a worker cannot serve."""
        if answer.kind == "raised":
            return failure.restore(answer.body)
        name, definition, said = self._definition.name, self._definition, answer.body
        if said.get("protocol") != PROTOCOL:
            return ProviderError(
                f"the worker of '{name}' speaks protocol {said.get('protocol')} and this run {PROTOCOL}:"
                " resource-api has been replaced meanwhile; run again"
            )
        if said.get("schema_version") != definition.schema_version or said.get("features") != definition.features:
            return DefinitionError(f"the worker of '{name}' has loaded another version of the type; run again")
        return None

    def _say(self, stream: int, line: str) -> None:
        self._run.log.write(_LEVELS[stream], self._definition.name, line)
