"""``canonicalize`` omits a resource."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        return resources[:-1]
