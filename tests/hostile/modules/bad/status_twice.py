"""``set`` reports one name as updated and then as failed."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        self._called("set", list(changes))
        for name, (_, should) in changes.items():
            self._put(name, should)
            context.updated(name)
            if name == "b":
                context.failed(name, message="or perhaps not")
