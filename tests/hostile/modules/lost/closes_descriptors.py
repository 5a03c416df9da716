"""Closes every descriptor and opens files at ``b``."""

import os
from pathlib import Path

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            os.closerange(0, 1024)
            self._mine = [Path(f"mine{number}.txt").open("w") for number in range(8)]
        super()._put(name, should)
