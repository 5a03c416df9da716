"""``canonicalize`` replaces a number by a string."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        return [{**row, "size": "2"} if row["name"] == "b" else row for row in resources]
