"""``get`` raises ``StopIteration``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [next(iter([]))]
