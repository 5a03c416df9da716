"""Writes into every open descriptor and waits for an hour at ``b``."""

import os
import time
from contextlib import suppress

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            for number in range(3, 1024):
                with suppress(OSError):
                    os.write(number, b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(3600)
        super()._put(name, should)
