"""The constructor requires an argument that the runtime does not pass."""

from json_store import JsonStore


class Provider(JsonStore):
    def __init__(self, connection):
        self.connection = connection
