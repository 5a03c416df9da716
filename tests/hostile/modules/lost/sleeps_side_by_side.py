"""Sleeps in concurrent calls, caches what it reads, and exits at ``b``."""

import fcntl
import os
import time
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    cached = None

    def get(self, context):
        self.cached = self.cached or list(super().get(context))
        return self.cached

    def set(self, context, changes):
        time.sleep(1)
        if "b" in changes:
            os._exit(3)
        with Path("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().set(context, changes)
        self.cached = None
