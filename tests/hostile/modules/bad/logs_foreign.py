"""Speaks of a name that it was not asked about."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                context.updated("z")
            self._put(name, should)
            context.updated(name)
