"""``get`` returns a value of 300 MiB for ``b``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [{**row, "colour": "x" * (300 << 20)} if row["name"] == "b" else row for row in super().get(context)]
