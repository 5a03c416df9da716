"""Has no insync, though its type promises one."""

from shelf import Shelf


class Provider(Shelf):
    pass
