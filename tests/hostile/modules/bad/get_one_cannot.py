"""Cannot read one of them, and says so."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        context.failed("b", message="behind a locked door")
        return [row for row in super().get(context) if row["name"] != "b"]
