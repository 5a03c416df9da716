"""``set`` raises at one resource, and the changes after it are not made."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                raise RuntimeError("b is stuck to the wall")
            self._put(name, should)
