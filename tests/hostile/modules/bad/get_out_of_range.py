"""Returns a resource with an attribute that is not what its type declares (size, out_of_range)."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": 1000} if row["name"] == "b" else row for row in super().get(context)]
