"""The process of the command ``resource-api``: what is settled before anything else is imported, and how it ends."""

from __future__ import annotations

import gc
import sys
from typing import Final

#: So many more objects than before are looked through for circles at once.
_YOUNG: Final = 300_000


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    # A run makes many objects and no rubbish in circles: looking for it more often, or at the end, finds none.
    gc.set_threshold(_YOUNG, 50, 50)
    from resource_api.cli.main import run  # noqa: PLC0415 - click alone would have it look some fifteen times

    code = run()
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
