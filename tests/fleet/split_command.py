"""The command ``resource-api`` that splits a run over two hosts or more: ``python -m tests.fleet.split_command``."""

from __future__ import annotations

import sys
from functools import partial

from resource_api.cli.main import run
from resource_api.fleet.carriers import carrier

if __name__ == "__main__":
    carrier.process_count = partial(carrier.process_count, above=1)
    sys.exit(run(sys.argv[1:]))
