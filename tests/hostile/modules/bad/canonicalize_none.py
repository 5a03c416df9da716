"""``canonicalize`` returns None."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        pass
