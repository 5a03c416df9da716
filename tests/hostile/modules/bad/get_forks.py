"""``get`` forks, and both processes return."""

import os

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        rows = super().get(context)
        os.fork()
        return rows
