"""``get`` raises after ``set`` has made a change."""

from json_store import JsonStore


class Provider(JsonStore):
    changed = False

    def get(self, context):
        if self.changed:
            raise ConnectionError("the store is gone")
        return super().get(context)

    def set(self, context, changes):
        super().set(context, changes)
        self.changed = True
