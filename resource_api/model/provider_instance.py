"""A configured provider as the manifest declares it: its type, its version constraint, its configuration.

Its name, ``vm_host@lab``, identifies its resources. How it is started is for ``plugins``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.entry import EMPTY
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.declaration import FilePosition

#: The type name under which configured providers are recorded: ``Provider[vm_host@lab]``.
PROVIDER_TYPE: Final = "provider"


class ProviderInstance(NamedTuple):
    """A configured provider; ``config`` holds its checked values, without those that are not known yet."""

    name: str
    position: FilePosition
    version: str = ""
    config: Mapping[str, Any] = EMPTY
    #: Values that refer to resources: attribute → value with expressions in it.
    pending: Mapping[str, Any] = EMPTY
    #: Which of several providers of the type it is; empty: the machine decides.
    implementation: str = ""
    #: The keys of ``config`` that are made from ephemeral inputs: they are not recorded.
    ephemeral: Sequence[str] = ()
