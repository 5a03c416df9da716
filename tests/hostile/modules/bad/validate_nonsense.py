"""``validate`` returns a number."""

from shelf import Shelf


class Provider(Shelf):
    def validate(self, context, should):
        return 7 if should["name"] == "b" else []
