"""``get`` returns a value that is not in canonical form."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        for resource in resources:
            if "colour" in resource:
                resource["colour"] = resource["colour"].lower()
        return resources

    def get(self, context):
        return [{**row, "colour": "RED"} if row["name"] == "b" else row for row in super().get(context)]
