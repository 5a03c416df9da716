"""Masks known secret values in texts that leave the process.

The first protection of secrets is the ``Sensitive`` type; this one covers what programs print and exceptions quote.
Streams are for ``system.log``.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any, Final

from resource_api.model.values.assets import Content
from resource_api.model.values.values import Sensitive

#: Shorter secrets would mask ordinary words.
_SHORTEST: Final = 6
_MASKED: Final = "<sensitive>"


class Mask:
    """The secret values of a run; a call returns a text in which each of them is ``<sensitive>``."""

    def __init__(self) -> None:
        """Start without secrets."""
        self._spellings: set[str] = set()
        #: The number of spellings in the pattern, and the pattern: another thread may add spellings meanwhile.
        self._pattern: tuple[int, re.Pattern[str]] | None = None

    def add(self, value: Any) -> None:
        """Add every secret in ``value``, at any depth."""
        if isinstance(value, Sensitive):
            self._learn(value.reveal())
        elif isinstance(value, dict):
            for item in value.values():
                self.add(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.add(item)

    def _learn(self, secret: Any) -> None:
        if isinstance(secret, Content):
            secret = [secret.sha256, *(secret.given if secret.origin == "files" else [secret.given])]
        if isinstance(secret, dict):
            secret = list(secret.values())
        if isinstance(secret, (list, tuple)):
            for item in secret:
                self._learn(item)
        elif isinstance(secret, (str, int, float)) and not isinstance(secret, bool):
            self._spellings.update(spelt for spelt in _spellings(str(secret)) if len(spelt) >= _SHORTEST)

    def __bool__(self) -> bool:
        """Whether there is any secret."""
        return bool(self._spellings)

    def __call__(self, text: str) -> str:
        """Return ``text`` with every secret masked, the longest first."""
        if not self._spellings:
            return text
        made = self._pattern
        if made is None or made[0] != len(self._spellings):
            spellings = sorted(self._spellings, key=_by_start)
            made = self._pattern = len(spellings), re.compile(_any_of(spellings))
        return made[1].sub(_MASKED, text)

    def document(self, value: Any) -> Any:
        """Return a JSON document with every text in it masked; numbers and keys are kept, so that it stays valid."""
        if not self._spellings:
            return value
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {key: self.document(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.document(item) for item in value]
        return value


def _spellings(text: str) -> set[str]:
    """Return a secret in the forms in which programs, exceptions and protocols write it."""
    if len(text) == 1 and text.isascii() and text.isprintable():
        return {text}  # a locked account, for example: too short to be masked in any form
    from base64 import b64encode, urlsafe_b64encode  # noqa: PLC0415 - only with a secret
    from urllib.parse import quote, quote_plus  # noqa: PLC0415 - the same

    data = text.encode("utf-8", "surrogateescape")
    return {
        *(text, text.strip(), *(line.strip() for line in text.splitlines())),
        "".join(map(_visible, text)),
        *(repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]),
        *(repr(data)[2:-1], data.hex(), data.hex().upper(), text.replace("'", "'\"'\"'")),
        *(quote(data), quote(data, safe=""), quote_plus(data), quote_plus(data, safe="/")),
        *(b64encode(data).decode().rstrip("="), urlsafe_b64encode(data).decode().rstrip("=")),
    }


def _visible(character: str) -> str:
    """Return a character as logs and plans show it."""
    return character if character.isprintable() else repr(character)[1:-1]


def _by_start(spelling: str) -> tuple[str, int]:
    return spelling[:2], -len(spelling)


def _any_of(spellings: list[str]) -> str:
    """Return a pattern grouped by the first two characters; plain alternatives would be tried one by one."""
    groups = []
    for first, same_first in groupby(spellings, key=lambda spelling: spelling[0]):
        inner = [
            f"{re.escape(second)}(?:{'|'.join(re.escape(spelling[2:]) for spelling in same_start)})"
            for second, same_start in groupby(same_first, key=lambda spelling: spelling[1])
        ]
        groups.append(f"{re.escape(first)}(?:{'|'.join(inner)})")
    return "|".join(groups)
