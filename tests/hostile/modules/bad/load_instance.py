"""``Provider`` is an instance instead of a class."""

from json_store import JsonStore

Provider = JsonStore()
