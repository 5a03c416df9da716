"""``set`` raises ``KeyboardInterrupt`` between two changes."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                raise KeyboardInterrupt
            self._put(name, should)
            context.created(name)
