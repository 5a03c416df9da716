"""Drops an attribute that was declared."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        return [{k: v for k, v in row.items() if row["name"] != "b" or k != "size"} for row in resources]
