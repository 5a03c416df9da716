"""Cannot be made without what nobody gives it."""

from shelf import Shelf


class Provider(Shelf):
    def __init__(self, connection):
        self.connection = connection
