"""``set`` raises before any change."""

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        raise PermissionError(13, "Permission denied", "/dev/store")
