"""``canonicalize`` omits a resource."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        return resources[:-1]
