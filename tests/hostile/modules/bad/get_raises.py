"""``get`` raises an exception."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise OSError(5, "Input/output error", "/dev/shelf")
