"""``canonicalize`` replaces a number by a string."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        return [{**row, "size": "2"} if row["name"] == "b" else row for row in resources]
