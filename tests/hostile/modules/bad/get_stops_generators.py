"""``get`` raises ``GeneratorExit``."""

from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise GeneratorExit
