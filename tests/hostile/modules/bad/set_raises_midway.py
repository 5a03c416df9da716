"""Changes some, then raises at a bad one; the others wait behind it."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                raise RuntimeError("b is stuck to the wall")
            self._put(name, should)
