"""``canonicalize`` drops a declared attribute of ``b``."""

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        return [{k: v for k, v in row.items() if row["name"] != "b" or k != "size"} for row in resources]
