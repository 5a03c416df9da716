"""``validate`` raises for one resource."""

from json_store import JsonStore


class Provider(JsonStore):
    def validate(self, context, should):
        if should["name"] == "b":
            raise AttributeError("'NoneType' object has no attribute 'strip'")
