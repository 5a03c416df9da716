"""``get`` raises ``StateError``."""

from json_store import JsonStore
from resource_api import StateError


class Provider(JsonStore):
    def get(self, context):
        raise StateError("no state for you")
