"""``get`` returns a value of 300 MiB for ``b``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        return [{**row, "colour": "x" * (300 << 20)} if row["name"] == "b" else row for row in super().get(context)]
