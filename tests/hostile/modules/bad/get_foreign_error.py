"""``get`` raises an error class that only the runtime should raise."""

from resource_api import ManifestError, Problem
from shelf import Shelf


class Provider(Shelf):
    def get(self, context):
        raise ManifestError([Problem(None, "it is all the manifest's fault")])
