"""``get`` raises an error class that only the runtime should raise."""

from json_store import JsonStore
from resource_api import ManifestError, Problem


class Provider(JsonStore):
    def get(self, context):
        raise ManifestError([Problem(None, "it is all the manifest's fault")])
