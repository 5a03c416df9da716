"""``set`` raises an exception whose ``__str__`` raises."""

from json_store import JsonStore


class Mute(Exception):
    def __str__(self):
        raise RecursionError("no words")

    __repr__ = __str__


class Provider(JsonStore):
    def set(self, context, changes):
        for name, (_, should) in changes.items():
            with context.updating(name):
                if name == "b":
                    raise Mute
                self._put(name, should)
