"""``get`` raises ``SystemExit``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise SystemExit(3)
