"""Leaves a thread behind that never ends."""

import threading
import time

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
