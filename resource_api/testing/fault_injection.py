"""Fault injection: providers in which one resource of a call fails, or whose changes are visible late."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from resource_api.model.change import Change
from resource_api.model.values.errors import ResourceError
from resource_api.plugins.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from resource_api.model.type_definition import Name, Resource, TypeDefinition

REASON = "refused by the test of a law"


class _RefusedValues(Mapping[str, Any]):
    """The values of one resource; reading an attribute that is not in ``readable`` raises ``ResourceError``."""

    def __init__(self, should: Mapping[str, Any], readable: Collection[str]) -> None:
        self._should = should
        self._readable = readable

    def __getitem__(self, attribute: str) -> Any:
        if attribute in self._readable:
            return self._should[attribute]
        raise ResourceError(REASON)

    def __iter__(self) -> Iterator[str]:
        raise ResourceError(REASON)

    def __len__(self) -> int:
        return len(self._should)


class _Changes(Mapping[Any, Change]):
    """The changes of a call, of which one is refused."""

    def __init__(self, changes: Mapping[Any, Change], name: Name, readable: Collection[str]) -> None:
        self._changes = changes
        self._name = name
        self._readable = readable

    def __getitem__(self, name: Name) -> Change:
        is_, should = self._changes[name]
        return Change(is_, _RefusedValues(should, self._readable) if name == self._name else should)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)


def registry_with_refusal(
    registry: Registry, type_name: str, name: Name, readable: Collection[str], implementation: str = ""
) -> Registry:
    """Return a registry in which the change of ``name`` fails when an attribute outside ``readable`` is read.

    ``implementation`` is the tested one of several providers.
    """
    provider: Any = registry.provider(type_name, implementation=implementation)

    class Refusing(provider):  # type: ignore[misc] # the author's class, known only now
        def set(self, context: Any, changes: Mapping[Name, Change], **extra: Any) -> None:
            super().set(context, _Changes(changes, name, readable), **extra)

    return _registry_of(registry, registry.type(type_name), Refusing, implementation)


class Lag:
    """The delay after which ``get`` shows a change; ``created``: the names that ``set`` was asked to create."""

    def __init__(self, seconds: float) -> None:
        """Begin without a change."""
        self.seconds = seconds
        self.created: list[Name] = []
        #: The time at which the last change is shown, in seconds of ``time.monotonic``.
        self.visible_at = 0.0
        #: The rows by name as they were before it, or None for absent ones.
        self.before: dict[Name, Resource | None] = {}


def registry_with_lag(
    registry: Registry, type_name: str, lag: Lag, settle: float, implementation: str = ""
) -> Registry:
    """Return a registry in which the type's world shows changes late, and the type waits ``settle`` seconds for them.

    ``implementation`` is the tested one of several providers.
    """
    provider: Any = registry.provider(type_name, implementation=implementation)
    definition = copy(registry.type(type_name))
    definition.settle = settle

    class Lagging(provider):  # type: ignore[misc] # the author's class, known only now
        def get(self, context: Any, names: Collection[Name] | None = None) -> list[Resource]:
            arguments = [names] if "simple_get_filter" in definition.features else []
            rows = {definition.name_of(row): dict(row) for row in super().get(context, *arguments)}
            if time.monotonic() >= lag.visible_at:
                lag.before |= {**dict.fromkeys(names or ()), **rows}
                return list(rows.values())
            former = {name: lag.before.get(name, row) for name, row in rows.items()}
            former |= {name: row for name, row in lag.before.items() if name not in rows}
            return [row for row in former.values() if row is not None]

        def set(self, context: Any, changes: Mapping[Name, Change], **extra: Any) -> None:
            lag.created += [name for name, change in changes.items() if change.is_ is None]
            lag.visible_at = math.inf
            super().set(context, changes, **extra)
            lag.visible_at = time.monotonic() + lag.seconds

    return _registry_of(registry, definition, Lagging, implementation)


def _registry_of(registry: Registry, definition: TypeDefinition, provider: type, implementation: str) -> Registry:
    """Return a registry of one type with a changed provider, or also a changed definition."""
    changed = Registry()
    changed.register_type(definition)
    changed.register_provider(definition.name, provider, implementation or registry.implementations(definition.name)[0])
    return changed
