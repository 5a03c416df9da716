"""The module recurses without end while it is loaded."""


def again():
    return again()


again()
