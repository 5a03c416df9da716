"""``get`` raises ``StateError``."""

from resource_api import StateError
from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise StateError("no state for you")
