"""Regular expressions that are compiled when they are first used.

Most serve texts that few runs meet, and compiling them all took longer than applying an empty manifest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from re import Pattern


class _Waiting:
    """Becomes, method by method, the compiled pattern: what has been asked for once is found without asking again."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def regex(source: str, flags: int = 0) -> Pattern[str]:
    """Give what is used as ``re.compile`` would have given it."""
    return cast("Pattern[str]", _Waiting(source, flags))
