"""Gives an instance where a class is asked for."""

from shelf import Shelf

Provider = Shelf()
