"""``get`` returns names instead of resources."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return ["b", "d"]
