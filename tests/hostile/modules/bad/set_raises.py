"""``set`` raises before any change."""

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        raise PermissionError(13, "Permission denied", "/dev/shelf")
