"""``get`` raises ``KeyboardInterrupt``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        raise KeyboardInterrupt
