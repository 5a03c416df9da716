"""Returns a resource with an attribute that is not what its type declares (size, wrong_type)."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": "2"} if row["name"] == "b" else row for row in super().get(context)]
