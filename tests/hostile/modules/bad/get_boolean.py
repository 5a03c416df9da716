"""``get`` returns a boolean for the integer ``size``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "size": True} if row["name"] == "b" else row for row in super().get(context)]
