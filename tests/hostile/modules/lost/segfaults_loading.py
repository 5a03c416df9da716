"""Causes a segmentation fault while the module is loaded."""

import ctypes

ctypes.string_at(0)
