"""Reads where nothing is while it is loaded."""

import ctypes

ctypes.string_at(0)
