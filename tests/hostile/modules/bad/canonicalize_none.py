"""``canonicalize`` returns None."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        pass
