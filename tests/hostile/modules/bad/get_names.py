"""``get`` returns names instead of resources."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return ["b", "d"]
