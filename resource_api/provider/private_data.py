"""The private data of providers about their resources: as recorded, and as stored by calls of this run.

Source: contract §10.9. Only the provider sees it: a token of an API, the raw state of another tool.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values.errors import ProviderError, ResourceError
from resource_api.model.values.values import SCALAR_TYPES, Sensitive, is_secret, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.record import Record, RecordKey

#: The way out for a type whose private data is secret, where state is not encrypted.
NEEDS_KEY = (
    "its private data holds secrets, and the state has no key: 'resource-api new key PATH' makes one,"
    " and --key file:PATH names it"
)


class PrivateData:
    """The private data of the resources of one run, by instance and name.

    ``may_hold_secrets``: the state has a key, or nothing is recorded.
    """

    def __init__(self) -> None:
        """Begin without records, as for a run without state, which keeps nothing."""
        #: The data in the records, its secrets sealed.
        self._recorded: dict[RecordKey, object] = {}
        #: The data that calls of this run have stored, which takes precedence and is recorded with the outcome.
        self.stored: dict[RecordKey, object] = {}
        self.may_hold_secrets = True

    def begin(self, records: Mapping[RecordKey, Record], *, may_hold_secrets: bool) -> None:
        """Take over the data of records, by instance and name; forget the data that calls stored."""
        self._recorded = {key: record.private for key, record in records.items() if record.private is not None}
        self.stored = {}
        self.may_hold_secrets = may_hold_secrets

    def get(self, key: RecordKey) -> Any:
        """Return a copy of the present data with its secrets, or None."""
        if key in self.stored:
            return deepcopy(self.stored[key])
        return deepcopy(open_sealed(self._recorded.get(key)))

    def store(self, key: RecordKey, data: object) -> None:
        """Keep a copy of new data for the record. Raise ``ProviderError`` unless it is JSON with ``Sensitive``.

        Raise ``ResourceError`` for a secret that the state would not keep.
        """
        kinds = SCALAR_TYPES | {Sensitive}
        if foreign := next((type(leaf).__name__ for _, leaf in leaves(data) if type(leaf) not in kinds), ""):
            msg = f"private data must be JSON with Sensitive values, and contains a value of type {foreign}"
            raise ProviderError(msg)
        if is_secret(data) and not self.may_hold_secrets:
            raise ResourceError(NEEDS_KEY)
        self.stored[key] = deepcopy(data)
