"""``validate`` returns a number."""

from json_store import JsonStore


class Provider(JsonStore):
    def validate(self, context, should):
        return 7 if should["name"] == "b" else []
