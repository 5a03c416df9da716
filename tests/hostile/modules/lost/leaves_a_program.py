"""Starts a command and a child process, and exits at ``b`` while both run."""

import os
import subprocess
import threading
import time

from json_store import JsonStore
from resource_api import Command


class Provider(JsonStore):
    sleep = Command("sleep")

    def _put(self, name, should):
        if name == "b":
            subprocess.Popen(["sleep", "3601"])
            threading.Thread(target=self.sleep, args=("3602",), daemon=True).start()
            time.sleep(1)
            os._exit(3)
        super()._put(name, should)
