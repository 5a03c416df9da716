"""The second net for secrets: known secret values are masked in whatever leaves the process.

The first net is the ``Sensitive`` type; this one catches what a program printed or an exception quoted.
It knows nothing of streams.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from resource_api.nouns.values import Sensitive

#: Shorter secrets would mask ordinary words.
_SHORTEST: Final = 6


class Mask:
    """Secret values seen in this run; calling it gives a text with each of them as ``<sensitive>``."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._spellings: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: Any) -> None:
        """Learn every secret in ``value``, at any depth."""
        if isinstance(value, Sensitive):
            self._learn(value.reveal())
        elif isinstance(value, dict):
            for item in value.values():
                self.add(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.add(item)

    def _learn(self, secret: Any) -> None:
        if isinstance(secret, dict):
            secret = list(secret.values())
        if isinstance(secret, (list, tuple)):
            for item in secret:
                self._learn(item)
        elif isinstance(secret, (str, int, float)) and not isinstance(secret, bool):
            text = str(secret)
            lines = [line for line in text.splitlines() if len(line) >= _SHORTEST]
            spelt = {text, *lines, repr(text)[1:-1], json.dumps(text)[1:-1], text.strip()}
            self._spellings |= {s for s in spelt if len(s) >= _SHORTEST}
            self._pattern = None

    def __call__(self, text: str) -> str:
        """Give ``text`` with every known secret masked, the longest first."""
        if not self._spellings:
            return text
        if self._pattern is None:
            longest_first = sorted(self._spellings, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern.sub("<sensitive>", text)
