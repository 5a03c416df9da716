"""``canonicalize`` raises for one resource."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        for resource in resources:
            if resource["name"] == "b":
                raise KeyError("colour")
        return resources
