"""Reports a failure of what it has done."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        context.failed("b", message="it looked better before")
