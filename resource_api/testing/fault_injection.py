"""Fault injection: one resource of a call fails, whatever the provider does with it.

What must become of the other resources must not enter here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from resource_api.model.change import Change
from resource_api.model.values.errors import ResourceError
from resource_api.plugins.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from resource_api.model.type_definition import Name

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

    found = Registry()
    found.register_type(registry.type(type_name))
    found.register_provider(type_name, Refusing, implementation or registry.implementations(type_name)[0])
    return found
