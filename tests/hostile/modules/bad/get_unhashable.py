"""Returns a name that cannot be one."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [*super().get(context), {"name": ["e"], "ensure": "present"}]
