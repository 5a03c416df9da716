"""``get`` returns a set for the list ``parts``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "parts": {"x"}} if row["name"] == "b" else row for row in super().get(context)]
