"""Allocates memory up to its limit at ``b``."""

import resource

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            self._eaten = []
            while True:
                self._eaten.append(bytes(64 << 20))
        super()._put(name, should)
