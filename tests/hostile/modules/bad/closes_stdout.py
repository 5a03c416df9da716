"""``set`` closes stdin and stdout."""

import os
import sys

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        sys.stdout.close()
        for number in (0, 1):
            os.close(number)
