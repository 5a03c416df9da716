"""The provider instances of one transaction: made, configured, interrupted, closed.

The name of an instance is that of its type, or ``vm_host@lab`` for a configured provider. It is made with
``Provider()`` at the first call that needs it, so that an earlier resource can set up what the provider needs (Puppet
Resource API, "Runtime Environment"). Which methods are called when is decided in other packages.
"""

from __future__ import annotations

import _thread
import importlib
import threading
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.type_definition import MAX_SETTLE
from resource_api.model.values.errors import MissingModule, ProviderError, reason
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import copy_resource
from resource_api.plugins.definitions import ExecutableProvider
from resource_api.plugins.pure_calls import PureCalls
from resource_api.provider.context import Context, RunContext
from resource_api.system import process_guard

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.implementations import Implementations, Suitability
    from resource_api.plugins.registry import Registry
    from resource_api.plugins.worker.proxy import WorkerProvider


#: Seconds that ``close`` of a provider waits for its ``cancel`` to return.
_CANCELLATION: Final = 2.0


class ProviderPool:
    """The providers of one transaction, by instance; closed at its end, also when it ends by an exception."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Begin without any provider made."""
        self.registry = registry
        self.run = run
        run.trusted_directories = registry.trusted_directories
        #: Returns why policies forbid a resource, empty where they do not; None where there are no policies.
        self.check_policies: Callable[[Entry, Mapping[str, Any]], str] | None = None
        #: The results of functions in this transaction, by instance, function and inputs.
        self.function_results: dict[tuple[str, str, str], Any] = {}
        #: Returns, for an instance, the implementation of each resource that has one of its own, by name.
        self.assigned: Callable[[str], Mapping[Any, str]] = lambda _instance: {}
        #: Instance → the implementation that the manifest states for all its resources.
        self.required: dict[str, str] = {}
        #: The only provider that is made, whether it is suitable or not; set in a worker.
        self.only = ""
        #: The instances of types with several providers.
        self.several: dict[str, Implementations] = {}
        #: Of those that are closed, the implementation that was chosen.
        self._chosen: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}
        #: Why an instance cannot be configured.
        self._unavailable: dict[str, str] = {}
        self._made: dict[str, Any] = {}
        #: The names of those that run in workers.
        self._isolated: set[str] = set()
        #: Those of ``_made`` that are ready for every call.
        self._configured: dict[str, Any] = {}
        #: A resource and a function may need an instance at once.
        self._lock = threading.RLock()
        #: The contexts of pure functions.
        self._pure_contexts: list[Context] = []
        self._functions: dict[str, ProviderFunctions] = {}
        #: Instances whose ``cancel`` has been called, each with a lock that is held until it returns.
        self._cancelling: dict[str, _thread.LockType] = {}

    def __enter__(self) -> Self:
        """Have the providers cancelled with the run; return itself."""
        self.run.on_cancel = self.cancel
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close every instance; a ``BaseException`` that is no ``Exception`` is an interruption."""
        self.run.on_cancel = None
        self.close(interrupted=error is not None and not isinstance(error, Exception))

    def select_versions(self, versions: Mapping[str, str]) -> None:
        """Use the newest type that fits a range of versions (PEP 440) for each of these instances."""
        self._versions.update(versions)

    def select_implementations(self, required: Mapping[str, str]) -> None:
        """Use one implementation for all resources of each of these instances."""
        self.required.update({instance: name for instance, name in required.items() if name})

    def implementation(self, instance: str, name: Any, recorded: str | None = None) -> str | None:
        """Return which of several providers manages a resource; None where the type has one.

        Where none has been chosen yet, that is the ``recorded`` one.
        """
        found = self.several.get(instance)
        return None if found is None else found.implementation(name) or recorded

    def chosen(self) -> dict[str, str]:
        """Return the implementations that this machine, or the manifest for an instance, has chosen so far.

        What was chosen stays known when the providers are closed.
        """
        return self._chosen | {instance: found.chosen for instance, found in self.several.items() if found.chosen}

    def suitability(self, instance: str) -> list[Suitability]:
        """Return whether each of several providers is suitable here; empty for a type with one that always is."""
        definition = self._definition(instance)
        self._make(instance)
        found = self.several.get(instance)
        if found is None:
            return []
        with process_guard.contained():
            return found.suitability(Context(definition, self.run, answering=True))

    def configure(self, instance: str, config: Mapping[str, Any]) -> None:
        """Set the configuration of an instance; a different one closes the instance, to be made again."""
        self._unavailable.pop(instance, None)
        if config != self._configs.get(instance):
            self._close(instance)
            self._configs[instance] = config
            self.run.log.mask.add(config)

    def settle(self, definition: TypeDefinition) -> float:
        """Return the seconds that a change of an instance may take to become visible, as configured or declared."""
        configured = self._configs.get(definition.instance, {}).get("settle")
        return definition.settle if configured is None else min(MAX_SETTLE, max(0, configured))

    def mark_unavailable(self, instance: str, why: str) -> None:
        """Note why an instance cannot be configured: each call that needs it fails with ``ProviderError``."""
        self._unavailable[instance] = why

    def instance(self, instance: str, *, configured: bool = True) -> Any:
        """Return an instance, made and configured at its first use. Raise ``ProviderError`` when that fails.

        One that need not be ``configured`` is for methods that use nothing but their arguments.
        """
        if not configured:
            return self._make(instance)
        if instance not in self._configured:
            with self._lock:
                self._configure(instance)
        return self._configured[instance]

    def functions(self, instance: str) -> ProviderFunctions:
        """Return a type's pure functions. Raise ``DefinitionError`` when the type or its provider is broken."""
        if instance not in self._functions:
            definition = self._definition(instance)
            found = None if self.run.isolates(definition) else self._provider_class(definition)
            own = None if found is None or issubclass(found, ExecutableProvider) else found
            calls = PureCalls(definition, self.run, lambda: self._make(instance), own)
            if own is None:
                self._make(instance)
            self._pure_contexts.append(calls.context)
            self._functions[instance] = calls.functions(self.check_policies, self._implementation_names(definition))
        return self._functions[instance]

    def declared(self, instance: str) -> ProviderFunctions:
        """Return the pure functions for the resources of a manifest, with the provider made where these need it.

        Where that fails and a resource may install what is missing, the functions are only the type. Raise
        ``DefinitionError`` when the type or its provider is broken.
        """
        definition = self._definition(instance)
        can_wait = not (definition.config.attributes or self.run.isolates(definition))
        try:
            found = self.functions(instance)
            if can_wait and (found.canonicalize is not None or found.validate is not None):
                self._make(instance)
        except (MissingModule, ProviderError) as error:
            if not can_wait:
                raise
            importlib.invalidate_caches()  # what is installed from now on must be found
            return ProviderFunctions(definition, {}, missing=str(error))
        return found

    @property
    def wrote_output(self) -> bool:
        """Whether any pure function has logged something above the level info, or concealed a secret."""
        return any(context.wrote_output for context in self._pure_contexts)

    def cancel(self) -> None:
        """Call ``cancel`` of each instance, in a thread each, beside what runs. Safe in a signal handler.

        In a handler, this thread may hold any lock: of the provider, and those of ``threading`` that starting takes.
        """
        for instance in list(self._made):
            if instance not in self._cancelling and (call := self._end_method(instance, "cancel")) is not None:
                returned = self._cancelling[instance] = _thread.allocate_lock()
                returned.acquire()
                try:
                    _thread.start_new_thread(self._cancel, (instance, call, returned))
                except RuntimeError:  # no more threads: ``close`` calls it
                    del self._cancelling[instance]

    def _cancel(self, instance: str, call: Callable[[], None], returned: _thread.LockType) -> None:
        try:
            # This process is not protected: the call that runs beside restores it.
            call()
        except BaseException as error:  # noqa: BLE001 - the thread ends
            self._warn(instance, f"cancel of its provider failed: {reason(error)}")
        finally:
            returned.release()

    def close(self, *, interrupted: bool = False) -> None:
        """Close every instance; after an interruption, ``cancel`` is called before on each that has not had it."""
        for instance in list(self._made) if interrupted else ():
            if instance not in self._cancelling:
                self._call_at_end(instance, "cancel")
        for returned in self._cancelling.values():
            returned.acquire(timeout=_CANCELLATION)
        self._cancelling.clear()
        for instance in self._made.keys() & self._isolated:
            # Workers end side by side.
            self._made[instance].begin_close()
        for instance in list(self._made):
            self._close(instance)

    def _definition(self, instance: str) -> TypeDefinition:
        type_name = split_instance(instance)[0]
        return self.registry.type(type_name, self._versions.get(instance, "")).for_instance(instance)

    def _provider_class(self, definition: TypeDefinition, implementation: str = "") -> builtins.type[Any]:
        instance = definition.instance
        wanted = implementation or self.only or self.required.get(instance, "")
        return self.registry.provider(definition.name, self._versions.get(instance, ""), wanted)

    def _implementation_names(self, definition: TypeDefinition) -> Sequence[str]:
        versions = self._versions.get(definition.instance, "")
        return self.registry.implementations(definition.name, versions, load=not self.run.isolates(definition))

    def _configure(self, instance: str) -> None:
        if instance in self._configured:
            return
        definition = self.functions(instance).definition
        provider = self._make(instance)
        if definition.config.attributes:
            self._call_configure(instance, definition, provider)
        self._configured[instance] = provider

    def _make(self, instance: str) -> Any:
        """Return an instance that has perhaps not been configured yet."""
        if instance not in self._made:
            definition = self._definition(instance)
            if self.run.isolates(definition):
                self._isolated.add(instance)
                self._made[instance] = self._make_isolated(definition)
            elif not self.only and self.registry.needs_choice(definition.name, self._versions.get(instance, "")):
                self._made[instance] = self.several[instance] = self._make_several(definition)
            else:
                self._made[instance] = self._call_class(definition)
        return self._made[instance]

    def _make_isolated(self, definition: TypeDefinition) -> Any:
        """Start the workers of a type; only they load its providers, and report what decides between these."""
        names = self._implementation_names(definition)
        first = self._start_worker(definition, names[0])
        if len(names) == 1 and not first.decides:
            return first
        found = self.several[definition.instance] = self._make_several(definition)
        found.add_all({names[0]: first, **{name: self._start_worker(definition, name) for name in names[1:]}})
        return found

    def _make_several(self, definition: TypeDefinition) -> Implementations:
        from resource_api.plugins.implementations import Implementations

        instance = definition.instance
        return Implementations(
            definition,
            self._implementation_names(definition),
            partial(self._call_class, definition),
            self.required.get(instance, ""),
            lambda: self.assigned(instance),
        )

    def _start_worker(self, definition: TypeDefinition, implementation: str) -> WorkerProvider:
        from resource_api.plugins.worker.process import ProgramWorker, PythonWorker
        from resource_api.plugins.worker.proxy import WorkerProvider

        versions = self._versions.get(definition.instance, "")
        if executable := self.registry.executable(definition.name, versions, implementation):
            return WorkerProvider(definition, self.run, partial(ProgramWorker, executable), implementation)
        directories = self.registry.module_path_of(definition.name, versions)
        start = partial(PythonWorker, directories, trust=self.registry.trusted_directories)
        return WorkerProvider(definition, self.run, start, implementation)

    def _call_class(self, definition: TypeDefinition, implementation: str = "") -> Any:
        provider_class = self._provider_class(definition, implementation)
        if issubclass(provider_class, ExecutableProvider):
            self._isolated.add(definition.instance)
            return self._start_worker(definition, implementation or definition.name)
        try:
            with process_guard.contained():
                provider = provider_class()
            Context(definition, self.run, reading=True).make_default(provider)
        except Exception as error:
            self.run.log_traceback(error, definition.name)
            msg = f"the provider of '{definition.name}' cannot be made: {reason(error)}"
            raise ProviderError(msg) from error
        return provider

    def _call_configure(self, instance: str, definition: TypeDefinition, provider: Any) -> None:
        if instance in self._unavailable:
            raise ProviderError(self._unavailable[instance])
        if instance not in self._configs:
            msg = f"the provider '{instance}' is not configured"
            raise ProviderError(msg)
        context = Context(definition, self.run, answering=True)
        try:
            with process_guard.contained(), context.activate(provider):
                provider.configure(context, MappingProxyType(copy_resource(self._configs[instance])))
        except Exception as error:
            self.run.log_traceback(error, instance)
            msg = f"the provider '{instance}' cannot be configured: {reason(error)}"
            raise ProviderError(msg) from error

    def _close(self, instance: str) -> None:
        if instance in self._made:
            self._call_at_end(instance, "close")
            del self._made[instance]
            if (found := self.several.pop(instance, None)) is not None and found.chosen:
                self._chosen[instance] = found.chosen
        self._configured.pop(instance, None)
        self._functions.pop(instance, None)

    def _call_at_end(self, instance: str, method: str) -> None:
        """Call ``cancel`` or ``close`` of a provider that has it; an exception of one does not concern the others."""
        if (call := self._end_method(instance, method)) is None:
            return
        try:
            with process_guard.protected():
                call()
        except Exception as error:  # noqa: BLE001 - contained: everything else is over already
            self.run.log_traceback(error, instance)
            self._warn(instance, f"{method} of its provider failed: {reason(error)}")

    def _warn(self, instance: str, text: str) -> None:
        self.run.log.write("warning", instance, text, split_instance(instance)[0])

    def _end_method(self, instance: str, method: str) -> Callable[[], None] | None:
        """Return ``cancel`` or ``close`` of a provider, None where it has none or needs none.

        A provider that was used for pure functions only has begun nothing that must be closed.
        """
        used = instance in self._configured or instance in self._isolated
        call: Callable[[], None] | None = getattr(self._made[instance], method, None) if used else None
        return call
