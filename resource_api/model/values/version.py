"""The version of this program, where every package may read it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
