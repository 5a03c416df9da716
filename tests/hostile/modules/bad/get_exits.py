"""``get`` raises ``SystemExit``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        raise SystemExit(3)
