"""What all providers of packages have in common: the meaning of ``ensure``, ``purge`` and ``mark``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Context, Resource

#: The states of a working package, in dpkg's words. Those that are neither here nor in the next follow a failure.
WORKING = frozenset({"installed", "triggers-awaited", "triggers-pending"})
REMOVED = frozenset({"config-files", "not-installed"})


class PackageProvider(BaseProvider):
    """The methods that depend on the declaration alone; they are called on one provider for all."""

    #: The packages that are wanted in their latest version, and those that are wanted purged.
    _latest: ClassVar[set[str]] = set()
    _purged: ClassVar[set[str]] = set()

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write ``purged`` as ``absent`` with ``purge``; record the packages that ``get`` reads otherwise."""
        for resource in resources:
            if resource.get("ensure") == "purged" and "purge" in resource:
                resource.update(ensure="absent", purge=True)
            if resource.get("ensure") == "latest" and "name" in resource:
                self._latest.add(resource["name"])
            if resource.get("ensure") == "absent" and resource.get("purge") and "name" in resource:
                self._purged.add(resource["name"])
        return resources

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare ``ensure`` with what is installed: any version, the candidate version, or a given one; and a hold."""
        if attribute == "mark":
            return bool(is_.get("mark", "none") == should["mark"])
        if attribute != "ensure":
            return None
        ensure, status, version = should["ensure"], is_.get("status"), is_.get("version")
        if ensure == "absent":
            return status is None or (status in REMOVED and not (should.get("purge") and status == "config-files"))
        if status not in WORKING:
            return False, f"the package is {status}" if status else "the package is not installed"
        wanted = {"present": version, "latest": is_.get("candidate")}.get(ensure, ensure)
        return version == wanted or (False, f"changed from {version} to {wanted or ensure}")
