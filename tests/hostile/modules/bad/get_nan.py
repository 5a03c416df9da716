"""``get`` returns NaN for ``ratio``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "ratio": float("nan")} if row["name"] == "b" else row for row in super().get(context)]
