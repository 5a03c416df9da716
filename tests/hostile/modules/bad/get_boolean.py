"""``get`` returns a boolean for the integer ``size``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": True} if row["name"] == "b" else row for row in super().get(context)]
