"""Causes a segmentation fault in ``get``."""

import ctypes

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        ctypes.string_at(0)
