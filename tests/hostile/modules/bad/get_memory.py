"""Asks for more memory than there is."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [b"x" * (1 << 62)]
