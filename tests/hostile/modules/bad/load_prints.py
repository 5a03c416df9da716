"""The module prints while it is loaded."""

from shelf import Shelf

print("hello")


class Provider(Shelf):
    pass
