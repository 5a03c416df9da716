"""``get`` returns a mapping instead of a list of resources."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return self._load()
