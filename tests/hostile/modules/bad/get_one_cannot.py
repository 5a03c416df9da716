"""``get`` reports one resource as failed."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        context.failed("b", message="behind a locked door")
        return [row for row in super().get(context) if row["name"] != "b"]
