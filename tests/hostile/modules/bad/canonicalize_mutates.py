"""Canonicalizes in place, adding and taking away as it goes."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        for resource in resources:
            if resource["name"] == "b":
                resource["colour"] = "invented"
        return resources
