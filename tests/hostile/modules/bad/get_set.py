"""``get`` returns a set for the list ``parts``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "parts": {"x"}} if row["name"] == "b" else row for row in super().get(context)]
