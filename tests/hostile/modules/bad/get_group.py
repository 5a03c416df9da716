"""``get`` raises an ``ExceptionGroup``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise ExceptionGroup("two things went wrong", [ValueError("one thing"), KeyError("another")])
