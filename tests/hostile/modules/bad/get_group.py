"""``get`` raises an ``ExceptionGroup``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        raise ExceptionGroup("two things went wrong", [ValueError("one thing"), KeyError("another")])
