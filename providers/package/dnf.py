"""Read the database of rpm, and change it with ``dnf``, in one transaction for all packages of a call."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import rpm
from resource_api import Command, Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Change, Context

AVAILABLE = "0|%{name}|%{epoch}:%{version}-%{release}|%{arch}"


class Provider(rpm.RpmProvider):
    """The packages of Fedora, of Red Hat Enterprise Linux and of distributions derived from them."""

    installer = "/usr/bin/dnf"
    dnf = Command("dnf", timeout=3600)
    repoquery = Command("dnf", read_only=True)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the packages that no repository has."""
        wanted = [name for name, should in changes.items() if should["ensure"] != "absent"]
        known = self.candidates(wanted) if wanted else {}
        for name in wanted:
            if name not in known:
                yield name, Problem(None, f"dnf knows no package '{name}'")

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Remove in one transaction, then install in one for each set of options."""
        removed: list[str] = []
        installed: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, (is_, should) in changes.items():
            if should.get("mark") == "hold":
                msg = "dnf holds no packages without its plug-in versionlock, which is not supported"
                raise ResourceError(msg)
            if should["ensure"] == "absent":
                removed.append(name)
            elif not is_ or self.insync(context, name, "ensure", is_, should) is not True:
                installed[tuple(should.get("install_options") or ())].append(_argument(name, is_, should))
        if removed:
            self.dnf("-q", "-y", "remove", "--", *removed)
        for options, arguments in installed.items():
            self.dnf("-q", "-y", "install", *options, "--", *arguments)

    def candidates(self, names: list[str]) -> Mapping[str, str]:
        """Return the newest versions that the repositories have, by name."""
        lines = self.repoquery.lines("-q", "repoquery", "--latest-limit=1", "--qf", AVAILABLE, "--", *names)
        return {name: row["version"] for name, row in rpm.by_name(lines).items()}


def _argument(name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str:
    """Return the argument for ``dnf install``, which changes an installed package only to a given version."""
    ensure = should["ensure"]
    version = (is_ or {}).get("candidate") if ensure == "latest" else None if ensure == "present" else ensure
    base, architecture = rpm.without_architecture(name)
    if version and architecture:
        return f"{base}-{version}.{architecture}"
    return f"{name}-{version}" if version else name
