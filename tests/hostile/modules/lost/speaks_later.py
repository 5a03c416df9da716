"""Uses the context of the first call from a thread after the call has returned."""

import threading
import time
from contextlib import suppress

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        threading.Thread(target=self._go_on, args=(context,), daemon=True).start()

    def _go_on(self, context):
        time.sleep(0.1)
        for _ in range(300):
            with suppress(Exception):
                context.failed("a", message="much later")
            with suppress(Exception):
                context.outcomes.clear()
            _ = context.cancelled
            time.sleep(0.001)
