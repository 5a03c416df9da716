"""``set`` raises ``SystemExit`` between two changes."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                raise SystemExit(3)
            self._put(name, should)
            context.created(name)
