"""Read the database of rpm, and change it with ``dnf``, in one transaction for all packages of a call."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import packages
from resource_api import Command, Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

DNF = "/usr/bin/dnf"
#: Of an installed package: when it was installed, as of a kernel several versions are.
INSTALLED = "%{INSTALLTIME}|%{NAME}|%{EPOCHNUM}:%{VERSION}-%{RELEASE}|%{ARCH}\\n"
AVAILABLE = "0|%{name}|%{epoch}:%{version}-%{release}|%{arch}"
FIELDS = 4
#: Packages that rpm writes for the keys that it trusts.
KEY = "gpg-pubkey"
UNIVERSAL = "noarch"


class Provider(packages.PackageProvider):
    """The packages of Fedora, of Red Hat Enterprise Linux and of distributions derived from them."""

    dnf = Command("dnf", timeout=3600)
    repoquery = Command("dnf", read_only=True)
    rpm = Command("rpm", read_only=True)

    def suitable(self, _context: Context) -> bool | str:
        """Return whether dnf is installed."""
        return os.path.exists(DNF) or f"there is no {DNF}"  # noqa: PTH110 - text in, text out

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the packages of rpm's database; those that are wanted as ``latest`` with their candidate version."""
        found = _by_name(self.rpm.lines("-qa", "--qf", INSTALLED))
        if names is None:
            # The second name of a package, with the architecture, is needed only where the first one is another's.
            seen = {id(row): name for name, row in reversed(found.items())}
            rows = [{**row, "name": name} for name, row in found.items() if seen[id(row)] == name]
            return context.accepted(rows)
        rows = [{**found[name], "name": name} for name in names if name in found]
        if latest := [row["name"] for row in rows if row["name"] in self._latest]:
            candidates = self._candidates(latest)
            for row in rows:
                if row["name"] in self._latest:
                    row["candidate"] = candidates.get(row["name"], row["version"])
        return rows

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the packages that no repository has."""
        wanted = [name for name, should in changes.items() if should["ensure"] != "absent"]
        known = self._candidates(wanted) if wanted else {}
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

    def _candidates(self, names: list[str]) -> dict[str, str]:
        """Return the newest versions that the repositories have, by name."""
        lines = self.repoquery.lines("-q", "repoquery", "--latest-limit=1", "--qf", AVAILABLE, "--", *names)
        return {name: row["version"] for name, row in _by_name(lines).items()}


def _by_name(lines: Iterable[str]) -> dict[str, Resource]:
    """Return the packages of a listing, the newest of each, by name and by name with architecture."""
    found: dict[str, Resource] = {}
    for line in sorted(lines, key=lambda each: (int(each.partition("|")[0] or 0), each)):
        fields = line.split("|")
        if len(fields) != FIELDS or fields[1] == KEY:
            continue
        _, name, version, architecture = fields
        row = {"name": name, "ensure": "present", "version": version.removeprefix("0:"), "status": "installed"}
        native = architecture in {UNIVERSAL, os.uname().machine}
        if native or name not in found:
            found[name] = row
        found[f"{name}.{architecture}"] = row
    return found


def _argument(name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str:
    """Return the argument for ``dnf install``, which changes an installed package only to a given version."""
    ensure = should["ensure"]
    version = (is_ or {}).get("candidate") if ensure == "latest" else None if ensure == "present" else ensure
    base, dot, architecture = name.rpartition(".")
    if version and dot and architecture in {UNIVERSAL, os.uname().machine, "i686"}:
        return f"{base}-{version}.{architecture}"
    return f"{name}-{version}" if version else name
