"""Which stack is encrypted and which must be: the one rule of a store that was given a key, or none.

With a key every stack is encrypted, and one that is not is refused, lest somebody has taken its encryption off. Without
one an encrypted stack is refused. What encrypting does is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import StateError, UsageError
from resource_api.state.sqlite.database import RECOVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.encryption.keys import Key
    from resource_api.state.encryption.vault import Vault
    from resource_api.state.sqlite.stack_rows import Header
    from resource_api.state.store import StackName


class Vaults:
    """The vaults of one store, each opened once."""

    def __init__(self, key: Key | None) -> None:
        """Use ``key``, which is not read before it is needed."""
        self.key = key
        self._fresh: dict[StackName, Vault] = {}
        self._open: dict[str, Vault] = {}

    def demanded(self, header: Header) -> Vault | None:
        """Give the vault of a stack that is to be used. Raises ``UsageError`` where its key is missing or surplus."""
        if header.sealing is None and self.key is not None:
            msg = (
                f"{_what(header.name)} is not encrypted, and a key is named; 'resource-api state rekey' encrypts it,"
                " without --key it is used as it is"
            )
            raise UsageError(msg)
        return self.given(header)

    def found(self, header: Header) -> Vault | None:
        """Give the vault of a stack that is to be looked at as it is; None for one without, or without a key."""
        return self._opened(header.name, header.sealing) if header.sealing is not None and self.key else None

    def given(self, header: Header) -> Vault | None:
        """Give the vault of a stack that is to get another; it may have none. Raises ``UsageError`` without its key."""
        return self._opened(header.name, header.sealing) if header.sealing is not None else None

    def fresh(self, name: StackName) -> Vault | None:
        """Give the vault of a stack that is made now; none without a key."""
        if self.key is not None and name not in self._fresh:
            self._fresh[name] = _module().make(self.key, _what(name))
        return self._fresh.get(name)

    def renewed(self, name: StackName, key: Key | None) -> Vault | None:
        """Give a new vault under another key, which is the store's from now on."""
        self.key = key
        self._fresh.pop(name, None)
        return self.fresh(name)

    def _opened(self, name: StackName, sealing: Mapping[str, Any]) -> Vault:
        written = repr((name, sealing))
        if written not in self._open:
            try:
                self._open[written] = _module().open(self.key, sealing, _what(name))
            except StateError as error:
                msg = f"{error}; name its own, and if that is the one: {RECOVER}"
                raise StateError(msg) from error
        return self._open[written]


def _module() -> type[Vault]:
    from resource_api.state.encryption import vault  # noqa: PLC0415 - most stores have no key

    return vault.Vault


def _what(name: StackName) -> str:
    return f"the state of project {name.project}, stack {name.stack}"
