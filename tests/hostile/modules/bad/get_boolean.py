"""Returns a resource with an attribute that is not what its type declares (size, boolean)."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": True} if row["name"] == "b" else row for row in super().get(context)]
