"""Pretends that somebody pressed Ctrl-C while it reads."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise KeyboardInterrupt
