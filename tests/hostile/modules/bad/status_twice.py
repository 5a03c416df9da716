"""``set`` reports one name as updated and then as failed."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        self._called("set", list(changes))
        for name, (_, should) in changes.items():
            self._put(name, should)
            context.updated(name)
            if name == "b":
                context.failed(name, message="or perhaps not")
