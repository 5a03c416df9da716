"""``set`` modifies its arguments wherever possible and ignores the exceptions."""

from contextlib import suppress

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        for name, (is_, should) in list(changes.items()):
            for target in (is_, should):
                for attempt in (
                    lambda t: t.update(size=77),
                    lambda t: t.clear(),
                    lambda t: t.__setitem__("size", 77),
                    lambda t: t["parts"].append("z"),
                ):
                    with suppress(Exception):
                        attempt(target)
            self._put(name, {**should, "size": 50, "parts": ["x", "y", "z"]} if name == "a" else should)
        with suppress(Exception):
            changes.clear()
        with suppress(Exception):
            changes._changes.clear()
