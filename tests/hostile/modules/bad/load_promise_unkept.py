"""The provider has no ``insync``, though its type declares the feature."""

from shelf import Shelf


class Provider(Shelf):
    pass
