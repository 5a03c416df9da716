"""The provider instances of one transaction, and their pure methods as plain functions.

Made with ``Provider()`` at the first call that needs one, so that an earlier resource can set up what a provider
needs (seed, "Runtime Environment"). What is called when is the stages' business.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from resource_api.hands import guard
from resource_api.hands.context import Context, Run
from resource_api.nouns.columns import are_flat
from resource_api.nouns.errors import Problem, ProviderError, reason
from resource_api.nouns.reference import parts
from resource_api.nouns.tools import Tools
from resource_api.nouns.values import Sensitive, copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.contract.isolation import Isolated
    from resource_api.contract.registry import Registry
    from resource_api.nouns.definition import Resource, TypeDefinition
    from resource_api.nouns.entry import Entry
    from resource_api.nouns.tools import Question


class Providers:
    """The providers of one transaction, by instance: the type's name, or ``vm_host@lab`` for a configured one."""

    def __init__(self, registry: Registry, run: Run) -> None:
        """Make none yet."""
        self.registry = registry
        self.run = run
        #: What policies say of one resource; None where there are none.
        self.judge: Callable[[Entry, Mapping[str, Any]], str] | None = None
        self._instances: dict[str, Any] = {}
        self._tools: dict[str, Tools] = {}
        self._isolated: list[Isolated] = []

    def instance(self, instance: str) -> Any:
        """Give an instance, made when first asked for. A constructor that raises is a ``ProviderError``."""
        if instance not in self._instances:
            definition = self.registry.type(parts(instance)[0]).of_instance(instance)
            make = self._isolate if self.run.isolates(definition) else self._make
            self._instances[instance] = make(definition)
        return self._instances[instance]

    def _isolate(self, definition: TypeDefinition) -> Isolated:
        from resource_api.contract.isolation import Isolated  # noqa: PLC0415 - only for a provider in a worker

        made = Isolated(definition, self.registry.places(definition.name), self.run)
        self._isolated.append(made)
        return made

    def _make(self, definition: TypeDefinition) -> Any:
        provider = self.registry.provider(definition.name)
        try:
            with guard.answering():
                made = provider()
            self._context(definition).adopt(made)
        except Exception as error:
            msg = f"the provider of '{definition.name}' cannot be made: {reason(error)}"
            raise ProviderError(msg) from error
        return made

    def tools(self, instance: str) -> Tools:
        """Give a type's pure functions; raises ``DefinitionError`` when the type or its provider is broken."""
        if instance not in self._tools:
            self._tools[instance] = self._make_tools(instance)
        return self._tools[instance]

    def _make_tools(self, instance: str) -> Tools:
        type_name = parts(instance)[0]
        definition = self.registry.type(type_name).of_instance(instance)
        if self.run.isolates(definition):
            self.instance(instance)
        else:
            self.registry.provider(type_name)
        features = definition.features
        context = self._context(definition)

        def call(method: str, *arguments: Any) -> Any:
            # Not guarded call by call: these answer from their arguments, and a plan is guarded as a whole.
            if definition.sensitive:
                self.run.log.mask.add(arguments)
            return guard.answer(getattr(self.instance(instance), method), context, *arguments)

        return Tools(
            definition,
            {},
            (lambda resources: _canonicalized(self.run, definition, call, resources))
            if "canonicalize" in features
            else None,
            self._validate(instance, definition, context) if "validate" in features else None,
            self._insync(instance, context) if "custom_insync" in features else None,
            (lambda *arguments: call("plan", *deepcopy(arguments))) if "plan" in features else None,
            (lambda version, values: call("upgrade", version, deepcopy(dict(values))))
            if "upgrade" in features
            else None,
            self.judge,
        )

    def _validate(
        self, instance: str, definition: TypeDefinition, context: Context
    ) -> Callable[[Sequence[Mapping[str, Any]]], Iterator[list[Problem] | Exception]]:
        """Give the check of many resources, each alone with what it raises."""
        method = self._method(instance, "validate")

        def validate(resources: Sequence[Mapping[str, Any]]) -> Iterator[list[Problem] | Exception]:
            if definition.sensitive:
                self.run.log.mask.add(resources)
            for each in map(dict, resources) if are_flat(resources) else map(copied, resources):
                try:
                    answer = guard.answer(method(), context, each)
                    yield [] if answer is None or answer == [] else _problems(answer)
                except Exception as error:  # noqa: BLE001 - what a provider raises is the problem of this resource
                    yield error

        return validate

    def _insync(
        self, instance: str, context: Context
    ) -> Callable[[Iterable[Question]], Iterator[list[Any] | Exception]]:
        """Give the comparison, its method looked up once: it is called for each attribute of each resource."""
        method = self._method(instance, "insync")

        def insync(questions: Iterable[Question]) -> Iterator[list[Any] | Exception]:
            for name, attributes, is_, should in questions:
                try:
                    ask = method()
                    yield [ask(context, name, attribute, is_, should) for attribute in attributes]
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - what a provider raises is its answer
                    yield error if isinstance(error, Exception) else ProviderError(reason(error))

        return insync

    def _method(self, instance: str, name: str) -> Callable[[], Callable[..., Any]]:
        """Give a provider's method when it is first needed, and from then on."""

        @cache
        def method() -> Callable[..., Any]:
            found: Callable[..., Any] = getattr(self.instance(instance), name)
            return found

        return method

    def _context(self, definition: TypeDefinition) -> Context:
        return Context(definition, self.run, reading=True)

    def close(self) -> None:
        """Forget the instances: nothing is cached beyond a transaction. Workers are ended."""
        self._instances.clear()
        isolated, self._isolated = self._isolated, []
        for made in isolated:
            made.leave()
        for made in isolated:
            made.close()


def _canonicalized(
    run: Run, definition: TypeDefinition, call: Callable[..., Any], resources: list[Resource]
) -> list[Resource]:
    """Canonicalize copies; values that are secret only here are unwrapped for the provider and wrapped again."""
    plain = are_flat(resources)
    copies: list[Resource] = list(map(dict, resources)) if plain else []
    wrapped: dict[int, set[str]] = {}
    for index, resource in enumerate(() if plain else resources):
        copy = copied(resource)
        copies.append(copy)
        wrapped[index] = {key for key in copy.keys() - definition.sensitive if isinstance(copy[key], Sensitive)}
        for key in wrapped[index]:
            run.log.mask.add(copy[key])
            copy[key] = copy[key].reveal()
    answer = call("canonicalize", copies)
    if not isinstance(answer, list) or len(answer) != len(resources) or not all(type(r) is dict for r in answer):
        msg = f"{definition.name}: canonicalize must return the resources that it was given, a list of mappings"
        raise ProviderError(msg)
    for index, secret in wrapped.items():
        for key in secret & answer[index].keys():
            answer[index][key] = Sensitive(answer[index][key])
    return answer


def _problems(answer: Any) -> list[Problem]:
    found: Sequence[Any] = [answer] if isinstance(answer, (str, Problem)) else list(answer)
    return [problem if isinstance(problem, Problem) else Problem(None, str(problem)) for problem in found]
