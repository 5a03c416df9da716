"""Calls ``os.abort`` at ``b``."""

import os

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            os.abort()
        super()._put(name, should)
