"""``get`` returns an infinite float for ``ratio``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "ratio": float("-inf")} if row["name"] == "b" else row for row in super().get(context)]
