"""The process of the command ``resource-api``: garbage collection before the first import, and the exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

#: How many more objects than before cause a collection.
_YOUNG: Final = 300_000
#: Bytes that are free where a module could not be loaded for another reason than memory.
_FREE: Final = 8 << 20


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    # A run makes many objects and hardly any cycles: collecting more often, or at the end, frees nothing.
    gc.set_threshold(_YOUNG, 50, 50)
    try:
        # Importing click alone would cause some fifteen collections.
        from resource_api.cli.main import run

        code = run()
    except (MemoryError, SystemError, ImportError, OSError) as error:
        # The import of a module reports an allocation that failed as any of these: its directory cannot be listed.
        if isinstance(error, (ImportError, OSError)) and _has_memory():
            raise
        os.write(2, b"Error: out of memory; give this command more, then run it again\n")
        code = 1
    gc.freeze()
    sys.exit(code)


def _has_memory() -> bool:
    """Return whether there is memory for another library: if so, the failure to load one has another cause."""
    try:
        bytearray(_FREE)
    except MemoryError:
        return False
    return True


if __name__ == "__main__":
    main()
