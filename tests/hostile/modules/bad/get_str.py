"""``get`` returns a string."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return "a b c"
