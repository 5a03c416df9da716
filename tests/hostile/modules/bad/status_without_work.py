"""``set`` reports a change that it has made as failed."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        context.failed("b", message="it looked better before")
