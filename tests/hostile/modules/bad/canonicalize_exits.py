"""``canonicalize`` calls ``sys.exit(0)``."""

import sys

from shelf import Shelf


class Provider(Shelf):
    def canonicalize(self, context, resources):
        sys.exit(0)
