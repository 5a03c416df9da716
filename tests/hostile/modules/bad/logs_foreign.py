"""``set`` reports a status for a name that is not among its changes."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if name == "b":
                context.updated("z")
            self._put(name, should)
            context.updated(name)
