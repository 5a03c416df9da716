"""The methods of a provider that depend on their arguments alone, as the plain functions that pure stages call.

Providers get copies of values, and plain values where a value is secret only in this manifest. What the functions are
for is described in ``model.provider_functions``; methods that read the system do not belong here.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.sealed_secrets import declared_secrets
from resource_api.model.values.errors import Problem, WrongAnswer
from resource_api.model.values.values import Sensitive, are_flat, copy_resource
from resource_api.provider.base import call_arguments, validation_answers
from resource_api.provider.context import Context
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Question
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.provider.context import RunContext


class PureCalls:
    """Calls the pure methods of one provider.

    They are not guarded one by one (``process_guard.protected``): a plan is guarded as a whole.
    """

    def __init__(
        self, definition: TypeDefinition, run: RunContext, provider: Callable[[], Any], provider_class: type[Any] | None
    ) -> None:
        """Prepare calls of what ``provider`` returns, made at the first; ``provider_class`` is None in workers."""
        self.context = Context(definition, run, answering=True)
        self._definition = definition
        self._mask = run.log.mask
        self._provider = provider
        self._class = provider_class

    def functions(
        self, check_policies: Callable[[Entry, Mapping[str, Any]], str] | None, implementations: Sequence[str]
    ) -> ProviderFunctions:
        """Return the functions for the features that the type declares, and the names of its ``implementations``."""
        features = self._definition.features
        return ProviderFunctions(
            self._definition,
            {},
            self.canonicalize if "canonicalize" in features else None,
            self.validate if "validate" in features else None,
            self.insync if "custom_insync" in features else None,
            self.plan if "plan" in features else None,
            self.upgrade if "upgrade" in features else None,
            self._config_function("check_config"),
            self._config_function("diff_config"),
            check_policies,
            implementations,
        )

    def canonicalize(self, resources: list[Resource]) -> list[Resource]:
        """Return resources in canonical form, which share nothing with the provider.

        Values that are secret only here are unwrapped and wrapped again.
        """
        self._mask_secrets(resources)
        if are_flat(resources):
            return self._canonicalize(list(map(dict, resources)))
        copies = [copy_resource(resource) for resource in resources]
        secret = []
        for copy in copies:
            wrapped = {key for key in copy.keys() - self._definition.sensitive if isinstance(copy[key], Sensitive)}
            for key in wrapped:
                self._mask.add(copy[key])
                copy[key] = copy[key].reveal()
            secret.append(wrapped)
        canonical = self._canonicalize(copies)
        for resource, wrapped in zip(canonical, secret, strict=True):
            for key in wrapped & resource.keys():
                resource[key] = Sensitive(resource[key])
        return canonical

    def validate(self, resources: Sequence[Mapping[str, Any]]) -> Iterator[list[Problem] | Exception]:
        """Yield what is wrong with each resource, or the exception that its check raised."""
        self._mask_secrets(resources)
        flat = are_flat(resources)
        if not flat:
            self._mask.add(resources)
        if self._class is None:
            yield from self._provider().validate_each(self.context, resources)
            return
        for resource in map(dict, resources) if flat else map(copy_resource, resources):
            try:
                answer = process_guard.call_contained(self._provider().validate, self.context, resource)
                found: list[Problem] | Exception = [] if answer is None or answer == [] else _problems(answer)
            except Exception as error:  # noqa: BLE001 - what a provider raises is the problem of this resource
                self.context.log_traceback(error)
                found = error
            yield found

    def _mask_secrets(self, resources: Iterable[Mapping[str, Any]]) -> None:
        if self._definition.secret:
            self._mask.add([(each, declared_secrets(self._definition, each)) for each in resources])

    def insync(self, questions: Iterable[Question]) -> Iterator[list[Any] | Exception]:
        """Yield the answers of ``insync`` for the attributes of each question, or the exception that it raised."""
        if self._class is None:
            yield from self._provider().insync_each(self.context, questions)
            return
        for question in questions:
            try:
                answers: list[Any] | Exception = process_guard.call_contained(self._answers, question)
            except Exception as error:  # noqa: BLE001 - what a provider raises is its answer
                self.context.log_traceback(error)
                answers = error
            yield answers

    def _answers(self, question: Question) -> list[Any]:
        name, attributes, is_, should = question
        compare = self._provider().insync
        return [compare(self.context, name, attribute, is_, should) for attribute in attributes]

    def plan(self, name: Name, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> Any:
        """Return the provider's prediction for a change."""
        return self._call("plan", *deepcopy((name, is_, should)))

    def upgrade(self, version: int, values: Mapping[str, Any]) -> Any:
        """Return recorded values in the form of the type's schema version; ``version`` is that of ``values``."""
        return self._call("upgrade", version, deepcopy(dict(values)))

    def _canonicalize(self, copies: list[Resource]) -> list[Resource]:
        count = len(copies)
        answer = self._call("canonicalize", copies)
        if not isinstance(answer, list) or len(answer) != count or not all(type(each) is dict for each in answer):
            raise WrongAnswer(_not_the_resources(self._definition.name, answer, count))
        # What a worker has sent is nobody else's.
        return answer if self._class is None or are_flat(answer) else list(map(copy_resource, answer))

    def _config_function(self, method: str) -> Callable[..., Any] | None:
        """Return ``check_config`` or ``diff_config`` of a provider that has it."""
        if not self._definition.config.attributes or (self._class is not None and not hasattr(self._class, method)):
            return None

        def call(*configs: Mapping[str, Any]) -> Any:
            self._mask.add(configs)
            return self._call(method, *configs)

        return call

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._definition.sensitive:
            self._mask.add(arguments)
        call = getattr(self._provider(), method)
        try:
            return process_guard.call_contained(call, *call_arguments(method, self.context, arguments, call))
        except Exception as error:
            # After a failure for several resources each is canonicalized alone, and logged then.
            if method != "canonicalize" or len(arguments[0]) == 1:
                self.context.log_traceback(error)
            raise


def _not_the_resources(type_name: str, answer: Any, count: int) -> str:
    """Return what is wrong with an answer of ``canonicalize`` to ``count`` resources."""
    must = f"canonicalize of type '{type_name}' must return"
    if answer is None:
        return f"{must} the resources that it was given, not None; does it end with 'return resources'?"
    if not isinstance(answer, list):
        return f"{must} the resources that it was given as a list, not {type(answer).__name__}"
    if len(answer) != count:
        return f"{must} the resources that it was given, {count} in this call, not {len(answer)}"
    kind = next(type(each).__name__ for each in answer if type(each) is not dict)
    return f"{must} mappings of attribute to value, not {kind}"


def _problems(answer: Any) -> list[Problem]:
    """Return the answer of ``validate`` as problems. Raise ``ProviderError`` for another answer or severity."""
    found = validation_answers(answer)
    return [each.checked() if isinstance(each, Problem) else Problem(None, each) for each in found]
