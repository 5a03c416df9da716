"""``get`` returns a mapping whose item access raises."""

from collections.abc import Mapping

from json_store import JsonStore


class Row(Mapping):
    def __getitem__(self, key):
        raise ZeroDivisionError("division by zero in a row")

    def __iter__(self):
        return iter(["name"])

    def __len__(self):
        return 1


class Provider(JsonStore):
    def get(self, context):
        return [*super().get(context), Row()]
