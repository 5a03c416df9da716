"""Calls itself for ever."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        self.set(context, changes)
