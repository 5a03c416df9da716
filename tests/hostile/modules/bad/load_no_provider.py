"""The module defines a class of another name than ``Provider``."""

from json_store import JsonStore


class Supplier(JsonStore):
    pass
