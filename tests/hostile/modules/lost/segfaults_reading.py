"""Causes a segmentation fault in ``get``."""

import ctypes

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        ctypes.string_at(0)
