"""``get`` raises an exception."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        raise OSError(5, "Input/output error", "/dev/store")
