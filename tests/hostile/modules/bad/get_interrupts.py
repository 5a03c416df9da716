"""``get`` raises ``KeyboardInterrupt``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise KeyboardInterrupt
