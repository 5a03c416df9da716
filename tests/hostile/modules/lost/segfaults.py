"""Causes a segmentation fault at ``b``."""

import ctypes

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            ctypes.string_at(0)
        super()._put(name, should)
