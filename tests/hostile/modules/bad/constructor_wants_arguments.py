"""The constructor requires an argument that the runtime does not pass."""

from shelf import Shelf


class Provider(Shelf):
    def __init__(self, connection):
        self.connection = connection
