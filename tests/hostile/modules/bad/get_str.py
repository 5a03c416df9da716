"""``get`` returns a string."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return "a b c"
