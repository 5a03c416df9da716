"""``set`` raises a subclass of ``BaseException``."""

from shelf import Shelf


class Halt(BaseException):
    pass


class Provider(Shelf):
    def set(self, context, changes):
        with context.updating("b"):
            raise Halt("halted for reasons of my own")
