"""Causes a segmentation fault in the constructor."""

import ctypes

from json_store import JsonStore


class Provider(JsonStore):
    def __init__(self):
        ctypes.string_at(0)
