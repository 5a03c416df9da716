"""``insync`` raises for one resource."""

from shelf import Shelf


class Provider(Shelf):
    def insync(self, context, name, attribute, is_, should):
        if name == "b":
            raise TypeError("'<' not supported between 'b' and the rest")
        return None
