"""The constructor raises an exception."""

from shelf import Shelf


class Provider(Shelf):
    def __init__(self):
        raise ConnectionRefusedError(111, "Connection refused")
