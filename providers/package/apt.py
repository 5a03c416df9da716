"""Read dpkg's database and change it with ``apt-get``, in one transaction for all packages of a call."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lib import packages
from resource_api import Command, Problem, ResourceError, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, CommandResult, Context, Resource

DATABASE = "/var/lib/dpkg/status"
JOURNAL = "/var/lib/dpkg/updates"
LISTS = "/var/lib/apt/lists"
FIELDS = ("Package", "Status", "Architecture", "Version")
INCOMPLETE = frozenset({"half-installed", "unpacked"})
#: Replace configuration files that were not edited, and keep edited ones, without a question.
KEEP_FILES = ("--force-confdef", "--force-confold")
#: A declared change counts more than a hold.
HELD = ("--allow-change-held-packages",)
#: A version in the table of ``apt-cache policy``, with its priority.
VERSION = re.compile(r" (?:\*\*\*|   ) (\S+) -?\d+")
#: apt reads names as names, not as regular expressions, and waits up to 120 seconds for dpkg's lock.
OPTIONS = (
    *("-q", "-y", "-o", "APT::Cmd::Pattern-Only=true", "-o", "DPkg::Lock::Timeout=120"),
    *(word for option in KEEP_FILES for word in ("-o", f"Dpkg::Options::={option}")),
)


#: apt writes its plan into a file of its log, also where it only simulates.
SIMULATED = ("--simulate", "-o", "Dir::Log::Planner=/dev/null")
#: A line of apt, dpkg or a maintainer script that succeeded, and that is more than a report of progress.
WARNING = re.compile(r"\b[EW]: |warn|fail|error", re.IGNORECASE)
#: A line of an error about a name that is in no list.
UNKNOWN = re.compile(r"^E: Unable to locate package ", re.MULTILINE)
#: The heading above the relations that cannot be met, each in a line; a second one stands below the name of the first.
UNMET = "The following packages have unmet dependencies:"
#: An error of dpkg about one package, and a line with which it begins a new step, after which a script may write.
DPKG_ERROR = "dpkg: error processing "
DPKG_STEP = re.compile(
    r"(?:Setting up|Preparing to unpack|Unpacking|Removing|Purging|Selecting|Processing|\(Reading) ?"
)
#: The most lines of a package's script in a message.
SCRIPT_LINES = 5
#: A line of a simulation: to be installed, with the version now and the new one, or removed.
STEP = re.compile(r"(Inst|Remv|Purg) (\S+)(?: \[(\S+)\])?(?: \((\S+))?")
#: Relations of packages that cannot be installed together.
EXCLUDING = frozenset({"Conflicts", "Breaks", "Replaces"})
DOWNGRADED = "The following packages will be DOWNGRADED:"


class Provider(packages.PackageProvider):
    """The packages of Debian 12 and of distributions derived from it."""

    apt_get = Command("apt-get", timeout=3600, env={"DEBIAN_FRONTEND": "noninteractive"})
    simulation = Command("apt-get", read_only=True)
    apt_cache = Command("apt-cache", read_only=True)
    apt_mark = Command("apt-mark")
    dpkg = Command("dpkg", timeout=3600, env={"DEBIAN_FRONTEND": "noninteractive"})
    dpkg_query = Command("dpkg-query", read_only=True)

    def suitable(self, _context: Context) -> bool | str:
        """Return whether dpkg manages the packages of this machine."""
        return os.path.exists(DATABASE) or f"dpkg does not manage the packages of this machine (there is no {DATABASE})"  # noqa: PTH110

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the packages of dpkg's database; those declared as ``latest`` with their candidate version.

        A package that is declared with ``purge`` counts as present until its configuration files are removed too.
        """
        if names is None:
            native, records = self._records()
            rows = list(context.accepted(_row(_title(record, native), record) for record in records))
        else:
            native, rows = context.derived(_architecture_and_rows, self._database(), list(names))
        for row in rows:
            if row["name"] in self._purged and row["status"] == "config-files":
                row["ensure"] = "present"  # its removal is not complete
        latest = [row for row in rows if row["name"] in self._latest and row["ensure"] == "present"]
        if latest:
            candidates = self._candidates([row["name"] for row in latest])
            for row in latest:
                row["candidate"] = candidates.get(_plain(row["name"], native))
        return rows

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the packages and versions that apt cannot install with the lists that it has."""
        native = self._records()[0]
        versions_by_name = self._versions(list(changes))
        for name, should in changes.items():
            versions, ensure = versions_by_name.get(_plain(name, native)), should["ensure"]
            # None: apt does not know the name; empty: it knows the name alone, such as that of a virtual package.
            if not versions and (providers := self._providers(name)):
                yield name, Problem(None, packages.virtual(name, providers), needs=f"Package[{providers[0]}]")
            elif versions is None:
                hint = "" if _lists() else "; it has no lists of packages, run 'apt-get update'"
                yield name, Problem(None, f"apt knows no package '{name}'{hint}")
            elif ensure not in {"present", "latest", *versions}:
                listed = ", ".join(versions) or "none"
                yield name, Problem("ensure", f"apt has no version {ensure} of '{name}'; it has {listed}")

    def side_effects(self, context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the side effects, except of half unpacked packages, which ``set`` repairs before any transaction."""
        damaged = self._damaged()
        return super().side_effects(context, {name: change for name, change in changes.items() if name not in damaged})

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Install and remove packages in one transaction for each set of options, purge in one more, and set holds."""
        removed = self._repair_or_remove(context, {name: change.should for name, change in changes.items()})
        remaining = {name: change for name, change in changes.items() if name not in removed}
        for command, _ in self._transactions(context, remaining):
            self._apt(context, *command)
        for verb, mark in (("hold", "hold"), ("unhold", "none")):
            if marked := [name for name, (is_, should) in changes.items() if _mark(is_, should) == mark]:
                self.apt_mark("-q", verb, "--", *marked)

    def _transactions(self, context: Context, changes: Mapping[str, Change]) -> Iterator[packages.Transaction]:
        """Yield an ``apt-get install`` for each set of options, which also removes packages, and a purge."""
        transactions: dict[tuple[str, ...], dict[str, str]] = {}
        purged = []
        for name, (is_, should) in changes.items():
            if is_ and self.insync(context, name, "ensure", is_, should) is True:
                continue  # only its hold differs
            purge = should["ensure"] == "absent" and should.get("purge")
            if purge:
                purged.append(name)
            # dpkg was killed while it removed this package: apt only removes it, so it is purged afterwards.
            if not purge or (is_ and is_.get("status") == "half-installed"):
                options = _options(is_, should)
                transactions.setdefault(options, {})[name] = self._argument(name, should["ensure"])
        for options, arguments in transactions.items():
            yield ("install", *options, "--", *arguments.values()), {*arguments}
        if purged:
            yield ("purge", *HELD, "--", *purged), {*purged}

    def _simulated(self, arguments: Sequence[str]) -> Iterator[SideEffect]:
        """Yield the effects of a transaction by apt's simulation. Raise ``ResourceError`` if it would fail.

        apt prints ``bash`` for ``bash:amd64`` on such a machine: the full name is an alias, as a package may be
        declared by it.
        """
        result = self.simulation.attempt(*OPTIONS, *SIMULATED, *arguments, log="debug")
        if result.exit_code:
            raise _failure(result)
        lines = result.stdout.splitlines()
        below = takewhile(lambda line: line.startswith(" "), _below(DOWNGRADED, lines))
        native, older = self._records()[0], {name for line in below for name in line.split()}
        for verb, name, before, version in (match.groups() for match in map(STEP.match, lines) if match):
            aliases = () if ":" in name else (f"{name}:{native}", f"{name}:all")
            if verb == "Inst":
                action = "upgrade" if before else "install"
                if name in older:
                    action = "downgrade"
                row = {"ensure": "present", "version": version, "status": "installed"}
                yield SideEffect(name, action, state=row, aliases=aliases)
            else:
                yield SideEffect(name, "remove", aliases=aliases)

    def _links(
        self, _context: Context, changes: Mapping[str, Change], effects: Sequence[SideEffect]
    ) -> Iterator[tuple[str, str]]:
        """Yield (cause, consequence) pairs of packages, so that a plan shows each side effect at its cause.

        The pairs come from the relations in apt's lists. A new package is installed because another depends on it; an
        installed one changes with one that it depends on; of two that exclude each other, each may be the cause.
        """
        new = {effect.name for effect in effects if effect.action == "install"}
        removed = {effect.name for effect in effects if effect.removes}
        involved = {*changes, *(effect.name for effect in effects)}
        for relation, package, related in self._relations([*changes, *(effect.name for effect in effects)]):
            if related not in involved:
                continue
            # The package changes with the related one, for example is removed with its dependency.
            if package not in new or relation in EXCLUDING:
                yield related, package
            # The package needs the related one, or excludes it.
            if related not in removed or relation in EXCLUDING:
                yield package, related

    def _relations(self, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Yield (relation, package, related package) of each relation of packages, such as ``Depends``, for ``_links``.

        apt prints relations indented below their package, and below a virtual package, further indented, its providers.
        """
        package = relation = ""
        for line in self.apt_cache.lines("depends", "-o", "APT::Cmd::Pattern-Only=true", "--", *names):
            if not line.startswith(" "):
                package = line
            elif line.startswith("    "):
                yield relation, package, line.strip()  # it provides the virtual package of the line above
            else:
                relation, _, related = line.strip(" |").partition(": ")
                yield relation, package, related

    def _providers(self, name: str) -> list[str]:
        """Return the packages that provide a virtual one, for the advice to declare one of them.

        Return none if a package has that name itself.
        """
        lines = self.apt_cache("showpkg", "--", name).stdout.splitlines()
        versions, providers = (_below(heading, lines) for heading in ("Versions: ", "Reverse Provides: "))
        return [] if any(versions) else sorted({line.split(" ")[0] for line in providers})

    def _repair_or_remove(self, context: Context, declared: Mapping[str, Mapping[str, Any]]) -> Collection[str]:
        """Reinstall damaged packages that are declared absent, as dpkg removes no damaged package.

        If apt cannot install a package, as its archive is no longer available or its scripts fail, dpkg removes it by
        force. That is the second choice, as it leaves files that a killed dpkg has unpacked and not recorded. Return
        the names of the packages removed by force.
        """
        names = [name for name, should in declared.items() if should["ensure"] == "absent"]
        if not names:
            return ()
        removed = set()
        for name in filter(self._damaged().__contains__, names):
            try:
                self._apt(context, "install", "--reinstall", "--", self._argument(name, "present"))
            except ResourceError:
                verb = "--purge" if declared[name].get("purge") else "--remove"
                self.dpkg("--force-remove-reinstreq", verb, "--", name)
                removed.add(name)
        return removed

    def _damaged(self) -> Collection[str]:
        """Return the names of the packages that a killed dpkg has left half unpacked: apt refuses any other change."""
        native, records = self._records()
        return {
            name for record in records if " reinstreq " in record.get("Status", "") for name in _names(record, native)
        }

    def _argument(self, name: str, ensure: str) -> str:
        """Return the argument of ``apt-get install`` for a package; ``NAME-`` removes it.

        apt takes a final ``+`` for an action too: a name such as ``g++`` gets its architecture, and a version with
        ``+`` another ``+``.
        """
        if ensure == "absent":
            return f"{name}-"
        if ensure in {"present", "latest"}:
            return f"{name}:{self._records()[0]}" if name.endswith("+") else name
        return f"{name}={ensure}+" if ensure.endswith("+") else f"{name}={ensure}"

    def _apt(self, context: Context, *arguments: str) -> None:
        """Run apt-get. If a killed dpkg left packages unconfigured, configure these and run it again.

        Raise ``ResourceError`` for a failure; its warnings go into the log.
        """
        result = self.apt_get.attempt(*OPTIONS, *arguments, log="debug")
        if result.exit_code and "dpkg --configure -a" in result.stderr:
            self.dpkg.attempt(*KEEP_FILES, "--configure", "-a")  # fails for packages that apt has to unpack again
            result = self.apt_get.attempt(*OPTIONS, *arguments, log="debug")
        if result.exit_code:
            raise _failure(result)
        for line in result.stderr.splitlines():
            (context.warning if WARNING.search(line) else context.info)(line)

    def _records(self) -> tuple[str, list[dict[str, str]]]:
        """Return the architecture of the machine, and the record of every package in dpkg's database."""
        return _records(self._database())

    def _database(self) -> bytes:
        """Return dpkg's records from its file, twice as fast as by dpkg-query, unless its journal has newer ones."""
        if any(map(str.isdigit, os.listdir(JOURNAL))):  # noqa: PTH208 - bare names
            layout = "".join(f"{field}: ${{{field}}}\n" for field in FIELDS) + "\n"
            return self.dpkg_query("-W", "-f", layout).stdout.encode("utf-8", "surrogateescape")
        with open(DATABASE, "rb") as file:  # noqa: PTH123 - faster to import
            return file.read()

    def _candidates(self, names: list[str]) -> dict[str, str]:
        """Return name → the version that apt would install now, which ``insync`` compares for ``latest``."""
        prefix = "  Candidate: "
        policies = self._policy(names)
        return {
            name: line.removeprefix(prefix) for name in policies for line in policies[name] if line.startswith(prefix)
        }

    def _versions(self, names: list[str]) -> dict[str, list[str]]:
        """Return name → the versions that apt can install, to refuse any other; a name unknown to apt is missing."""
        policies = self._policy(names)
        return {
            name: [match[1] for match in map(VERSION.fullmatch, lines) if match] for name, lines in policies.items()
        }

    def _policy(self, names: list[str]) -> dict[str, list[str]]:
        """Return name → the lines about a package, with one call: apt reads all its lists even for one name."""
        lines_by_name: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self.apt_cache.lines("policy", "-o", "APT::Cmd::Pattern-Only=true", "--", *names):
            if line.startswith(" "):
                lines.append(line)
            else:
                lines = lines_by_name[line.removesuffix(":")] = []
        return lines_by_name


def _below(heading: str, lines: Sequence[str]) -> Sequence[str]:
    """Return the lines below a heading, up to a blank one."""
    return list(takewhile(bool, lines[lines.index(heading) + 1 :])) if heading in lines else []


def _failure(result: CommandResult) -> ResourceError:
    """Return the reason of a failed apt-get: relations that cannot be met, errors of dpkg, or apt's own errors."""
    lines = result.stdout.splitlines()
    unmet = [" ".join(line.split()) for line in takewhile(lambda line: line.startswith(" "), _below(UNMET, lines))]
    own = [line.removeprefix("E: ") for line in result.stderr.splitlines() if line.startswith("E: ")]
    reasons = unmet or list(_dpkg_errors(lines)) or own or [f"apt-get ended with {result.exit_code}"]
    unknown = UNKNOWN.search(result.stderr)
    advice = "" if _lists() or not unknown else "; it has no lists of packages, run 'apt-get update'"
    return ResourceError(f"apt: {'; '.join(reasons)}{advice}")


def _dpkg_errors(lines: Sequence[str]) -> Iterator[str]:
    """Yield the errors of dpkg about packages, each after the last lines of the package's script: the reason."""
    script: list[str] = []
    following = iter(lines)
    for line in following:
        if line.startswith(DPKG_ERROR):
            yield from script[-SCRIPT_LINES:]
            yield f"{line} {next(following, '').strip()}"  # dpkg writes the reason into the next line
            script = []
        elif DPKG_STEP.match(line):
            script = []
        elif line.strip():
            script.append(line.strip())


def _lists() -> list[str]:
    """Return the package lists that apt has fetched; without any, errors advise to run ``apt-get update``."""
    with suppress(FileNotFoundError):
        return [name for name in os.listdir(LISTS) if "_Packages" in name]  # noqa: PTH208 - bare names
    return []


def _records(database: bytes) -> tuple[str, list[dict[str, str]]]:
    """Return the machine's architecture, which is that of the package dpkg, and the records of all installed packages.

    Packages of which only configuration files remain count too.
    """
    records = list(_parse(database.decode("utf-8", "surrogateescape")))
    native = next((record.get("Architecture", "") for record in records if record["Package"] == "dpkg"), "")
    return native, [record for record in records if _state(record) != "not-installed"]


def _architecture_and_rows(database: bytes, names: Collection[str]) -> list[Any]:
    """Return the machine's architecture and the rows of the packages in ``names``, as a list of both.

    ``Context.derived`` caches such a result by the arguments and as JSON, which has no tuples.
    """
    native, records = _records(database)
    records_by_name = {name: record for record in records for name in _names(record, native)}
    return [native, [_row(name, records_by_name[name]) for name in names if name in records_by_name]]


def _parse(text: str) -> Iterator[dict[str, str]]:
    """Yield the needed fields of each paragraph (deb-control(5)); a search is faster than a split into lines.

    Raise ``ResourceError`` for a paragraph without the field ``Package``, as dpkg does.
    """
    for paragraph in text.split("\n\n"):
        lines, record = f"\n{paragraph}\n", {}
        for field in FIELDS:
            _, separator, rest = lines.partition(f"\n{field}: ")
            if separator:
                record[field] = rest.partition("\n")[0]
        if record and not record.get("Package"):
            raise ResourceError("dpkg's database is damaged: a record of it has no name")
        if record:
            yield record


def _state(record: Mapping[str, str]) -> str:
    """Return the last of the three words of a status: wanted, error, state; dpkg takes none for not installed."""
    return record.get("Status", "not-installed").rpartition(" ")[2]


def _row(name: str, record: Mapping[str, str]) -> Resource:
    """Return the row of a package by its record of dpkg."""
    state = _state(record)
    if state in packages.REMOVED:
        return {"name": name, "ensure": "absent", "status": state}
    # A package whose first unpacking was interrupted may have no version.
    version = {"version": record["Version"]} if record.get("Version") else {}
    mark = {"mark": "hold"} if record["Status"].startswith("hold ") else {}
    return {"name": name, "ensure": "present", **mark, **version, "status": state}


def _title(record: Mapping[str, str], native: str) -> str:
    """Return the name of a package, with its architecture unless that is the machine's, ``native``."""
    name, architecture = record["Package"], record.get("Architecture") or native
    return name if architecture in {native, "all"} else f"{name}:{architecture}"


def _plain(name: str, native: str) -> str:
    """Return a package's name as apt shows it: without the architecture of the machine, and without ``all``."""
    return name.removesuffix(f":{native}").removesuffix(":all")


def _names(record: Mapping[str, str], native: str) -> set[str]:
    """Return all names with which a package can be declared, to find its record: ``bash``, ``bash:amd64``.

    A package for ``all`` architectures can have the machine's architecture too, as in apt.
    """
    name, architecture = record["Package"], record.get("Architecture") or native
    names = {_title(record, native), f"{name}:{architecture}"}
    return names | {f"{name}:{native}"} if architecture == "all" else names


def _mark(is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str | None:
    """Return the mark to set for a package after its change, or None for none.

    A held package is marked again if no mark is declared: its change may have ended the hold.
    """
    if should["ensure"] == "absent":
        return None
    was_held = is_ is not None and is_.get("mark") == "hold"
    return "hold" if was_held and not should.get("mark") else should.get("mark")


def _options(is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of an installation by apt-get, by which packages form transactions.

    They allow to change a held package, and to install an older version. A package that a killed dpkg was unpacking
    counts as installed for apt, which therefore must reinstall it.
    """
    ensure = should["ensure"]
    held = HELD if is_ and is_.get("mark") == "hold" else ()
    if ensure == "absent":
        return held
    downgrade = () if ensure in {"present", "latest"} else ("--allow-downgrades",)
    again = ("--reinstall",) if is_ and is_.get("status") in INCOMPLETE else ()
    return (*held, *downgrade, *again, *(should.get("install_options") or ()))
