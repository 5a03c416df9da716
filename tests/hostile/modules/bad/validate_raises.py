"""``validate`` raises for one resource."""

from shelf import Shelf


class Provider(Shelf):
    def validate(self, context, should):
        if should["name"] == "b":
            raise AttributeError("'NoneType' object has no attribute 'strip'")
