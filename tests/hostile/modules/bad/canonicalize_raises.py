"""``canonicalize`` raises for one resource."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        for resource in resources:
            if resource["name"] == "b":
                raise KeyError("colour")
        return resources
