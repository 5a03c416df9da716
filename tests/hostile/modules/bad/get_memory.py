"""``get`` allocates more memory than exists."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return [b"x" * (1 << 62)]
