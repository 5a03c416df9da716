"""``insync`` returns a string."""

from shelf import Shelf


class Provider(Shelf):
    def insync(self, context, name, attribute, is_, should):
        return "perhaps" if name == "b" else None
