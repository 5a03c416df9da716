"""Recurses for ever while it is loaded."""


def again():
    return again()


again()
