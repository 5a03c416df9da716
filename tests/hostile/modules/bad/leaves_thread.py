"""``set`` starts a thread that outlasts the run."""

import threading
import time

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
