"""The module prints while it is loaded."""

from json_store import JsonStore

print("hello")


class Provider(JsonStore):
    pass
