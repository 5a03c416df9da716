"""``set`` deletes ``b`` after all changes."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        self._put("b", {"ensure": "absent"})
