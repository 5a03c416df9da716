"""``canonicalize`` drops a declared attribute of ``b``."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        return [{k: v for k, v in row.items() if row["name"] != "b" or k != "size"} for row in resources]
