"""Works on ``b`` until ``context.cancelled`` is set."""

import time
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            Path("begun").touch()
            while not self._context.cancelled:
                time.sleep(0.01)
        super()._put(name, should)

    def set(self, context, changes):
        self._context = context
        super().set(context, changes)
