"""Ends the process shortly after the first ``get``."""

import os
import threading
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        if not Path("died").exists():
            Path("died").touch()
            threading.Timer(0.2, os._exit, (9,)).start()
        return super().get(context)
