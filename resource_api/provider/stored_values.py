"""Values that providers store for later runs: private data about their resources, and results derived from contents.

Private data is recorded with its resource (contract §10.9), and only the provider sees it: a token of an API, the raw
state of another tool. Derived results are stored with the no-change cache, under digests of function and arguments;
``cache`` checks that the code is the same.
"""

from __future__ import annotations

import json
import marshal
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values.errors import ProviderError, ResourceError
from resource_api.model.values.start_up import blake2b
from resource_api.model.values.values import SCALAR_TYPES, Sensitive, is_secret, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.record import Record, RecordKey

#: The way out for a type whose private data is secret, where state is not encrypted.
NEEDS_KEY = (
    "its private data holds secrets, and the state has no key: 'resource-api new key PATH' makes one,"
    " and --key file:PATH names it"
)
#: The marshal version without references among values: equal values have equal bytes.
_WITHOUT_REFERENCES: Final = 2


class PrivateData:
    """The private data of the resources of one run, by instance and name: as recorded, and as stored by its calls.

    ``may_hold_secrets``: the state has a key, or nothing is recorded.
    """

    def __init__(self) -> None:
        """Begin without records, as for a run without a state: its private data is dropped at its end."""
        #: The data in the records, its secrets sealed.
        self._recorded: dict[RecordKey, object] = {}
        #: The data that calls of this run have stored, which takes precedence and is recorded with the outcome.
        self.stored: dict[RecordKey, object] = {}
        self.may_hold_secrets = True

    def begin(self, records: Mapping[RecordKey, Record], *, may_hold_secrets: bool) -> None:
        """Take over the private data of a stack's records for a transaction, and drop the data of an earlier one.

        ``may_hold_secrets``: the state has a key to encrypt secrets, or nothing is recorded; otherwise ``store``
        refuses secrets.
        """
        self._recorded = {key: record.private for key, record in records.items() if record.private is not None}
        self.stored = {}
        self.may_hold_secrets = may_hold_secrets

    def get(self, key: RecordKey) -> Any:
        """Return a resource's private data with its secrets: that of this run, or the recorded data, or None.

        It is a copy, since the provider may change it.
        """
        if key in self.stored:
            return deepcopy(self.stored[key])
        return deepcopy(open_sealed(self._recorded.get(key)))

    def store(self, key: RecordKey, data: object) -> None:
        """Keep a copy of new data for the record: the provider may change its own afterwards.

        Raise ``ProviderError`` unless it is JSON with ``Sensitive``, ``ResourceError`` for a secret without a key.
        """
        for _, leaf in leaves(data):
            kind = type(leaf)
            if kind not in SCALAR_TYPES and kind is not Sensitive:
                msg = f"private data must be JSON with Sensitive values, and contains a value of type {kind.__name__}"
                raise ProviderError(msg)
        if is_secret(data) and not self.may_hold_secrets:
            raise ResourceError(NEEDS_KEY)
        self.stored[key] = deepcopy(data)


class DerivedValues:
    """The results that providers derive from contents in one run, by a digest of function and arguments."""

    def __init__(self) -> None:
        """Begin without results of earlier runs."""
        #: Digest → result of an earlier run, as JSON; and the files of the code that has computed these results.
        self._earlier: Mapping[str, str] = {}
        self._earlier_code: Sequence[str] = ()
        #: Digest → result that this run has used, as JSON: these are kept for later runs.
        self.used: dict[str, str] = {}
        #: The earlier run's files of code, if this run has used one of its results. A change of these files must
        #: invalidate the results, although this run may not load the files itself.
        self.code: Sequence[str] = ()

    def continue_from(self, earlier: Mapping[str, str], code: Sequence[str]) -> None:
        """Use the results of an earlier run too, whose files of ``code``, and so the functions, were the same."""
        self._earlier, self._earlier_code = earlier, code

    def get(self, owner: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return ``function(*arguments)``, stored by an earlier run or computed; ``owner``: the type of the function.

        A new result is stored for later runs as JSON, unless JSON would return another value, as a list for a tuple. So
        a run gets the same value whether it is computed or stored.
        """
        try:
            data = marshal.dumps((owner, function.__module__, function.__qualname__, arguments), _WITHOUT_REFERENCES)
        except ValueError:
            # Without a digest of the arguments, as of an object that is no plain data.
            return function(*arguments)
        key = blake2b(data, digest_size=32).hexdigest()
        if (stored := self._earlier.get(key)) is not None:
            self.used[key], self.code = stored, self._earlier_code
            return json.loads(stored)
        if (stored := self.used.get(key)) is not None:
            return json.loads(stored)
        value = function(*arguments)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError):
            return value
        if json.loads(text) == value:
            self.used[key] = text
        return value
