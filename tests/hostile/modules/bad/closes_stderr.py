"""``set`` closes stderr and opens a file that gets its descriptor number."""

import os

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        os.close(2)
        self._mine = open(os.path.join(os.environ["STORE"], "mine.txt"), "w")
        self._mine.write("mine alone\n")
        self._mine.flush()
