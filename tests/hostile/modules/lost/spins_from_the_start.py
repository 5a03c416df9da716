"""Loops without end in ``set`` and ignores SIGTERM."""

import signal
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("begun").touch()
        while True:
            pass
