"""Configure provider instances: those whose configuration is known at once, the others when it becomes known.

Resources of an instance that is not configured yet are planned later, like those of a type that cannot be read yet.
When to configure is decided by the planner and the transaction, not here.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.planner_queries import Readiness
from resource_api.prior.provider_instances import (
    ConfigurationError,
    deferred_configuration,
    match_instances,
    provider_record,
    provider_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_instance import ProviderInstance
    from resource_api.model.record import StackState
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.prior.provider_instances import ProviderInstances


def configure_instances(catalog: Catalog, state: StackState, providers: ProviderPool) -> ProviderInstances:
    """Match declared and recorded instances, and configure ``providers`` with those whose configuration is known."""
    recorded, declared = provider_records(state), catalog.instances.values()
    providers.select_versions({record.name: record.inputs.get("version", "") for record in recorded})
    providers.select_versions({instance.name: instance.version for instance in declared})
    missing = [record for record in recorded if record.name not in catalog.instances]
    providers.select_implementations({record.name: record.inputs.get("implementation", "") for record in missing})
    instances = match_instances(catalog, state, providers.functions)
    for name, config in instances.configs.items():
        providers.configure(name, config)
    for name, why in instances.refused.items():
        providers.mark_unavailable(name, why)
    return instances


READY: Final = Readiness()


class DeferredInstances:
    """The provider instances of a run whose configuration refers to resources."""

    def __init__(
        self, declared: Mapping[str, ProviderInstance], prior: ProviderInstances, providers: ProviderPool
    ) -> None:
        """Select those of the ``declared`` instances that have unevaluated values."""
        self._instances = {name: instance for name, instance in declared.items() if instance.pending}
        self._prior = prior
        self._providers = providers
        #: Those that each thread is configuring, to find one that needs a function of its own.
        self._begun: set[tuple[int, str]] = set()

    def contains(self, name: str) -> bool:
        """Return whether the configuration of an instance refers to resources."""
        return name in self._instances

    def configure(self, name: str, resolve: Callable[[ExpressionPath], Any]) -> Readiness:
        """Configure an instance with the values that are known by now.

        Another configuration than before closes the provider that was configured with the old one.
        """
        instance = self._instances.get(name)
        if instance is None:
            return READY
        begun = get_ident(), name
        if begun in self._begun:
            return Readiness(f"the provider '{name}' needs the result of its own function to be configured")
        self._begun.add(begun)
        try:
            config = deferred_configuration(instance, resolve, self._providers.functions(name), self._prior)
        except ConfigurationError as error:
            return Readiness(str(error), error.later)
        finally:
            self._begun.discard(begun)
        self._providers.configure(name, config)
        record = provider_record(instance, config, self._prior.state.salt)
        return READY if record == self._prior.recorded.get(name) else Readiness(record=record)
