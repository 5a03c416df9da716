"""Ends the process without a word, when it comes to b."""

import os

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            os._exit(3)
        super()._put(name, should)
