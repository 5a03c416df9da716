"""The provider has no ``insync``, though its type declares the feature."""

from json_store import JsonStore


class Provider(JsonStore):
    pass
