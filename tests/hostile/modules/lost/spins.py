"""Loops without end at ``b`` and ignores SIGTERM."""

import signal

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        super()._put(name, should)
