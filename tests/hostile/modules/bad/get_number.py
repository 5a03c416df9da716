"""``get`` returns a number."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return 4
