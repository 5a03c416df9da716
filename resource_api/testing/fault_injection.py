"""One resource of a call that the system refuses, whatever the provider does with it.

Which law this serves, and what must become of the other resources, is not known here.
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

REASON = "refused for the sake of a law"


class _Refused(Mapping[str, Any]):
    """What one resource should be, told up to the attributes in ``told``; looking further is refused."""

    def __init__(self, should: Mapping[str, Any], told: Collection[str]) -> None:
        self._should = should
        self._told = told

    def __getitem__(self, attribute: str) -> Any:
        if attribute in self._told:
            return self._should[attribute]
        raise ResourceError(REASON)

    def __iter__(self) -> Iterator[str]:
        raise ResourceError(REASON)

    def __len__(self) -> int:
        return len(self._should)


class _Changes(Mapping[Any, Change]):
    """The changes of a call, one of them refused."""

    def __init__(self, changes: Mapping[Any, Change], name: Name, told: Collection[str]) -> None:
        self._changes = changes
        self._name = name
        self._told = told

    def __getitem__(self, name: Name) -> Change:
        is_, should = self._changes[name]
        return Change(is_, _Refused(should, self._told) if name == self._name else should)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)


def refusing(registry: Registry, type_name: str, name: Name, told: Collection[str]) -> Registry:
    """Give a registry of one type whose provider meets a refusal when it looks at ``name`` beyond what is ``told``."""
    provider: Any = registry.provider(type_name)

    class Refusing(provider):  # type: ignore[misc] # the author's class, known only now
        def set(self, context: Any, changes: Mapping[Name, Change], **extra: Any) -> None:
            super().set(context, _Changes(changes, name, told), **extra)

    found = Registry()
    found.register_type(registry.type(type_name))
    found.register_provider(type_name, Refusing)
    return found
