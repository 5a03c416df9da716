"""``canonicalize`` calls ``sys.exit(0)``."""

import sys

from json_store import JsonStore


class Provider(JsonStore):
    def canonicalize(self, context, resources):
        sys.exit(0)
