"""The passwords that sudo and doas may ask for: each is read once in a run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from resource_api.fleet.value_sources import ValueSource


class BecomePasswords:
    """Passwords by their sources, safe to share among threads."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._passwords: dict[ValueSource, Sensitive[str]] = {}
        self._lock = threading.Lock()

    def read(self, source: ValueSource) -> Sensitive[str]:
        """Return the password from a file or a program. Raise ``ResourceError``."""
        with self._lock:  # a program may ask the user for something, which should happen once
            if source not in self._passwords:
                self._passwords[source] = Sensitive(_read(source))
            return self._passwords[source]


def _read(source: ValueSource) -> str:
    try:
        password = source.read()
    except ValueError as error:
        msg = f"become_password: {error}"
        raise ResourceError(msg) from error
    if not password or "\n" in password:  # further lines would be input of the program that sudo starts
        there = "are more" if password else "is none"
        msg = f"become_password: {source.name}: a password is one line, and there {there}"
        raise ResourceError(msg)
    return password
