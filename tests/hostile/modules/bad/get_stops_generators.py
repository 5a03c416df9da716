"""``get`` raises ``GeneratorExit``."""

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        raise GeneratorExit
