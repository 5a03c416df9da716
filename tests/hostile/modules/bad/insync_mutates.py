"""``insync`` modifies the values that it receives."""

from json_store import JsonStore


class Provider(JsonStore):
    def insync(self, context, name, attribute, is_, should):
        should["size"] = 66
        is_.clear()
        for parts in (should.get("parts"), is_.get("parts")):
            if parts:
                parts.clear()
        return None
