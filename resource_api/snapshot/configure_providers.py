"""Tells providers what they are configured with: what is known at once, what waits for resources when they yield it.

Until then the resources of such a provider are decided later, like those of a type that cannot be read yet. When to ask
is the business of the plan and the transaction; both ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.prior.provider_instances import deferred_configuration, record_of, recorded, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_instance import ProviderInstance
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.expression import Path
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.prior.provider_instances import ProviderInstances


def configure_instances(catalog: Catalog, state: StackState, providers: ProviderPool) -> ProviderInstances:
    """Settle who answers for what, and tell ``providers``."""
    providers.select_versions({record.name: record.inputs.get("version", "") for record in recorded(state)})
    providers.select_versions({instance.name: instance.version for instance in catalog.instances.values()})
    instances = settle(catalog, state, providers.functions)
    for name, config in instances.configs.items():
        providers.configure(name, config)
    for name, why in instances.refused.items():
        providers.mark_unavailable(name, why)
    return instances


class Awaited(NamedTuple):
    """What became of a provider: why it cannot be called, whether that may change, what is to be recorded of it."""

    why: str = ""
    later: bool = False
    record: Record | None = None


READY = Awaited()


class DeferredInstances:
    """The providers of a run that wait for resources."""

    def __init__(
        self, declared: Mapping[str, ProviderInstance], prior: ProviderInstances, providers: ProviderPool
    ) -> None:
        """Look for those that wait."""
        self._late = {name: instance for name, instance in declared.items() if instance.pending}
        self._prior = prior
        self._providers = providers

    def waits(self, name: str) -> bool:
        """Whether an instance is one of them."""
        return name in self._late

    def configure(self, name: str, resolve: Callable[[Path], Any]) -> Awaited:
        """Configure an instance with what is known by now; another configuration than before ends the old one."""
        instance = self._late.get(name)
        if instance is None:
            return READY
        config, why, later = deferred_configuration(instance, resolve, self._providers.functions(name), self._prior)
        if why:
            return Awaited(why, later)
        self._providers.configure(name, config)
        record = record_of(instance, config, self._prior.state.salt)
        return READY if record == self._prior.recorded.get(name) else Awaited(record=record)
