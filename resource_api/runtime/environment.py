"""The environment of runs: registry, state, stack and log. It compiles manifests and changes no resource."""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import ExitStack, contextmanager
from copy import copy
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.sections import project_name
from resource_api.model.report import Diagnosed, Event
from resource_api.model.sealed_secrets import declared_secrets, open_sealed
from resource_api.model.values.errors import StateLocked, UsageError, suggestion
from resource_api.model.values.expression import EvaluationError
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.provider.context import RunContext
from resource_api.runtime.manifest_compiler import ManifestCompiler, short_secret_warnings
from resource_api.runtime.single_resource import ResourceReader
from resource_api.state.open_store import command_options, open_store
from resource_api.state.store import MEMORY, NoStore, StackName, Store
from resource_api.system import process_guard
from resource_api.system.facts import Facts
from resource_api.system.gc_pause import gc_paused
from resource_api.system.log import EmbeddedLog, Log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Self

    from resource_api.catalog.compile import Catalog
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.values import Values
    from resource_api.plugins.registry import Registry
    from resource_api.runtime.manifest_compiler import ReadContent, Source
    from resource_api.state.encryption.keys import Key

#: Seconds of one attempt to get the lock, after which its holder is read again; of a stack's, which a server keeps.
_ATTEMPT: Final = 0.2
_STACK_ATTEMPT: Final = 2.0
#: Arguments of a program: their Python types and description.
_ARGUMENTS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "stack": ((str,), "a name"),
    "project": ((str, NoneType), "a name or None"),
    "log": ((Log, NoneType), "a Log or None; events go to the program's structlog or logging without one"),
    "lock_timeout": ((int, float), "a number of seconds"),
}


def _check_arguments(state: object, **arguments: object) -> None:
    """Raise ``UsageError`` for an argument of a ``Runtime`` with a wrong type, before an error without a clear message.

    ``arguments``: parameter → its value; ``_ARGUMENTS`` has the types of these parameters.
    """
    if not (state is None or isinstance(state, str) or hasattr(state, "load")):
        raise UsageError(f"state must be sqlite:PATH, postgresql://..., memory:, None or a store, not {state!r}")
    for name, value in arguments.items():
        kinds, expected = _ARGUMENTS[name]
        if not isinstance(value, kinds):
            raise UsageError(f"{name} must be {expected}; it is {value!r}")


class RunEnvironment(ResourceReader):
    """The registry, state, stack and log of runs."""

    def __init__(
        self,
        registry: Registry,
        *,
        state: str | Store | None = "memory:",
        stack: str = "default",
        project: str | None = None,
        key: str | Key | None = None,
        log: Log | None = None,
        on_event: Callable[[Event], None] | None = None,
        step_events: bool = True,
        lock_timeout: float = 0.0,
        isolate: bool = False,
        run: RunContext | None = None,
        facts: Facts | None = None,
        contents: ReadContent | None = None,
    ) -> None:
        """Use ``registry`` for every run; nothing is read or opened yet.

        ``state``: ``memory:`` for as long as this object exists, ``sqlite:PATH``, ``postgresql://...``, None for the
        default state of the machine or user, or a store. ``project`` overrides the manifest's. ``key`` encrypts
        secrets, a URL as for ``--key``. ``log``: by default the program's structlog if that is configured, otherwise
        standard ``logging``. ``on_event`` receives every event of a run; without ``step_events`` only diagnostics and
        the final report, which is faster. ``lock_timeout``: seconds to wait for the state's lock. ``isolate``: run
        every provider in its own process. ``run``: an existing context, which can be cancelled; it replaces ``log``
        and ``isolate``. ``facts``: by default this machine's. ``contents`` reads the assets and archives of
        manifests, by default from files. Raise ``UsageError`` for an argument of another kind.
        """
        _check_arguments(state=state, stack=stack, project=project, log=log, lock_timeout=lock_timeout)
        if run is None:
            run = RunContext(log or EmbeddedLog())
            run.isolate = isolate or None
        super().__init__(registry, run)
        self.log = run.log
        self.stack = stack
        self.project = project
        self.notify: Callable[[Event], None] = on_event or (lambda _event: None)
        self.notify_steps = on_event if step_events else None  # without a receiver no such event is made
        #: Receives the document of each finished run, as ``report --format json`` prints it.
        self.on_document: Callable[[dict[str, Any]], None] | None = None
        #: The files that the inputs of its runs were read from.
        self.input_files: list[str] = []
        #: References of excluded resources that count as done, such as those that a rehearsal cannot apply.
        self.assumed: Collection[str] = ()
        self.lock_timeout = lock_timeout
        self.facts = facts or Facts()
        self._contents = contents
        if isinstance(key, str):
            from resource_api.state.encryption.keys import key_from_url

            key = key_from_url(key, dict(os.environ))
        self.key = key
        #: Creation time in nanoseconds; code that changed later is not the code that runs execute.
        self.created = time.time_ns()
        self._state = state
        self._store: Store | None = None if state is None or isinstance(state, str) else state

    def cancel(self) -> None:
        """End the run in progress, or the next one, after its running calls. Safe in any thread and signal handler.

        Calls that run are finished and read back, the remaining steps are skipped, and state is written.
        """
        self.run.cancel()

    @property
    def store(self) -> Store:
        """The state store, opened at its first use: many commands need none."""
        if self._store is None:
            self._store = open_store(None if self._state is None else str(self._state), self.key)
        return self._store

    @property
    def state_options(self) -> str:
        """The options of this state, `` --state sqlite:/a --stack prod``, without those with default values.

        Error messages advise commands with them, such as ``state untaint``, which otherwise would use another state.
        """
        url = self._state if isinstance(self._state, str) and self._state not in MEMORY else None
        stack = None if self.stack == "default" else self.stack
        key = None if self.key is None else self.key.url
        return command_options((("--state", url), ("--key", key), ("--stack", stack)))

    def with_store(self, store: Store) -> Self:
        """Return a copy of this environment with another store, such as that of a rehearsal; all else is shared."""
        environment = copy(self)
        environment._store = store  # noqa: SLF001 - of the same class
        return environment

    def with_copied_state(self, store: Store, catalog: Catalog | None = None) -> Self:
        """Return a copy of this environment for a rehearsal, with the given store, to which the stacks are copied.

        The present store is only read, without its lock. With a ``catalog``, copy only its own stack and the stacks
        whose outputs it uses: no other stack can affect its plan.
        """
        names = self.store.stacks()
        if catalog is not None:
            own_stack = self.name(catalog)
            needed = {own_stack, *(stack_name(own_stack.project, stack) for stack, _ in catalog.scope.stack_outputs)}
            names = [name for name in names if name in needed]
        with store.lock("copy", 0.0):
            for name in names:
                store.overwrite(name, self.store.load(name))
        return self.with_store(store)

    def begin_private_data(self, state: StackState, matched: Mapping[RecordKey, Record] | None = None) -> None:
        """Give the providers of a run the private data that they have stored in the records of ``state``.

        ``matched``: the records of the catalog's entries by their present keys, which for moved resources are new.
        """
        encrypted = self.key is not None or state.encrypted
        is_recorded = not isinstance(self.store, NoStore)
        # New data that no state records may contain secrets without a key.
        self.run.private.begin({**state.records, **(matched or {})}, may_hold_secrets=encrypted or not is_recorded)

    def compile(self, source: Source, inputs: Mapping[str, object] | None = None) -> Catalog:
        """Return the catalog of a manifest."""
        with ProviderPool(self.registry, self.run) as providers, gc_paused(), process_guard.protected():
            return self.catalog(source, inputs, providers)

    def catalog(self, source: Source, inputs: Mapping[str, object] | None, providers: ProviderPool) -> Catalog:
        """Return the catalog of a manifest for one run with ``providers``; report its warnings, mask its secrets."""
        with self.log.bind(phase="compile"):
            return self._report(self.compiler.compile(source, inputs or {}, providers))

    def catalog_of_providers(self, source: Source, inputs: Mapping[str, object], providers: ProviderPool) -> Catalog:
        """Return the catalog of a manifest without its resources, for ``destroy``; report warnings, mask secrets."""
        with self.log.bind(phase="compile"):
            return self._report(self.compiler.compile_providers(source, inputs, providers))

    def name(self, catalog: Catalog) -> StackName:
        """Return the project and stack of a run. Raise ``UsageError`` or ``ManifestError`` for invalid names."""
        return StackName(self.project or project_name(catalog.manifest), self.stack).checked()

    @property
    def compiler(self) -> ManifestCompiler:
        """A new compiler for one run: it collects the files of that run's assets, to warn if others can change them.

        The files of the command's inputs, read before, are a part of that collection.
        """
        compiler = ManifestCompiler(self.registry, self.facts, self.log, self._stack_outputs, self._contents)
        compiler.input_files = self.input_files
        return compiler

    def _stack_outputs(self, project: str, name: str) -> Values:
        """Return the recorded outputs of another stack, to which a manifest refers by ``name``; mask their secrets.

        ``project``: that of the manifest. A secret of which only a digest is recorded stays sealed. Raise
        ``EvaluationError`` for a stack that is not recorded, ``ValueError`` for the manifest's own stack.
        """
        own_stack = StackName(self.project or project, self.stack)
        stack = stack_name(own_stack.project, name)
        if stack == own_stack:
            raise ValueError("this is the stack itself; refer to its resources")
        if stack not in (stacks := self.store.stacks()):
            project = own_stack.project
            names = [row.stack if row.project == project else "/".join(row) for row in stacks if row != own_stack]
            advice = suggestion(name, names) or (f"recorded are: {', '.join(names)}" if names else "none is recorded")
            raise EvaluationError(f"unknown stack '{name}'; {advice}")
        outputs: Values = open_sealed(self.store.load(stack).outputs)
        self.log.mask.add(outputs)
        return outputs

    def _report(self, catalog: Catalog) -> Catalog:
        """Return a new catalog after its secrets are masked, its warnings are sent and its notes are logged.

        The secrets are masked first, since a warning or note may contain one.
        """
        catalog = self.mask_secrets(catalog)
        for warning in catalog.warnings:
            self.notify(Diagnosed(warning))
        for note in catalog.notes:
            self.log.write("debug", "", note)
        return catalog

    def mask_secrets(self, catalog: Catalog) -> Catalog:
        """Mask the secrets of a catalog in all further log lines.

        Return it with a warning for each secret that is too short to be masked.
        """
        inputs = catalog.scope.secret_inputs
        entries = [entry for entry in catalog.entries if entry.definition.sensitive]
        for entry in catalog.entries:
            if entry.definition.secret:
                self.log.mask.add([entry.should, declared_secrets(entry.definition, entry.should)])
        if not (inputs or entries):
            return catalog
        warnings = short_secret_warnings(catalog.manifest, inputs, entries, self.log.mask)
        return catalog._replace(warnings=[*catalog.warnings, *warnings])

    @contextmanager
    def lock(self, command: str) -> Iterator[None]:
        """Hold the lock of the state for one run of ``command``, so that no other run writes the state meanwhile.

        A wait for the lock is shown as progress. Raise ``StateLocked``.
        """
        with ExitStack() as stack:
            self._wait(lambda seconds: stack.enter_context(self.store.lock(command, seconds)), _ATTEMPT)
            yield

    def claim(self, name: StackName) -> None:
        """Hold the lock of a stack as long as that of ``lock`` is held; a wait is shown. Raise ``StateLocked``."""
        self._wait(lambda seconds: self.store.claim(name, seconds), _STACK_ATTEMPT)

    def _wait(self, acquire: Callable[[float], object], attempt: float) -> None:
        """Call ``acquire`` to get a lock within ``lock_timeout``; its argument is the number of seconds to wait.

        If progress is shown, many short calls of ``attempt`` seconds replace the one long call: the holder of the lock
        may change, and the display shows the present one after each call. Raise ``StateLocked`` after the timeout.
        """
        if self.run.progress is None or not self.lock_timeout:
            acquire(self.lock_timeout)
            return
        until = time.monotonic() + self.lock_timeout
        try:
            acquire(0.0)
        except StateLocked as error:
            wait = _LockWait(error, self.log)
            with self.run.progress().waiting(wait) as show:
                while not wait.try_lock(acquire, attempt, until):
                    show()


def stack_name(project: str, text: str) -> StackName:
    """Return the stack that a manifest of ``project`` calls ``text``: one of its own project, or ``PROJECT/STACK``."""
    return StackName(*text.rsplit("/", 1)) if "/" in text else StackName(project, text)


class _LockWait:
    """The activity of waiting for a lock, for the display of progress."""

    place = verb = ""
    subject = "waiting for the lock of the state"

    def __init__(self, error: StateLocked, log: Log) -> None:
        self.started = time.monotonic()
        self.error = error
        self._log = log

    @property
    def detail(self) -> str:
        """The holder of the lock."""
        return self.error.holder

    def try_lock(self, acquire: Callable[[float], object], attempt: float, until: float) -> bool:
        """Call ``acquire`` once, for at most ``attempt`` seconds and not beyond ``until``; return whether it succeeded.

        After a failure its error is stored, with the present holder of the lock for the display. The last attempt,
        which the time limit ``until`` shortens, raises the error, ``StateLocked``.
        """
        remaining = until - time.monotonic()
        try:
            acquire(max(0.0, min(attempt, remaining)))
        except StateLocked as error:
            self.error = error
            if remaining < attempt:
                raise
            return False
        return True

    def log(self, seconds: int) -> None:
        """Log that the wait goes on."""
        self._log.write("notice", "", f"still {self.subject}: {self.detail} ({seconds} s)")


def read_saved_plan(path: str) -> dict[str, Any] | None:
    """Return the document of a saved plan, or None for any other file, such as a manifest.

    ``apply`` gets either as its argument. The name of the file is not considered. A file that does not begin with ``{``
    is not read further, and one without the text ``"format_version"`` is not parsed: a large manifest costs nothing
    here.
    """
    try:
        # O_NONBLOCK: opening a named pipe would wait for its other end, and its content could be read only once.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.peek().lstrip().startswith(b"{")):
                return None
            text = file.read()
        document = json.loads(text.decode()) if b'"format_version"' in text else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "format_version" in document else None
