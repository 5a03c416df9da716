"""``set`` raises a subclass of ``BaseException``."""

from json_store import JsonStore


class Halt(BaseException):
    pass


class Provider(JsonStore):
    def set(self, context, changes):
        with context.updating("b"):
            raise Halt("halted for reasons of my own")
