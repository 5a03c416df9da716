"""``get`` returns None."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        super().get(context)
