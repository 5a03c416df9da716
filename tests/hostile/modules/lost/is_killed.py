"""Receives SIGKILL at ``b``, as from the out-of-memory killer."""

import os
import signal

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        super()._put(name, should)
