"""``get`` returns a number."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return 4
