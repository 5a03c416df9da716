"""``canonicalize`` modifies a resource in place and adds an attribute that is not declared."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        for resource in resources:
            if resource["name"] == "b":
                resource["colour"] = "invented"
        return resources
