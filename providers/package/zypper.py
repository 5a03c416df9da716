"""Read the database of rpm, and change it with ``zypper``, in one transaction for each set of options."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lib import rpm
from resource_api import Command, Problem, ResourceError, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from lib import packages
    from resource_api import Change, Context, Resource

LOCKS = "/etc/zypp/locks"
SETTINGS = "/etc/zypp/zypp.conf"
#: Ask nothing, and print output for other programs.
QUIET = ("--non-interactive", "--quiet")
#: A reboot or a restart of zypper is advised, or a repository was left out; the packages are installed (zypper(8)).
DONE = frozenset({0, 102, 103, 106})
NOT_FOUND = 104
#: A line of the file of locks.
FIELD = re.compile(r"([a-z_]+): *(.*)")
#: The fields of a lock that holds a package of one name, whatever its version and repository.
LOCK = frozenset({"type", "solvable_name"})
IGNORED = frozenset({"match_type", "case_sensitive", "comment", "time"})
PATTERN = re.compile(r"[*?\[\]\\]")


#: An element of a dry run → the action on the packages in it.
ACTIONS = {
    "to-install": "install",
    "to-upgrade": "upgrade",
    "to-downgrade": "downgrade",
    "to-remove": "remove",
    "to-upgrade-change-arch": "upgrade",
    "to-downgrade-change-arch": "downgrade",
    "to-reinstall": "reinstall",
}


class Provider(rpm.RpmProvider):
    """The packages of openSUSE and SUSE Linux Enterprise."""

    installer = "/usr/bin/zypper"
    zypper = Command("zypper", timeout=3600)
    query = Command("zypper", read_only=True, timeout=600)

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the packages of rpm's database, and which of them are locked."""
        held = _held()
        for row in super().get(context, names):
            yield {**row, "mark": "hold"} if row["name"] in held else row

    def candidates(self, names: list[str]) -> Mapping[str, str]:
        """Return name → the version to which zypper would update a package, which ``insync`` compares for ``latest``.

        Packages that are up to date are missing. A package can be declared with and without its architecture.
        """
        output = self.query(*QUIET, "--xmlout", "--no-refresh", "list-updates", "--type", "package").stdout
        versions = {}
        for element in _elements(output, "update"):
            for name in (element.get("name", ""), f"{element.get('name')}.{element.get('arch')}"):
                versions[name] = element.get("edition", "").removeprefix("0:")
        return {name: versions[name] for name in names if name in versions}

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the packages that no repository has, as their installation would fail."""
        bases = {name: rpm.without_architecture(name)[0] for name in changes}
        search = ("search", "--match-exact", "--type", "package", "--", *sorted({*bases.values()}))
        result = self.query.attempt(*QUIET, "--xmlout", "--no-refresh", *search, log="debug")
        if result.exit_code not in {0, NOT_FOUND}:
            return  # zypper cannot answer now, such as without a repository, but may later
        available = {element.get("name") for element in _elements(result.stdout, "solvable")}
        for name, base in bases.items():
            if base not in available and changes[name]["ensure"] != "absent":
                yield name, Problem(None, f"zypper knows no package '{name}'")

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Install and remove in one transaction for each set of options.

        A lock would forbid the change: it is removed before, and restored unless another mark is declared.
        """
        held = _held()
        transactions = list(self._transactions(context, changes))
        changed = {name for _, names in transactions for name in names}
        if locked := sorted(held & changed):
            self._run("removelock", "--", *locked)
        try:
            for arguments, _ in transactions:
                self._run("install", "--name", "--oldpackage", "--auto-agree-with-licenses", *arguments)
        finally:
            self._mark(changes, held)

    def _transactions(self, context: Context, changes: Mapping[str, Change]) -> Iterator[packages.Transaction]:
        """Yield a ``zypper install`` for each set of options, which also removes packages."""
        transactions: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for name, (is_, should) in changes.items():
            if not is_ or self.insync(context, name, "ensure", is_, should) is not True:
                transactions[tuple(should.get("install_options") or ())][name] = _argument(name, should["ensure"])
        for options, arguments in transactions.items():
            yield (*options, "--", *arguments.values()), {*arguments}

    def _providers(self, _name: str) -> list[str]:
        return []  # with ``--name`` it installs nothing in place of a package

    def _simulated(self, arguments: Sequence[str]) -> Iterator[SideEffect]:
        """Yield the effects of a transaction by zypper's dry run. Raise ``ResourceError`` for an unsolved problem."""
        options = ("install", "--dry-run", "--name", "--oldpackage", "--auto-agree-with-licenses")
        words = (*QUIET, "--xmlout", "--no-refresh", *options, *arguments)
        with _without_locks() as environment:
            result = self.query.attempt(*words, env=environment, log="debug")
        if result.exit_code not in DONE:
            reasons = [*_elements(result.stdout, "description"), *_elements(result.stdout, "message")]
            text = "; ".join(element.text or "" for element in reasons).strip()
            raise ResourceError(f"'zypper install' would fail: {text or result.stderr}")
        for heading, action in ACTIONS.items():
            for section in _elements(result.stdout, heading):
                for package in section.iter("solvable"):
                    name, architecture, version = (package.get(word, "") for word in ("name", "arch", "edition"))
                    yield rpm.effect(name, architecture, version, action)

    def _mark(self, changes: Mapping[str, Change], before: Collection[str]) -> None:
        """Lock and unlock packages as declared, or as in ``before``, the locked names before the transactions."""
        present = {name: should.get("mark") for name, (_, should) in changes.items() if should["ensure"] != "absent"}
        locked = {name for name, mark in present.items() if mark == "hold" or (not mark and name in before)}
        held = _held()
        for verb, different in (("addlock", locked - held), ("removelock", (present.keys() - locked) & held)):
            if names := [name for name in present if name in different]:
                self._run(verb, "--", *names)

    def _run(self, *arguments: str) -> None:
        """Run zypper. Raise ``ResourceError`` with its output for an exit code other than those of ``DONE``."""
        result = self.zypper.attempt(*QUIET, *arguments, log="debug")
        if result.exit_code not in DONE:
            lines = [line for line in f"{result.stdout}\n{result.stderr}".splitlines() if line.strip()]
            output = "".join(f"\n  {line}" for line in lines[-10:])
            msg = f"'zypper {arguments[0]}' failed with exit code {result.exit_code}{':' if output else ''}{output}"
            raise ResourceError(msg)


def _elements(output: str, name: str) -> Iterable[Element]:
    """Return the elements of one name in zypper's output, which is XML."""
    from xml.etree import ElementTree as ET  # slow to import, and not needed by most runs

    return ET.fromstring(output).iter(name)  # noqa: S314 - the output of a program of the system


def _argument(name: str, ensure: str) -> str:
    """Return the argument of ``zypper install`` for a package; ``-NAME`` removes it."""
    if ensure == "absent":
        return f"-{name}"
    return name if ensure in {"present", "latest"} else f"{name}={ensure}"


@contextmanager
def _without_locks() -> Iterator[Mapping[str, str]]:
    """Yield the environment in which libzypp applies no locks, so that a dry run has the effects of ``set``.

    ``set`` removes the locks of declared packages before it changes them.
    """
    if not _held():
        yield {}
        return
    from tempfile import NamedTemporaryFile  # slow to import, and needed only where packages are locked

    settings = "[main]"
    with suppress(FileNotFoundError), open(SETTINGS, encoding="utf-8") as file:  # noqa: PTH123 - as it is
        settings = file.read()
    with NamedTemporaryFile("w", prefix="zypp", suffix=".conf") as copy:
        copy.write(f"{settings}\nlocksfile.apply = no\n")
        copy.flush()
        yield {"ZYPP_CONF": copy.name}


def _held() -> set[str]:
    """Return the packages that are locked by name alone, which are the locks that ``mark`` declares.

    A lock of a pattern or a version belongs to the administrator, and is never changed.
    """
    names = set()
    with suppress(FileNotFoundError), open(LOCKS, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as it is
        for paragraph in file.read().split("\n\n"):
            fields = {match[1]: match[2] for match in map(FIELD.fullmatch, paragraph.splitlines()) if match}
            lock = {key: value for key, value in fields.items() if key not in IGNORED}
            if lock.keys() == LOCK and lock["type"] == "package" and not PATTERN.search(lock["solvable_name"]):
                names.add(lock["solvable_name"])
    return names
