"""``get`` returns an existing resource under a name that is not in canonical form."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        for resource in resources:
            resource["name"] = resource["name"].lower()
        return resources

    def get(self, context):
        return [{**row, "name": row["name"].upper()} if row["name"] == "b" else row for row in super().get(context)]
