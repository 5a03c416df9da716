"""The module defines a class of another name than ``Provider``."""

from shelf import Shelf


class Supplier(Shelf):
    pass
