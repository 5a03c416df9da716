"""Causes a segmentation fault in the constructor."""

import ctypes

from shelf import Shelf


class Provider(Shelf):
    def __init__(self):
        ctypes.string_at(0)
