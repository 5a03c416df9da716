"""The module changes ``sys.path`` while it is loaded."""

import sys

from json_store import JsonStore

sys.path.insert(0, "/tmp")


class Provider(JsonStore):
    pass
