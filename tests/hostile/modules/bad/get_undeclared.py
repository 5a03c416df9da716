"""``get`` returns the undeclared attribute ``weight``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "weight": 3} if row["name"] == "b" else row for row in super().get(context)]
