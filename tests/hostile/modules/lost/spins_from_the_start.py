"""Is busy from its first step on, and deaf."""

import signal
from pathlib import Path

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("begun").touch()
        while True:
            pass
