"""``get`` forks, and both processes return."""

import os

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        rows = super().get(context)
        os.fork()
        return rows
