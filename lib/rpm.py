"""Read the database of rpm: the base class of the providers of packages for dnf and zypper."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from lib import packages
from resource_api import Command, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

#: Of an installed package: when it was installed, as of a kernel several versions are.
INSTALLED = "%{INSTALLTIME}|%{NAME}|%{EPOCHNUM}:%{VERSION}-%{RELEASE}|%{ARCH}\\n"
FIELDS = 4
#: Packages that rpm writes for the keys that it trusts.
KEY = "gpg-pubkey"
UNIVERSAL = "noarch"


class RpmProvider(packages.PackageProvider):
    """The base class of providers of packages in rpm's database; a subclass has the program that installs them."""

    rpm: ClassVar[Command] = Command("rpm", read_only=True)
    #: The path of the program that installs them.
    installer: ClassVar[str]

    def suitable(self, _context: Context) -> bool | str:
        """Return whether the program is installed."""
        return os.path.exists(self.installer) or f"there is no {self.installer}"  # noqa: PTH110 - text in, text out

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the packages of rpm's database, with their candidate version if they are declared as ``latest``.

        A package can be declared with or without its architecture, so it has two names here. A listing contains each
        package once, because two resources of one package would be in conflict.
        """
        packages_by_name = by_name(self.rpm.lines("-qa", "--qf", INSTALLED))
        if names is None:
            # Each package once: under its name with the architecture only if its bare name is another package's.
            first_names = {id(row): name for name, row in reversed(packages_by_name.items())}
            rows = [{**row, "name": name} for name, row in packages_by_name.items() if first_names[id(row)] == name]
            return context.accepted(rows)
        rows = [{**packages_by_name[name], "name": name} for name in names if name in packages_by_name]
        if latest := [row["name"] for row in rows if row["name"] in self._latest]:
            candidates = self.candidates(latest)
            for row in rows:
                if row["name"] in self._latest:
                    row["candidate"] = candidates.get(row["name"], row["version"])
        return rows

    def _links(
        self, context: Context, changes: Mapping[str, Change], effects: Sequence[SideEffect]
    ) -> Iterator[tuple[str, str]]:
        """Yield (changed package, affected package), by a simulation of each change alone, which is slow.

        Yield nothing if all effects are installations: they are then attributed to all changes.
        """
        if all(effect.action == "install" for effect in effects):
            return
        for name, change in changes.items():
            for arguments, _ in self._transactions(context, {name: change}):
                yield from ((name, effect.name) for effect in self._simulated(arguments))

    def candidates(self, names: list[str]) -> Mapping[str, str]:
        """Return name → the version that would be installed now; nothing for one that no repository has or renews."""
        raise NotImplementedError


def by_name(lines: Iterable[str]) -> dict[str, Resource]:
    """Return the packages of rpm's listing, each under ``name`` and ``name.architecture``: both can be declared.

    A bare name means this machine's architecture, if the package is installed for it. If several versions of a package
    are installed, such as kernels, the row is that of the last installed one.
    """
    by_both_names: dict[str, Resource] = {}
    # By the time of installation: the newest comes last and replaces former ones.
    for line in sorted(lines, key=lambda text: (int(text.partition("|")[0] or 0), text)):
        fields = line.split("|")
        if len(fields) != FIELDS or fields[1] == KEY:
            continue
        _, name, version, architecture = fields
        row = {"name": name, "ensure": "present", "version": version.removeprefix("0:"), "status": "installed"}
        native = architecture in {UNIVERSAL, os.uname().machine}
        if native or name not in by_both_names:
            by_both_names[name] = row
        by_both_names[f"{name}.{architecture}"] = row
    return by_both_names


def effect(name: str, architecture: str, version: str, action: str, *, dependent: bool = False) -> SideEffect:
    """Return a transaction's effect on a package, as simulated for a plan.

    ``dependent``: the package is removed because only a removed package needed it.
    """
    aliases = (f"{name}.{architecture}",)
    if action == "remove":
        return SideEffect(name, action, aliases=aliases, dependent=dependent)
    row = {"ensure": "present", "version": version.removeprefix("0:"), "status": "installed"}
    return SideEffect(name, action, state=row, aliases=aliases)


def without_architecture(name: str) -> tuple[str, str]:
    """Return the name of a package, and the architecture at its end, or an empty text."""
    base, dot, architecture = name.rpartition(".")
    return (base, architecture) if dot and architecture in {UNIVERSAL, os.uname().machine, "i686"} else (name, "")
