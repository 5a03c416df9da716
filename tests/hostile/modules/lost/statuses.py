"""Reports ``a`` as failed, completes ``b``, and exits before ``c``."""

import os
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        self._called("set", list(changes))
        for name, (_, should) in changes.items():
            if name == "a":
                context.failed(name, message="a is glued to the wall")
            elif name == "b":
                with context.updating(name):
                    self._put(name, should)
                context.warning("leaving")
                if not Path("died").exists():
                    Path("died").touch()
                    os._exit(3)
            else:
                self._put(name, should)
