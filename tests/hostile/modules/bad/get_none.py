"""``get`` returns None."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        super().get(context)
