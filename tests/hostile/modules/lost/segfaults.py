"""Causes a segmentation fault at ``b``."""

import ctypes

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            ctypes.string_at(0)
        super()._put(name, should)
