"""``get`` returns a ``size`` outside its range."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "size": 1000} if row["name"] == "b" else row for row in super().get(context)]
