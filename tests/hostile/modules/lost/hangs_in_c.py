"""Sleeps in C with the GIL held at ``b``, where neither a signal handler nor another thread of Python runs."""

import ctypes

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            ctypes.PyDLL(None).sleep(3600)
        super()._put(name, should)
