"""``insync`` raises for one resource."""

from json_store import JsonStore


class Provider(JsonStore):
    def insync(self, context, name, attribute, is_, should):
        if name == "b":
            raise TypeError("'<' not supported between 'b' and the rest")
        return None
