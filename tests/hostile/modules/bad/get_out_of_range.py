"""``get`` returns a ``size`` outside its range."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "size": 1000} if row["name"] == "b" else row for row in super().get(context)]
