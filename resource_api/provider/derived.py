"""Results that providers derive from file contents, stored with the no-change cache for later runs.

A result may be stored only if it follows from the arguments and the code: ``cache`` checks the code, the author of a
provider chooses the function. Keys are digests; values are JSON.
"""

from __future__ import annotations

import json
import marshal
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.start_up import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The marshal version without references among values: equal values have equal bytes.
_WITHOUT_REFERENCES: Final = 2


class DerivedValues:
    """The results of functions in one run, by a digest of function and arguments."""

    def __init__(self) -> None:
        """Begin without results of earlier runs."""
        self._earlier: Mapping[str, str] = {}
        self._earlier_code: Sequence[str] = ()
        #: The values used by this run, as JSON.
        self.used: dict[str, str] = {}
        #: The files of code that these come from if an earlier run has computed any, as this one may not load them.
        self.code: Sequence[str] = ()

    def continue_from(self, earlier: Mapping[str, str], code: Sequence[str]) -> None:
        """Use the results of an earlier run too, whose files of ``code`` are known to be the same now."""
        self._earlier, self._earlier_code = earlier, code

    def get(self, owner: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return ``function(*arguments)``, stored or computed; ``used`` keeps it unless it raises or is no JSON."""
        try:
            data = marshal.dumps((owner, function.__module__, function.__qualname__, arguments), _WITHOUT_REFERENCES)
        except ValueError:
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
