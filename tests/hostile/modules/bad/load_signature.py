"""``get`` has no parameter ``names``, though its type declares ``simple_get_filter``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return []
