"""``get`` raises after ``set`` has made a change."""

from shelf import Shelf


class Provider(Shelf):
    changed = False

    def get(self, context):
        if self.changed:
            raise ConnectionError("the shelf has fallen down")
        return super().get(context)

    def set(self, context, changes):
        super().set(context, changes)
        self.changed = True
