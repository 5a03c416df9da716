"""``get`` has no parameter ``names``, though its type declares ``simple_get_filter``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        return []
