"""Reads where nothing is, when it comes to b."""

import ctypes

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            ctypes.string_at(0)
        super()._put(name, should)
