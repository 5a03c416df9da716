"""Can only write."""


class Provider:
    def set(self, context, changes):
        pass
