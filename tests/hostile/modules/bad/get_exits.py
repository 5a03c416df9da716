"""Leaves while it reads."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise SystemExit(3)
