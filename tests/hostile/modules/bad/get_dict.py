"""``get`` returns a mapping instead of a list of resources."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return self._load()
