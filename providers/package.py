"""Read dpkg's database and change it with ``apt-get``: everything that a call wants in one transaction."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api import BaseProvider, Command, CommandError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

DATABASE: Final = "/var/lib/dpkg/status"
JOURNAL: Final = "/var/lib/dpkg/updates"
LISTS: Final = "/var/lib/apt/lists"
FIELDS: Final = ("Package", "Status", "Architecture", "Version")
#: dpkg's states of a package that works; all others but the last two below are left by something that went wrong.
WORKING: Final = frozenset({"installed", "triggers-awaited", "triggers-pending"})
REMOVED: Final = frozenset({"config-files", "not-installed"})
#: What nobody has edited is replaced, what somebody has is kept: there is no one to ask.
KEEP_FILES: Final = ("--force-confdef", "--force-confold")
#: apt takes names as names, not as regular expressions, and waits for others who hold dpkg's lock, in seconds.
OPTIONS: Final = (
    *("-q", "-y", "-o", "APT::Cmd::Pattern-Only=true", "-o", "DPkg::Lock::Timeout=120"),
    *(word for option in KEEP_FILES for word in ("-o", f"Dpkg::Options::={option}")),
)


class Provider(BaseProvider):
    """Packages of Debian 12 and its relatives."""

    apt_get = Command("apt-get", timeout=3600, env={"DEBIAN_FRONTEND": "noninteractive"})
    apt_cache = Command("apt-cache", read_only=True)
    dpkg = Command("dpkg", timeout=3600, env={"DEBIAN_FRONTEND": "noninteractive"})
    dpkg_query = Command("dpkg-query", read_only=True)

    def __init__(self) -> None:
        """Nobody has asked for the latest version of anything yet."""
        self._latest: set[str] = set()

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Spell ``purged`` as the removal that it is, and learn whose candidates ``get`` has to look up."""
        for resource in resources:
            if resource.get("ensure") == "purged" and "purge" in resource:
                resource.update(ensure="absent", purge=True)
            if resource.get("ensure") == "latest" and "name" in resource:
                self._latest.add(resource["name"])
        return resources

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Give the packages of dpkg's database; the candidate of those that somebody wants in the latest version."""
        native, records = self._records()
        if names is None:
            rows = [_row(_title(record, native), record) for record in records]
        else:
            known = {name: record for record in records for name in _names(record, native)}
            rows = [_row(name, known[name]) for name in names if name in known]
        wanted = [row for row in rows if row["name"] in self._latest and row["ensure"] == "present"]
        if wanted:
            candidates = self._candidates([row["name"] for row in wanted])
            for row in wanted:
                row["candidate"] = candidates.get(row["name"].removesuffix(f":{native}"))
        return rows

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare ``ensure`` by what is installed: in any version, in the candidate's, or in a certain one."""
        if attribute != "ensure":
            return None
        ensure, status, version = should["ensure"], is_.get("status"), is_.get("version")
        if ensure == "absent":
            return status is None or (status in REMOVED and not (should.get("purge") and status == "config-files"))
        if status not in WORKING:
            return False, f"the package is {status}" if status else "the package is not installed"
        wanted = {"present": version, "latest": is_.get("candidate")}.get(ensure, ensure)
        return version == wanted or (False, f"changed from {version} to {wanted or ensure}")

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Install and remove in one transaction for each set of options, then purge in another."""
        transactions: dict[tuple[str, ...], list[str]] = {}
        purged = []
        for name, (_, should) in changes.items():
            if should["ensure"] == "purged" or (should["ensure"] == "absent" and should.get("purge")):
                purged.append(name)
            else:
                options = _options(should)
                transactions.setdefault(options, []).append(self._argument(name, should["ensure"]))
        for options, arguments in transactions.items():
            self._apt("install", *options, "--", *arguments)
        if purged:
            self._apt("purge", "--", *purged)

    def _argument(self, name: str, ensure: str) -> str:
        """Say what is wanted in apt's words; a plus sign at the end would be a word of its own."""
        if ensure == "absent":
            return f"{name}-"
        if ensure in {"present", "latest"}:
            return f"{name}:{self._records()[0]}" if name.endswith("+") else name
        return f"{name}={ensure}+" if ensure.endswith("+") else f"{name}={ensure}"

    def _apt(self, *arguments: str) -> None:
        """Run apt-get; finish first what a dpkg that was killed has left."""
        try:
            self.apt_get(*OPTIONS, *arguments)
        except CommandError as error:
            if "dpkg --configure -a" not in error.stderr:
                if "Unable to locate" in error.stderr and not _lists():
                    msg = f"apt has no lists of packages, run 'apt-get update': {error}"
                    raise ResourceError(msg) from error
                raise
            self.dpkg(*KEEP_FILES, "--configure", "-a")
            self.apt_get(*OPTIONS, *arguments)

    def _records(self) -> tuple[str, list[dict[str, str]]]:
        """Give dpkg's own architecture, the machine's, and every package that it knows something of.

        The file is read as it is, in half the time that dpkg-query needs, unless a running or killed dpkg has written
        what is newer into its journal.
        """
        if any(map(str.isdigit, os.listdir(JOURNAL))):  # noqa: PTH208 - bare names
            layout = "".join(f"{field}: ${{{field}}}\n" for field in FIELDS) + "\n"
            text = self.dpkg_query("-W", "-f", layout).stdout
        else:
            with open(DATABASE, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - faster to import
                text = file.read()
        records = list(_parse(text))
        native = next((record["Architecture"] for record in records if record["Package"] == "dpkg"), "")
        return native, [record for record in records if _state(record) != "not-installed"]

    def _candidates(self, names: list[str]) -> dict[str, str]:
        """Ask apt for all names at once: it reads all its lists for one answer too."""
        found, name = {}, ""
        for line in self.apt_cache.lines("policy", "-o", "APT::Cmd::Pattern-Only=true", "--", *names):
            if not line.startswith(" "):
                name = line.removesuffix(":")
            elif line.startswith("  Candidate: "):
                found[name] = line.removeprefix("  Candidate: ")
        return found


def _lists() -> list[str]:
    """Give the lists of packages that apt has, none where it has no directory of them."""
    with suppress(FileNotFoundError):
        return [name for name in os.listdir(LISTS) if "_Packages" in name]  # noqa: PTH208 - bare names
    return []


def _parse(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields that count of each paragraph (deb-control(5)); looking for them is faster than taking lines."""
    for paragraph in text.split("\n\n"):
        lines, record = f"\n{paragraph}\n", {}
        for field in FIELDS:
            _, found, rest = lines.partition(f"\n{field}: ")
            if found:
                record[field] = rest.partition("\n")[0]
        if record:
            yield record


def _state(record: Mapping[str, str]) -> str:
    """Give the last of dpkg's three words: wanted, error, state."""
    return record["Status"].rpartition(" ")[2]


def _row(name: str, record: Mapping[str, str]) -> Resource:
    state = _state(record)
    if state in REMOVED:
        return {"name": name, "ensure": "absent", "status": state}
    return {"name": name, "ensure": "present", "version": record["Version"], "status": state}


def _title(record: Mapping[str, str], native: str) -> str:
    name, architecture = record["Package"], record["Architecture"]
    return name if architecture in {native, "all"} else f"{name}:{architecture}"


def _names(record: Mapping[str, str], native: str) -> set[str]:
    """Give every name that apt takes for this package; what fits all architectures is of the machine's too."""
    name, architecture = record["Package"], record["Architecture"]
    names = {_title(record, native), f"{name}:{architecture}"}
    return names | {f"{name}:{native}"} if architecture == "all" else names


def _options(should: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the options of an installation; a wish for a version is one for an older one too."""
    ensure = should["ensure"]
    if ensure == "absent":
        return ()
    downgrade = () if ensure in {"present", "latest"} else ("--allow-downgrades",)
    return (*downgrade, *(should.get("install_options") or ()))
