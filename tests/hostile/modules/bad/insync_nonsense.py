"""``insync`` returns a string."""

from json_store import JsonStore


class Provider(JsonStore):
    def insync(self, context, name, attribute, is_, should):
        return "perhaps" if name == "b" else None
