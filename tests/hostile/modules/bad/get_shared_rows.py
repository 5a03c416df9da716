"""Returns its own live data, one mapping for all."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        row = {}
        for each in super().get(context):
            row.clear()
            row.update(each)
            yield row
