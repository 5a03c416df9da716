"""The constructor raises an exception."""

from json_store import JsonStore


class Provider(JsonStore):
    def __init__(self):
        raise ConnectionRefusedError(111, "Connection refused")
