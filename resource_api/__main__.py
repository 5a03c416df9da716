"""The process of the command ``resource-api``: garbage collection before the first import, and the exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

#: How many more objects than before cause a collection.
_YOUNG: Final = 300_000


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    # A run makes many objects and hardly any cycles: collecting more often, or at the end, frees nothing.
    gc.set_threshold(_YOUNG, 50, 50)
    try:
        # Importing click alone would cause some fifteen collections.
        from resource_api.cli.main import run

        code = run()
    except (MemoryError, SystemError):  # which stands for an allocation that failed in the import of a module
        os.write(2, b"Error: out of memory; give this command more, then run it again\n")
        code = 1
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
