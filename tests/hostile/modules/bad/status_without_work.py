"""``set`` reports a change that it has made as failed."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        context.failed("b", message="it looked better before")
