"""Returns a resource with an attribute that is not what its type declares (tree, object)."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "tree": object()} if row["name"] == "b" else row for row in super().get(context)]
