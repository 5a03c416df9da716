"""``get`` returns an object that is no value of any data type for ``tree``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "tree": object()} if row["name"] == "b" else row for row in super().get(context)]
