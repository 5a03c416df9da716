"""``canonicalize`` modifies a resource in place and adds an attribute that is not declared."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        for resource in resources:
            if resource["name"] == "b":
                resource["colour"] = "invented"
        return resources
