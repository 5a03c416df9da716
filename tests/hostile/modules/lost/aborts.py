"""Calls ``os.abort`` at ``b``."""

import os

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            os.abort()
        super()._put(name, should)
