"""``set`` forks after its changes, and the child process raises."""

import os

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        if os.fork() == 0:
            raise RuntimeError("in the child")
