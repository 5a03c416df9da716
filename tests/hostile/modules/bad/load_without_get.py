"""The provider has no ``get``."""


class Provider:
    def set(self, context, changes):
        pass
