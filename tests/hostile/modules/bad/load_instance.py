"""``Provider`` is an instance instead of a class."""

from shelf import Shelf

Provider = Shelf()
