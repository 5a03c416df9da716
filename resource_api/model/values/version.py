"""The version of this program; in this package, so that every other package may import it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
