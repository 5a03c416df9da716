"""Read the database of rpm, and change it with ``dnf``, in one transaction for all packages of a call."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import packages, rpm
from resource_api import Command, Problem, ResourceError, SideEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api import Change, Context

AVAILABLE = "0|%{name}|%{epoch}:%{version}-%{release}|%{arch}"


#: The line after which dnf prints its table, and the heading below the table.
RESOLVED = "Dependencies resolved."
SUMMARY = "Transaction Summary"
#: The beginning of a heading → the action on the packages below it.
ACTIONS = {
    "Installing": "install",
    "Upgrading": "upgrade",
    "Downgrading": "downgrade",
    "Reinstalling": "reinstall",
    "Removing": "remove",
}
UNUSED = "Removing unused dependencies"
#: A package, its architecture, its version; then where it is from, and its size.
COLUMNS = 3


class Provider(rpm.RpmProvider):
    """The packages of Fedora, of Red Hat Enterprise Linux and of distributions derived from them."""

    installer = "/usr/bin/dnf"
    dnf = Command("dnf", timeout=3600)
    repoquery = Command("dnf", read_only=True)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the packages that no repository has, as their installation would fail."""
        declared = [name for name, should in changes.items() if should["ensure"] != "absent"]
        candidates = self.candidates(declared) if declared else {}
        for name in declared:
            if name not in candidates and (providers := self._providers(name)):
                yield name, Problem(None, packages.virtual(name, providers), needs=f"Package[{providers[0]}]")
            elif name not in candidates:
                yield name, Problem(None, f"dnf knows no package '{name}'")

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Remove in one transaction, then install in one for each set of options."""
        for arguments, _ in list(self._transactions(context, changes)):
            self.dnf("-q", "-y", *arguments)

    def _transactions(self, context: Context, changes: Mapping[str, Change]) -> Iterator[packages.Transaction]:
        """Yield a removal, and an installation for each set of options. Raise ``ResourceError`` for a hold."""
        removed: list[str] = []
        installed: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for name, (is_, should) in changes.items():
            if should.get("mark") == "hold":
                raise ResourceError("dnf holds no packages without its plug-in versionlock, which is not supported")
            if should["ensure"] == "absent":
                removed.append(name)
            elif not is_ or self.insync(context, name, "ensure", is_, should) is not True:
                installed[tuple(should.get("install_options") or ())][name] = _argument(name, is_, should)
        if removed:
            yield ("remove", "--", *removed), {*removed}
        for options, arguments in installed.items():
            yield ("install", *options, "--", *arguments.values()), {*arguments}

    def _simulated(self, arguments: Sequence[str]) -> Iterator[SideEffect]:
        """Yield the effects of a transaction by the table that dnf prints before its question; the answer is no.

        Raise ``ResourceError`` if dnf would fail.
        """
        result = self.repoquery.attempt("--assumeno", *arguments, log="debug")
        if RESOLVED not in result.stdout and result.exit_code:
            lines = [line for line in result.stderr.splitlines() if line.strip()]
            raise ResourceError(f"'dnf {arguments[0]}' would fail:" + "".join(f"\n  {line}" for line in lines[-10:]))
        yield from effects(result.stdout)

    def _providers(self, name: str) -> list[str]:
        """Return the packages that provide a virtual one, for the advice to declare one of them.

        Return none if a package has that name itself.
        """
        query = ("-q", "repoquery", "--qf", "%{name}", f"--whatprovides={name}")
        providers = set(self.repoquery.lines(*query)) - {""}
        return [] if name in providers else sorted(providers)

    def candidates(self, names: list[str]) -> Mapping[str, str]:
        """Return the newest versions that the repositories have, by name."""
        lines = self.repoquery.lines("-q", "repoquery", "--latest-limit=1", "--qf", AVAILABLE, "--", *names)
        return {name: row["version"] for name, row in rpm.by_name(lines).items()}


def _argument(name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str:
    """Return the argument of ``dnf install`` for a package, with its version if one is declared or a newer one exists.

    Without a version dnf would leave an installed package unchanged.
    """
    ensure = should["ensure"]
    version = None if ensure == "present" else ensure
    if ensure == "latest":
        version = (is_ or {}).get("candidate")
    base, architecture = rpm.without_architecture(name)
    if version and architecture:
        return f"{base}-{version}.{architecture}"
    return f"{name}-{version}" if version else name


def effects(table: str) -> Iterator[SideEffect]:
    """Yield the effects in dnf's table: below a heading such as ``Upgrading:`` each line has name, arch and version.

    A long name is a line of its own, with the rest in the next one after more blanks.
    """
    action, unused = "", False
    words: list[str] = []
    for line in table.partition(SUMMARY)[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            action = next((action for word, action in ACTIONS.items() if line.startswith(word)), "")
            unused = line.startswith(UNUSED)
            continue
        continued = words if line.startswith("   ") else []  # the line above with a long name
        words = [*continued, *line.split()] if line.startswith(" ") else []
        if words[:1] == ["replacing"]:
            name, _, architecture = words[1].rpartition(".")
            yield rpm.effect(name, architecture, words[2], "remove")
            words = []
        elif action and len(words) >= COLUMNS:
            name, architecture, version, *_ = words
            yield rpm.effect(name, architecture, version, action, dependent=unused)
            words = []
