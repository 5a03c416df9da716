"""The data keys of one store, and the rule which stacks must be encrypted.

Encryption itself (``envelope``) is imported with the first encrypted stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import StateDamaged, StateError, UsageError

if TYPE_CHECKING:
    from resource_api.state.encryption.envelope import DataKey
    from resource_api.state.encryption.keys import Key
    from resource_api.state.sqlite.stack_rows import Header
    from resource_api.state.store import StackName


class DataKeys:
    """The data keys of one store, each opened once, and the rule which stacks must be encrypted.

    With a user's key every stack must be encrypted: an attacker could have removed the encryption of another. Without
    one an encrypted stack is refused.
    """

    def __init__(self, key: Key | None) -> None:
        """Take the user's key, which is read when it is first needed."""
        self.key = key
        self._new: dict[StackName, DataKey] = {}
        self._opened: dict[str, DataKey] = {}

    def for_use(self, header: Header) -> DataKey | None:
        """Return the data key of a stack to be used. Raises ``UsageError`` when its key is missing or superfluous."""
        if header.sealing is None and self.key is not None:
            msg = (
                f"the state of {header.name} is not encrypted, and a key is named; 'resource-api state rekey' encrypts"
                " it, without --key it is used as it is"
            )
            raise UsageError(msg)
        return self.for_rekey(header)

    def for_check(self, header: Header) -> DataKey | None:
        """Return the data key of a stack to be verified; None if it has none or the user's key is not named."""
        return self.for_rekey(header) if self.key is not None else None

    def for_rekey(self, header: Header) -> DataKey | None:
        """Return the data key of a stack; None if it is not encrypted. Raises ``UsageError`` without the user's key."""
        if header.sealing is None:
            return None
        from resource_api.state.encryption.envelope import DataKey

        identity = repr((header.name, header.sealing))
        if identity not in self._opened:
            try:
                self._opened[identity] = DataKey.open(self.key, header.sealing, f"the state of {header.name}")
            except StateError as error:
                msg = f"{error}; name the right key"
                raise StateDamaged(msg, "restores the newest intact generation, if this key is right") from error
        return self._opened[identity]

    def for_new_stack(self, name: StackName) -> DataKey | None:
        """Return the data key of a stack that is created now; None without a user's key."""
        if self.key is not None and name not in self._new:
            from resource_api.state.encryption.envelope import DataKey

            self._new[name] = DataKey.generate(self.key, f"the state of {name}")
        return self._new.get(name)

    def replace(self, name: StackName, key: Key | None) -> DataKey | None:
        """Use another user's key from now on; return a new data key for a stack, None without a key."""
        self.key = key
        self._new.pop(name, None)
        return self.for_new_stack(name)
