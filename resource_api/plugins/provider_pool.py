"""The provider instances of one transaction: found, made, configured, closed; their pure methods as plain functions.

An instance is known by what its resources are told apart by: the type's name, or ``vm_host@lab`` for a configured one.
Made with ``Provider()`` at the first call that needs it, so that an earlier resource can set up what a provider
needs (seed, "Runtime Environment"). What is called when is the stages' business.
"""

from __future__ import annotations

import threading
from copy import deepcopy
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values.columnar import are_flat
from resource_api.model.values.errors import Problem, ProviderError, reason
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import copy_resource
from resource_api.plugins import pure_calls as answers
from resource_api.provider.base import call_arguments
from resource_api.provider.context import Context, RunContext
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Question
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry
    from resource_api.plugins.worker.proxy import Isolated


class ProviderPool:
    """The providers of one transaction, by instance; closed at its end, also when it ends by an exception."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Make none yet."""
        self.registry = registry
        self.run = run
        #: What policies say of one resource; None where there are none.
        self.judge: Callable[[Entry, Mapping[str, Any]], str] | None = None
        self._versions: dict[str, str] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._refused: dict[str, str] = {}
        #: Made, of those the ones that run in workers, and the ones that are configured.
        self._made: dict[str, Any] = {}
        self._isolated: set[str] = set()
        self._making = threading.RLock()
        self._instances: dict[str, Any] = {}
        self._tools: dict[str, ProviderFunctions] = {}
        #: Lent to what answers from its arguments alone.
        self._asking: list[Context] = []
        #: What functions have answered in this transaction.
        self.answers: dict[tuple[str, str, str], Any] = {}

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close every instance; what is no ``Exception`` is an interruption."""
        self.close(interrupted=error is not None and not isinstance(error, Exception))

    def expect(self, versions: Mapping[str, str]) -> None:
        """Take the newest type that fits a range of versions (PEP 440) for each of these instances."""
        self._versions.update(versions)

    def configure(self, instance: str, config: Mapping[str, Any]) -> None:
        """Say what an instance is configured with, when it is first called; another configuration ends the old one."""
        self._refused.pop(instance, None)
        if config != self._configs.get(instance):
            self._end(instance)
            self._configs[instance] = config
            self.run.log.mask.add(config)

    def refuse(self, instance: str, why: str) -> None:
        """Say why an instance cannot be configured: whoever calls it is told."""
        self._refused[instance] = why

    def instance(self, instance: str, *, configured: bool = True) -> Any:
        """Give an instance, made and configured when first asked for. ``ProviderError`` when that cannot be.

        One that is not ``configured`` is enough for what answers from its arguments alone.
        """
        if not configured:
            return self._raw(instance)
        if instance not in self._instances:
            # A resource and a function may need it at once.
            with self._making:
                self._ready(instance)
        return self._instances[instance]

    def _ready(self, instance: str) -> None:
        if instance in self._instances:
            return
        definition = self.tools(instance).definition
        made = self._raw(instance)
        if definition.config.attributes:
            self._set_up(instance, definition, made)
        self._instances[instance] = made

    def _raw(self, instance: str) -> Any:
        """Give an instance that has perhaps not been configured: enough for what answers from its arguments alone."""
        if instance not in self._made:
            definition = self._definition(instance)
            make = self._make
            if self.run.isolates(definition):
                make = self._isolate
                self._isolated.add(instance)
            self._made[instance] = make(definition, self._versions.get(instance, ""))
        return self._made[instance]

    def _definition(self, instance: str) -> TypeDefinition:
        return self.registry.type(split_instance(instance)[0], self._versions.get(instance, "")).for_instance(instance)

    def _isolate(self, definition: TypeDefinition, versions: str) -> Isolated:
        from resource_api.plugins.worker.proxy import Isolated  # noqa: PLC0415 - only for a provider in a worker

        return Isolated(definition, self.registry.module_path_of(definition.name, versions), self.run)

    def _make(self, definition: TypeDefinition, versions: str) -> Any:
        provider = self.registry.provider(definition.name, versions)
        try:
            with process_guard.contained():
                made = provider()
            self._context(definition).make_default(made)
        except Exception as error:
            msg = f"the provider of '{definition.name}' cannot be made: {reason(error)}"
            raise ProviderError(msg) from error
        return made

    def _set_up(self, instance: str, definition: TypeDefinition, made: Any) -> None:
        if instance in self._refused:
            raise ProviderError(self._refused[instance])
        if instance not in self._configs:
            msg = f"the provider '{instance}' is not configured"
            raise ProviderError(msg)
        context = self._context(definition)
        try:
            with process_guard.contained(), context.activate(made):
                made.configure(context, MappingProxyType(copy_resource(self._configs[instance])))
        except Exception as error:
            msg = f"the provider '{instance}' cannot be configured: {reason(error)}"
            raise ProviderError(msg) from error

    @property
    def wrote_output(self) -> bool:
        """Whether what answers from its arguments alone has said anything beside its answer."""
        return any(context.wrote_output for context in self._asking)

    def tools(self, instance: str) -> ProviderFunctions:
        """Give a type's pure functions; raises ``DefinitionError`` when the type or its provider is broken."""
        if instance not in self._tools:
            self._tools[instance] = self._make_tools(instance)
        return self._tools[instance]

    def _make_tools(self, instance: str) -> ProviderFunctions:
        definition = self._definition(instance)
        if self.run.isolates(definition):
            self._raw(instance)
        else:
            self.registry.provider(definition.name, self._versions.get(instance, ""))
        features = definition.features
        context = self._context(definition)
        self._asking.append(context)

        def call(method: str, *arguments: Any) -> Any:
            # Not guarded call by call: these answer from their arguments, and a plan is guarded as a whole.
            if definition.sensitive:
                self.run.log.mask.add(arguments)
            return process_guard.call_contained(
                getattr(self._raw(instance), method), *call_arguments(method, context, arguments)
            )

        return ProviderFunctions(
            definition,
            {},
            (lambda resources: answers.canonicalized(self.run, definition, call, resources))
            if "canonicalize" in features
            else None,
            self._validate(instance, definition, context) if "validate" in features else None,
            self._insync(instance, context) if "custom_insync" in features else None,
            (lambda *arguments: call("plan", *deepcopy(arguments))) if "plan" in features else None,
            (lambda version, values: call("upgrade", version, deepcopy(dict(values))))
            if "upgrade" in features
            else None,
            self._configuring("check_config", definition, call),
            self._configuring("diff_config", definition, call),
            self.judge,
        )

    def _configuring(
        self, method: str, definition: TypeDefinition, call: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Give ``check_config`` or ``diff_config`` of a provider that has it."""
        if not definition.config.attributes:
            return None
        if not self.run.isolates(definition):
            provider = self.registry.provider(definition.name, self._versions.get(definition.instance, ""))
            if not hasattr(provider, method):
                return None

        def masked(*configs: Mapping[str, Any]) -> Any:
            self.run.log.mask.add(configs)
            return call(method, *configs)

        return masked

    def _validate(
        self, instance: str, definition: TypeDefinition, context: Context
    ) -> Callable[[Sequence[Mapping[str, Any]]], Iterator[list[Problem] | Exception]]:
        """Give the check of many resources, each alone with what it raises."""
        if self.run.isolates(definition):
            return partial(self._raw(instance).validated, context)
        method = self._method(instance, "validate")

        def validate(resources: Sequence[Mapping[str, Any]]) -> Iterator[list[Problem] | Exception]:
            if definition.sensitive:
                self.run.log.mask.add(resources)
            found: list[Problem] | Exception
            for each in map(dict, resources) if are_flat(resources) else map(copy_resource, resources):
                try:
                    answer = process_guard.call_contained(method(), context, each)
                    found = [] if answer is None or answer == [] else answers.problems(answer)
                except Exception as error:  # noqa: BLE001 - what a provider raises is the problem of this resource
                    found = error
                yield found

        return validate

    def _insync(
        self, instance: str, context: Context
    ) -> Callable[[Iterable[Question]], Iterator[list[Any] | Exception]]:
        """Give the comparison, its method looked up once: it is called for each attribute of each resource."""
        if self.run.isolates(context.type):
            return partial(self._raw(instance).compared, context)
        method = self._method(instance, "insync")

        def insync(questions: Iterable[Question]) -> Iterator[list[Any] | Exception]:
            answers: list[Any] | Exception
            for name, attributes, is_, should in questions:
                try:
                    ask = method()
                    answers = [ask(context, name, attribute, is_, should) for attribute in attributes]
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - what a provider raises is its answer
                    answers = error if isinstance(error, Exception) else ProviderError(reason(error))
                yield answers

        return insync

    def _method(self, instance: str, name: str) -> Callable[[], Callable[..., Any]]:
        """Give a provider's method when it is first needed, and from then on."""

        @cache
        def method() -> Callable[..., Any]:
            found: Callable[..., Any] = getattr(self._raw(instance), name)
            return found

        return method

    def _context(self, definition: TypeDefinition) -> Context:
        return Context(definition, self.run, reading=True)

    def close(self, *, interrupted: bool = False) -> None:
        """End every instance: nothing is kept beyond a transaction. An interruption is told to each before."""
        for instance in list(self._made) if interrupted else ():
            self._part(instance, "cancel")
        for instance in self._made.keys() & self._isolated:
            # Workers end side by side.
            self._made[instance].leave()
        for instance in list(self._made):
            self._end(instance)

    def _end(self, instance: str) -> None:
        if instance in self._made:
            self._part(instance, "close")
            del self._made[instance]
        self._instances.pop(instance, None)
        self._tools.pop(instance, None)

    def _part(self, instance: str, method: str) -> None:
        """Call a method of the end of a provider's life, where it has one; what it raises ends nothing else.

        A provider that was only asked what it answers from its arguments alone has begun nothing that could end.
        """
        call = getattr(self._made[instance], method, None)
        if call is None or not (instance in self._instances or instance in self._isolated):
            return
        try:
            with process_guard.protected():
                call()
        except Exception as error:  # noqa: BLE001 - contained: everything else is over already
            self.run.log.write("warning", instance, f"{method} of its provider failed: {reason(error)}")
