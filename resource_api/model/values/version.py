"""The version of this program; in this package, so that every other package may import it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
#: The commit and its date, which ``git archive`` writes here; a checkout has only their format.
COMMIT: Final = "$Format:%H %cs$"
