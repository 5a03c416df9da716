"""``get`` allocates more memory than exists."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [b"x" * (1 << 62)]
