"""One configured provider as a manifest wants it: which type, which versions, with which configuration.

Its name is what its resources are told apart by: ``vm_host@lab``. What became of it is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.entry import EMPTY
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.declaration import Place

#: The type under which a configured provider itself is recorded: ``Provider[vm_host@lab]``.
PROVIDER_TYPE: Final = "provider"


class ProviderInstance(NamedTuple):
    """A configured provider; ``config`` is checked and holds what is known of it."""

    name: str
    place: Place
    version: str = ""
    config: Mapping[str, Any] = EMPTY
    #: Values that refer to what resources will have: attribute → value with expressions in it.
    pending: Mapping[str, Any] = EMPTY
