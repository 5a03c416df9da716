"""``get`` returns a string for the integer ``size``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": "2"} if row["name"] == "b" else row for row in super().get(context)]
