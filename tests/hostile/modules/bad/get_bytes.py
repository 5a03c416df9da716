"""Returns a resource with an attribute that is not what its type declares (colour, bytes)."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "colour": b"red"} if row["name"] == "b" else row for row in super().get(context)]
