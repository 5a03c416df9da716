"""``set`` deletes ``b`` after all changes."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        self._put("b", {"ensure": "absent"})
