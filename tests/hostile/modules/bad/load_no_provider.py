"""Defines something else."""

from shelf import Shelf


class Supplier(Shelf):
    pass
