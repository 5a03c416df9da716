"""The module changes ``sys.path`` while it is loaded."""

import sys

from shelf import Shelf

sys.path.insert(0, "/tmp")


class Provider(Shelf):
    pass
