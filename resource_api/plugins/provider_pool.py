"""The provider instances of one transaction: creation, configuration, interruption, closing, and their pure methods.

The name of an instance is the name of its type, or ``vm_host@lab`` for a configured provider. It is made with
``Provider()`` at the first call that needs it, so that an earlier resource can set up its prerequisites.
"""

from __future__ import annotations

import _thread
import importlib
import json
import threading
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.datatypes import messages
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.sealed_secrets import declared_secrets
from resource_api.model.type_definition import MAX_SETTLE
from resource_api.model.values.errors import MissingModule, Problem, ProviderError, WrongAnswer, reason
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import Sensitive, are_flat, copy_resource, reveal
from resource_api.plugins import implementations as several_implementations
from resource_api.plugins.loader import ExecutableProvider
from resource_api.provider.base import call_arguments, validation_answers
from resource_api.provider.context import Context, RunContext
from resource_api.system import process_guard

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Question
    from resource_api.model.type_definition import FunctionCall, Name, Resource, TypeDefinition
    from resource_api.plugins.implementations import Implementations, Suitability
    from resource_api.plugins.registry import Registry
    from resource_api.plugins.worker.process import WorkerProcess
    from resource_api.plugins.worker.proxy import WorkerProvider


#: The reason of a pure function that fails for a secret: its message may hold parts of it.
_CONCEALED: Final = "an input does not fit; it is a secret, so the reason is not shown"
#: Seconds that ``close`` of a provider waits for its ``cancel`` to return.
_CANCELLATION: Final = 2.0


class ProviderPool:
    """The providers of one transaction, by instance; closed at its end, also when it ends by an exception."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Begin without providers, to be made from the types and classes of ``registry``, for the calls of ``run``."""
        self.registry = registry
        self.run = run
        run.trusted_directories = registry.trusted_directories
        #: Returns why policies forbid a resource, empty where they do not; None where there are no policies.
        self.check_policies: Callable[[Entry, Mapping[str, object]], str] | None = None
        #: The results of functions in this transaction, by instance, function, secrecy and inputs.
        self._function_results: dict[tuple[str, str, bool, str], object] = {}
        #: Returns, for an instance, the implementation of each resource that has one of its own, by name.
        self.assigned: Callable[[str], Mapping[object, str]] = lambda _instance: {}
        #: Instance → the implementation that the manifest states for all its resources.
        self.required: dict[str, str] = {}
        #: The only provider that is made, whether it is suitable or not; set in a worker.
        self.only = ""
        #: The instances of types with several providers.
        self.several: dict[str, Implementations] = {}
        #: Closed instance → the implementation that was chosen.
        self._chosen: dict[str, str] = {}
        #: Instance → the range of versions of its type, and its configuration.
        self._versions: dict[str, str] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}
        #: Why an instance cannot be configured.
        self._unavailable: dict[str, str] = {}
        #: Instance → its provider, which may not be configured yet.
        self._made: dict[str, Any] = {}
        #: The instances whose providers run in workers.
        self._isolated: set[str] = set()
        #: Instance → its provider, if it is configured and ready for every call.
        self._configured: dict[str, object] = {}
        #: A resource and a function may need an instance at once.
        self._lock = threading.RLock()
        #: The contexts of pure functions, also of closed instances: ``wrote_output`` asks them all.
        self._pure_contexts: list[Context] = []
        #: Instance → its pure functions, until it is closed.
        self._functions: dict[str, ProviderFunctions] = {}
        #: Cancelled instance → the lock that is held until its ``cancel`` returns.
        self._cancelling: dict[str, _thread.LockType] = {}

    def __enter__(self) -> Self:
        """Have ``cancel`` of the providers called when the run is cancelled; return the pool."""
        self.run.on_cancel = self.cancel
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close every instance; a ``BaseException`` that is no ``Exception`` is an interruption."""
        self.run.on_cancel = None
        self.close(interrupted=error is not None and not isinstance(error, Exception))

    def select_versions(self, versions: Mapping[str, str]) -> None:
        """Use the newest version of a type that is in a range (PEP 440); ``versions``: instance → range."""
        self._versions.update(versions)

    def select_implementations(self, required: Mapping[str, str]) -> None:
        """Use one implementation for all resources of an instance; ``required``: instance → its name, or "" for any."""
        self.required.update({instance: name for instance, name in required.items() if name})

    def implementation(self, instance: str, name: object, recorded: str | None = None) -> str | None:
        """Return the name of the provider that manages the resource ``name``, or None where its type has only one.

        The state records it, and a plan compares it with the record. It is the stated one, or else this machine's
        choice; as long as no call has needed a choice it is the ``recorded`` one.
        """
        implementations = self.several.get(instance)
        return None if implementations is None else implementations.implementation(name) or recorded

    def chosen(self) -> dict[str, str]:
        """Return instance → implementation, as this machine or the manifest chose; also for closed instances."""
        return self._chosen | {instance: several.chosen for instance, several in self.several.items() if several.chosen}

    def suitability(self, instance: str) -> list[Suitability]:
        """Return for each provider of a type whether it is suitable on this machine, for the command ``types``.

        Return an empty list for a type with only one provider, which needs no choice.
        """
        definition = self._definition(instance)
        self._make(instance)
        implementations = self.several.get(instance)
        if implementations is None:
            return []
        with process_guard.contained():
            return implementations.suitability(Context(definition, self.run, answering=True))

    def configure(self, instance: str, config: Mapping[str, object]) -> None:
        """Set the configuration of an instance, and mask its secrets.

        If the configuration changes, the provider is closed, and its next use makes another one with the new values.
        """
        self._unavailable.pop(instance, None)
        if config != self._configs.get(instance):
            self._close(instance)
            self._configs[instance] = config
            self.run.log.mask.add(config)

    def settle(self, definition: TypeDefinition) -> float:
        """Return the seconds that a change of an instance may take to become visible, as configured or declared."""
        configured = self._configs.get(definition.instance, {}).get("settle")
        return definition.settle if configured is None else min(MAX_SETTLE, max(0, configured))

    def mark_unavailable(self, instance: str, error: str) -> None:
        """Note why an instance cannot be configured: each call that needs it fails with ``ProviderError``."""
        self._unavailable[instance] = error

    def instance(self, instance: str, *, configured: bool = True) -> Any:
        """Return a provider instance, made and configured at its first use. Raise ``ProviderError`` when that fails.

        ``configured`` is false for methods that depend on their arguments alone: they need no configuration.
        """
        if not configured:
            return self._make(instance)
        if instance not in self._configured:
            with self._lock:
                self._configure(instance)
        return self._configured[instance]

    def functions(self, instance: str) -> ProviderFunctions:
        """Return the pure methods of a type's provider, such as ``canonicalize``, as plain functions.

        Compiling and planning call them. The provider is made at the first call of one. A worker, also that of an
        executable, is started now, to get the names of its methods. Raise ``DefinitionError`` where the type or
        provider is broken.
        """
        if instance not in self._functions:
            definition = self._definition(instance)
            provider_class = None if self._isolates(definition) else self._provider_class(definition)
            if provider_class is not None and issubclass(provider_class, ExecutableProvider):
                provider_class = None
            calls = _PureCalls(definition, self.run, lambda: self._make(instance), provider_class)
            if provider_class is None:
                self._make(instance)
            self._pure_contexts.append(calls.context)
            self._functions[instance] = calls.functions(self.check_policies, self._implementation_names(definition))
        return self._functions[instance]

    def declared(self, instance: str) -> ProviderFunctions:
        """Return the pure functions for a manifest's resources. Raise ``DefinitionError`` for a broken one.

        If a program or module is missing, a resource of the manifest may install it, so the result then has only the
        type, and the error as ``missing``. Compiling needs the provider at once if it has a configuration or a worker:
        then the error is raised.
        """
        definition = self._definition(instance)
        # The check of a configuration, and a worker's list of its methods, cannot wait for an installation.
        can_wait = not (definition.config.attributes or self._isolates(definition))
        try:
            functions = self.functions(instance)
            if can_wait and (functions.canonicalize is not None or functions.validate is not None):
                self._make(instance)  # compiling calls these two: now it shows whether the provider can be made
        except (MissingModule, ProviderError) as error:
            if not can_wait:
                raise
            importlib.invalidate_caches()  # later installations must be visible
            return ProviderFunctions(definition, {}, missing=str(error))
        return functions

    def call_function(self, call: FunctionCall, inputs: Mapping[str, object], secret: bool) -> object:  # noqa: FBT001 - part of the call
        """Return the result of a function that a type declares, cached by its inputs for the transaction.

        A function reads from the system, so its result is checked against its data type like that of ``get``. The
        result is ``Sensitive`` if ``secret`` is true or the data type is sensitive. Raise ``ValueError`` with the
        reason of a failure, which is not cached.
        """
        key = (call.instance, call.name, secret, json.dumps(dict(inputs), default=_key_part))
        if key not in self._function_results:
            self._function_results[key] = self._call_function(call, inputs, secret=secret)
        return deepcopy(self._function_results[key])

    def _call_function(self, call: FunctionCall, inputs: Mapping[str, object], *, secret: bool) -> object:
        """Call a function of a provider and check its answer. Raise ``ValueError`` with the reason, without secrets.

        Secrets in the inputs and the result are masked, because the provider and messages may show them.
        """
        datatype, mask = call.function.datatype, self.run.log.mask
        mask.add(inputs)
        answer = self._answer_of_function(call, inputs, secret=secret)
        answer = answer if call.function.keeps_secrets else reveal(answer)
        if not datatype.accepts(Sensitive(answer) if datatype.sensitive else answer):
            problem = messages.first_problem(datatype, Sensitive(answer) if secret else answer)
            raise ValueError(f"function {call} must return {datatype.text}: its result {problem}")
        result = Sensitive(answer) if secret or datatype.sensitive else answer
        mask.add(result)
        return result

    def _answer_of_function(self, call: FunctionCall, inputs: Mapping[str, object], *, secret: bool) -> Any:
        """Return the unchecked answer of a provider's function. Raise ``ValueError`` with the reason of a failure.

        A pure function needs no configured provider. It fails only for its inputs, so the message shows no part of a
        secret one.
        """
        try:
            provider = self.instance(call.instance, configured=not call.function.pure)
            context = Context(self.functions(call.instance).definition, self.run, answering=True)
            with process_guard.contained(), context.activate(provider), self.run.provider_call():
                return getattr(provider, call.name)(context, **copy_resource(inputs))
        except Exception as error:  # a provider's method may raise anything
            self.run.log_traceback(error, str(call))
            msg = f"function {call} failed: {reason(error)}"
            if call.function.pure:
                msg = f"{call}: {_CONCEALED if secret else reason(error)}"
            raise ValueError(msg) from error

    @property
    def wrote_output(self) -> bool:
        """Whether any pure function has logged above the level info or concealed a secret: a cached plan would not."""
        return any(context.wrote_output for context in self._pure_contexts)

    def cancel(self) -> None:
        """Call ``cancel`` of each instance in a thread, beside the calls that run. Safe in a signal handler.

        ``_thread`` is used because ``threading`` takes locks that the interrupted thread may hold.
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
        """Call ``cancel`` of a provider in a thread, beside the call that it is to end.

        ``returned`` is held until it returns: ``close`` awaits that, so that no provider is closed within ``cancel``.
        """
        try:
            # The working directory, the umask and the like are restored by the call that runs beside, at its end.
            call()
        except BaseException as error:  # noqa: BLE001 - the thread ends
            self._warn(instance, f"cancel of its provider failed: {reason(error)}")
        finally:
            returned.release()

    def close(self, *, interrupted: bool = False) -> None:
        """Close every instance. After an interruption first ``cancel`` each, for which a limited time is allowed.

        Workers are asked to end before any is awaited, so that they end side by side.
        """
        for instance in list(self._made) if interrupted else ():
            if instance not in self._cancelling:
                self._call_at_end(instance, "cancel")
        for returned in self._cancelling.values():
            returned.acquire(timeout=_CANCELLATION)
        self._cancelling.clear()
        for instance in self._made.keys() & self._isolated:
            self._made[instance].begin_close()
        for instance in list(self._made):
            self._close(instance)
        self.registry.close_families()

    def _isolates(self, definition: TypeDefinition) -> bool:
        """Return whether the provider of a type runs in a worker; a family's program is a process of its own."""
        return self.run.isolates(definition) and not self.registry.is_in_family(definition.name)

    def _definition(self, instance: str) -> TypeDefinition:
        """Return the type of an instance, in the version selected for it. Raise ``DefinitionError``."""
        type_name = split_instance(instance)[0]
        return self.registry.type(type_name, self._versions.get(instance, "")).for_instance(instance)

    def _provider_class(self, definition: TypeDefinition, implementation: str = "") -> builtins.type[object]:
        """Return the class of a provider of a type, to make it or to list its pure methods.

        It is that of ``implementation``, or else of the only one that this worker serves, of the one that the manifest
        states for the instance, or of the preferred one.
        """
        instance = definition.instance
        name = implementation or self.only or self.required.get(instance, "")
        return self.registry.provider(definition.name, self._versions.get(instance, ""), name)

    def _implementation_names(self, definition: TypeDefinition) -> Sequence[str]:
        """Return the names of a type's providers in the order of preference; isolated ones are not loaded for it."""
        versions = self._versions.get(definition.instance, "")
        return self.registry.implementations(definition.name, versions, load=not self._isolates(definition))

    def _configure(self, instance: str) -> None:
        """Make and configure the provider of an instance, unless another thread has, and add it to ``_configured``."""
        if instance in self._configured:
            return
        definition = self.functions(instance).definition
        provider = self._make(instance)
        if definition.config.attributes:
            self._call_configure(instance, definition, provider)
        self._configured[instance] = provider

    def _make(self, instance: str) -> object:
        """Return the provider of an instance, made at its first use; it may not be configured yet.

        It is a worker, an object that chooses between several providers, or the provider itself. In a worker, which
        serves ``only`` one provider, there is nothing to choose.
        """
        if instance not in self._made:
            definition = self._definition(instance)
            if self._isolates(definition):
                self._isolated.add(instance)
                self._made[instance] = self._make_isolated(definition)
            elif not self.only and self.registry.needs_choice(definition.name, self._versions.get(instance, "")):
                self._made[instance] = self.several[instance] = self._make_several(definition)
            else:
                self._made[instance] = self._make_one(definition)
        return self._made[instance]

    def _make_isolated(self, definition: TypeDefinition) -> object:
        """Return an isolated type's provider, served by a worker, or by one worker for each of several providers.

        The code of an isolated provider is loaded in its worker only, so the worker of each provider is started, to get
        the provider's priority and the answer of ``suitable``.
        """
        names = self._implementation_names(definition)
        first = self._start_worker(definition, names[0])
        if len(names) == 1 and not first.decides:  # without ``suitable`` the only provider needs no choice
            return first
        implementations = self.several[definition.instance] = self._make_several(definition)
        implementations.add_all({names[0]: first, **{name: self._start_worker(definition, name) for name in names[1:]}})
        return implementations

    def _make_several(self, definition: TypeDefinition) -> several_implementations.Implementations:
        """Return the object that chooses between several providers of a type at its first call."""
        instance = definition.instance
        return several_implementations.Implementations(
            definition,
            self._implementation_names(definition),
            partial(self._make_one, definition),
            self.required.get(instance, ""),
            lambda: self.assigned(instance),
        )

    def _start_worker(self, definition: TypeDefinition, implementation: str) -> WorkerProvider:
        """Start a provider's process, an executable or our interpreter with the type's modules; return its proxy."""
        from resource_api.plugins.worker import process, proxy  # only where providers run in processes of their own

        versions = self._versions.get(definition.instance, "")
        if executable := self.registry.executable(definition.name, versions, implementation):
            start: Callable[..., WorkerProcess] = partial(process.ProgramWorker, executable)
        else:
            directories = self.registry.module_path_of(definition.name, versions)
            start = partial(process.PythonWorker, directories, trust=self.registry.trusted_directories)
        return proxy.WorkerProvider(proxy.WorkerPool(definition, self.run, start, implementation))

    def _make_one(self, definition: TypeDefinition, implementation: str = "") -> object:
        """Return an object of one provider's class, or a worker for an executable. Raise ``ProviderError``.

        ``implementation``: its name if the type has several. The constructor is the author's code, and may raise
        anything.
        """
        provider_class = self._provider_class(definition, implementation)
        if issubclass(provider_class, ExecutableProvider):
            self._isolated.add(definition.instance)
            return self._start_worker(definition, implementation or definition.name)
        try:
            with process_guard.contained():
                provider = provider_class()
            # Threads of the provider may run programs outside of calls: they use this context.
            Context(definition, self.run, reading=True).make_default(provider)
        except Exception as error:
            self.run.log_traceback(error, definition.name)
            raise ProviderError(f"the provider of '{definition.name}' cannot be made: {reason(error)}") from error
        return provider

    def _call_configure(self, instance: str, definition: TypeDefinition, provider: Any) -> None:
        """Call ``configure`` of a provider with a copy of its configuration.

        Raise ``ProviderError`` for its exception, and where the instance has no configuration or cannot have one
        (``mark_unavailable``).
        """
        if instance in self._unavailable:
            raise ProviderError(self._unavailable[instance])
        if instance not in self._configs:
            raise ProviderError(f"the provider '{instance}' is not configured")
        context = Context(definition, self.run, answering=True)
        try:
            with process_guard.contained(), context.activate(provider):
                provider.configure(context, MappingProxyType(copy_resource(self._configs[instance])))
        except Exception as error:
            self.run.log_traceback(error, instance)
            raise ProviderError(f"the provider '{instance}' cannot be configured: {reason(error)}") from error

    def _close(self, instance: str) -> None:
        """Close the provider of an instance, so that its next use makes another one.

        The implementation that was chosen is kept for ``chosen``: a cached plan is valid only for the same choice.
        """
        if instance in self._made:
            self._call_at_end(instance, "close")
            del self._made[instance]
            implementations = self.several.pop(instance, None)
            if implementations is not None and implementations.chosen:
                self._chosen[instance] = implementations.chosen
        self._configured.pop(instance, None)
        self._functions.pop(instance, None)

    def _call_at_end(self, instance: str, method: str) -> None:
        """Call ``cancel`` or ``close`` of a provider that has it; an exception is a warning, as the run is over."""
        if (call := self._end_method(instance, method)) is None:
            return
        try:
            with process_guard.contained():
                call()
        except Exception as error:  # noqa: BLE001 - contained: everything else is over already
            self.run.log_traceback(error, instance)
            self._warn(instance, f"{method} of its provider failed: {reason(error)}")

    def _warn(self, instance: str, text: str) -> None:
        """Log a warning about an instance, as of its type."""
        self.run.log.write("warning", instance, text, split_instance(instance)[0])

    def _end_method(self, instance: str, method: str) -> Callable[[], None] | None:
        """Return the method ``cancel`` or ``close`` of a provider, or None if it has none or needs no such call.

        A provider that was never configured has answered pure functions only, so it holds nothing to close.
        """
        if instance not in self._configured and instance not in self._isolated:
            return None
        try:
            call: Callable[[], None] | None = getattr(self._made[instance], method, None)
        except Exception as error:  # noqa: BLE001 - contained: it is the provider's own __getattr__
            self._warn(instance, f"{method} of its provider failed: {reason(error)}")
            return None
        return call


class _PureCalls:
    """The pure methods of one provider, those that depend on their arguments alone, as plain functions for pure stages.

    Providers get copies of values, and plain values where a value is secret only in this manifest. The calls are not
    guarded one by one (``process_guard.protected``): a plan is guarded as a whole.
    """

    def __init__(
        self,
        definition: TypeDefinition,
        run: RunContext,
        provider: Callable[[], Any],
        provider_class: type[object] | None,
    ) -> None:
        """Prepare calls of the provider that ``provider`` makes or returns.

        ``provider_class``: the class with its methods; None for a worker, which has all of them.
        """
        self.context = Context(definition, run, answering=True)
        self._definition = definition
        self._mask = run.log.mask
        self._provider = provider
        self._class = provider_class

    def functions(
        self, check_policies: Callable[[Entry, Mapping[str, object]], str] | None, implementations: Sequence[str]
    ) -> ProviderFunctions:
        """Return the provider's pure methods as functions; None for one whose feature the type does not declare.

        ``check_policies`` and ``implementations`` (the names of the type's providers) are passed on for planning.
        """
        features = self._definition.features
        return ProviderFunctions(
            self._definition,
            {},
            canonicalize=self.canonicalize if "canonicalize" in features else None,
            validate=self.validate if "validate" in features else None,
            insync=self.insync if "custom_insync" in features else None,
            plan=self.plan if "plan" in features else None,
            upgrade=self.upgrade if "upgrade" in features else None,
            check_config=self._config_function("check_config"),
            diff_config=self._config_function("diff_config"),
            check_policies=check_policies,
            implementations=implementations,
        )

    def canonicalize(self, resources: list[Resource]) -> list[Resource]:
        """Return resources in canonical form, which share no value with the provider.

        Providers expect plain values in attributes that are not declared sensitive. If this manifest makes one of them
        secret, the value is unwrapped for the call and wrapped again.
        """
        self._mask_secrets(resources)
        if are_flat(resources):
            return self._canonicalize(list(map(dict, resources)))
        copies = [copy_resource(resource) for resource in resources]
        unwrapped_keys = [self._unwrap_secrets(copy) for copy in copies]
        canonical = self._canonicalize(copies)
        for resource, keys in zip(canonical, unwrapped_keys, strict=True):
            for key in keys & resource.keys():
                resource[key] = Sensitive(resource[key])
        return canonical

    def _unwrap_secrets(self, resource: Resource) -> set[str]:
        """Replace secrets by plain values in attributes that are not declared sensitive; return their keys.

        Providers expect plain values there. The caller wraps the attributes of these keys again.
        """
        keys = {key for key in resource.keys() - self._definition.sensitive if isinstance(resource[key], Sensitive)}
        for key in keys:
            self._mask.add(resource[key])
            resource[key] = resource[key].reveal()
        return keys

    def validate(self, resources: Sequence[Mapping[str, object]]) -> Iterator[list[Problem] | Exception]:
        """Yield the problems of each resource, or the exception of its check, which must not stop the others."""
        self._mask_secrets(resources)
        flat = are_flat(resources)
        if not flat:  # there may be values that only this manifest makes secret
            self._mask.add(resources)
        if self._class is None:
            yield from self._provider().validate_each(self.context, resources)
            return
        for resource in map(dict, resources) if flat else map(copy_resource, resources):
            try:
                answer = process_guard.call_contained(self._provider().validate, self.context, resource)
                outcome: list[Problem] | Exception = [] if answer is None or answer == [] else _problems(answer)
            except Exception as error:  # noqa: BLE001 - its exception is the problem of this resource
                self.context.log_traceback(error)
                outcome = error
            yield outcome

    def _mask_secrets(self, resources: Iterable[Mapping[str, object]]) -> None:
        """Mask the values that are secret as declared, before a provider may log them."""
        if self._definition.secret:
            self._mask.add([(resource, declared_secrets(self._definition, resource)) for resource in resources])

    def insync(self, questions: Iterable[Question]) -> Iterator[list[object] | Exception]:
        """Yield for each question the answers of ``insync`` to it, or its exception, which must not stop the others.

        A question is a resource's name, some of its attributes, and its real and desired values, which the provider
        compares for the plan, attribute by attribute. A worker, without a class here, gets all questions in one call.
        """
        if self._class is None:
            yield from self._provider().insync_each(self.context, questions)
            return
        for question in questions:
            try:
                answers: list[object] | Exception = process_guard.call_contained(self._answers, question)
            except Exception as error:  # noqa: BLE001 - its exception is its answer
                self.context.log_traceback(error)
                answers = error
            yield answers

    def _answers(self, question: Question) -> list[object]:
        """Call ``insync`` for each attribute of one question and return the answers, in the order of the attributes."""
        name, attributes, is_, should = question
        compare = self._provider().insync
        return [compare(self.context, name, attribute, is_, should) for attribute in attributes]

    def plan(self, name: Name, is_: Mapping[str, object] | None, should: Mapping[str, object]) -> Any:
        """Return the provider's prediction for a change."""
        return self._call("plan", *deepcopy((name, is_, should)))

    def upgrade(self, version: int, values: Mapping[str, object]) -> Any:
        """Return recorded values in the form of the type's schema version; ``version`` is the version of ``values``."""
        return self._call("upgrade", version, deepcopy(dict(values)))

    def _canonicalize(self, copies: list[Resource]) -> list[Resource]:
        """Call ``canonicalize``, and return a copy of its answer.

        Raise ``WrongAnswer`` unless the answer is a list of as many resources.
        """
        count = len(copies)
        answer = self._call("canonicalize", copies)
        if (
            not isinstance(answer, list)
            or len(answer) != count
            or not all(type(resource) is dict for resource in answer)
        ):
            raise WrongAnswer(_not_the_resources(self._definition.name, answer, count))
        # A copy shares no list or mapping with the provider; scalars need none, and a worker's answer is one already.
        return answer if self._class is None or are_flat(answer) else list(map(copy_resource, answer))

    def _config_function(self, method: str) -> Callable[..., Any] | None:
        """Return ``check_config`` or ``diff_config`` of a provider as a plain function, None if it has none.

        A worker always has one: its methods are unknown here, and its proxy answers for a missing one.
        """
        if not self._definition.config.attributes or (self._class is not None and not hasattr(self._class, method)):
            return None

        def call(*configs: Mapping[str, object]) -> object:
            """Call the method with its secrets masked."""
            self._mask.add(configs)
            return self._call(method, *configs)

        return call

    def _call(self, method: str, *arguments: Any) -> object:
        """Call a pure method of the provider, with secrets among its arguments masked.

        Its exception is passed on, and its traceback is logged for the author; an exit becomes a ``ProviderError``. If
        ``canonicalize`` fails for many resources, it is called again for each, and only those failures are logged.
        """
        if self._definition.sensitive:
            self._mask.add(arguments)
        call = getattr(self._provider(), method)
        try:
            return process_guard.call_contained(call, *call_arguments(method, self.context, arguments, call))
        except Exception as error:
            if method != "canonicalize" or len(arguments[0]) == 1:
                self.context.log_traceback(error)
            raise


def _not_the_resources(type_name: str, answer: object, count: int) -> str:
    """Return the error message for a wrong answer of ``canonicalize`` to ``count`` resources."""
    must = f"canonicalize of type '{type_name}' must return"
    if answer is None:
        return f"{must} the resources that it was given, not None; does it end with 'return resources'?"
    if not isinstance(answer, list):
        return f"{must} the resources that it was given as a list, not {type(answer).__name__}"
    if len(answer) != count:
        return f"{must} the resources that it was given, {count} in this call, not {len(answer)}"
    kind = next(type(resource).__name__ for resource in answer if type(resource) is not dict)
    return f"{must} mappings of attribute to value, not {kind}"


def _problems(answer: object) -> list[Problem]:
    """Return the answer of ``validate`` as problems. Raise ``ProviderError`` for another answer or severity."""
    answers = validation_answers(answer)
    return [answer.checked() if isinstance(answer, Problem) else Problem(None, answer) for answer in answers]


def _key_part(value: object) -> object:
    """Return a value that JSON lacks in a form for the key of a function's result, different for different values."""
    return ["<sensitive>", value.reveal()] if isinstance(value, Sensitive) else repr(value)
