"""``get`` returns the undeclared attribute ``weight``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "weight": 3} if row["name"] == "b" else row for row in super().get(context)]
