"""The provider has a ``canonicalize``, though its type does not declare the feature."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        return resources
