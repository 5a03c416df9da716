"""Loops without end at ``b`` and ignores SIGTERM."""

import signal

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        super()._put(name, should)
