"""The provider has a ``canonicalize``, though its type does not declare the feature."""

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        return resources
