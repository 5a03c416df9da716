"""``get`` returns a value that is nested too deeply for recursion."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        return [{**row, "tree": deep} if row["name"] == "b" else row for row in super().get(context)]
