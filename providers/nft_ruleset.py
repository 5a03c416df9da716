"""Load tables with nft(8), and compare the kernel's tables with a file's in an empty namespace."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatchcase
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lib import file_parts, listing, prerequisites, program_checked_files
from lib.sensitive import reveal
from lib.whole_directory import WholeDirectory, stage
from resource_api import BaseProvider, Command, CommandError, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from lib.whole_directory import Copy
    from resource_api import Change, Context, Resource

FILE = "/etc/nftables.conf"
#: The first line of an error, with its file and line.
ERROR = re.compile(r"\S+:\d+:[\d-]+: Error: ")
#: The package in the answer of a package manager, without its architecture.
PACKAGE = re.compile(r"([a-z0-9][\w.+-]*)(?::[a-z0-9-]+)?(?:, [\w.+-]+(?::[a-z0-9-]+)?)*: ", re.IGNORECASE)
#: Differences in one message.
MOST_RULES = 5
#: Largest file in bytes.
LARGEST = 16 * 1024 * 1024
#: A statement that removes the tables of others too.
FLUSH = re.compile(r"^[ \t]*flush[ \t]+ruleset\b", re.MULTILINE)
#: A statement that reads other files.
INCLUDE = re.compile(r"""[ \t]*include[ \t]+["']?([^"']+?)["']?[ \t]*;?[ \t]*\Z""")
#: The usual form of a table.
TABLE = re.compile(r"^[ \t]*(add[ \t]+)?table\b", re.MULTILINE)
#: A set or map that packets or other programs fill, or that elements leave after a time, in a listing, to its elements.
VOLATILE = re.compile(
    r"^(\t(?:set|map) .* \{\n(?:\t\t(?!flags|elements).*\n)*\t\tflags .*(?:dynamic|timeout).*\n"
    r"(?:\t\t(?!elements|\t).*\n)*)\t\telements = \{[^}]*\}\n",
    re.MULTILINE,
)
#: Two programs in one namespace; the rules come from stdin.
LOAD_AND_LIST = "nft --file - && nft --stateless list ruleset"


class Provider(BaseProvider):
    """The tables of the network namespace that this process is in."""

    nft = Command("nft")
    reading = Command("nft", read_only=True)
    unshare = Command("unshare", read_only=True)
    dpkg_query = Command("dpkg-query", read_only=True)
    rpm = Command("rpm", read_only=True)

    def __init__(self) -> None:
        """Start without the tables of any text: they are loaded into a namespace once for each text."""
        self._tables_by_text: dict[str, dict[str, str]] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """End text with a line end, as in rows of ``get``; remove needless slashes and dots from paths."""
        for resource in resources:
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
            if "content" in resource:
                resource["content"] = program_checked_files.ended(resource["content"])
        return resources

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a file with other tables than the kernel's as different: ``set`` then loads it."""
        if attribute == "content" and is_["content"] == should["content"] and not is_["loaded"]:
            drift = is_["drift"]
            more = f" and {len(drift) - MOST_RULES} more" if len(drift) > MOST_RULES else ""
            rules = f"{'; '.join(drift[:MOST_RULES])}{more}"
            return False, f"changed in the running kernel, which has other rules: {rules}"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the files in ``names``, or ``/etc/nftables.conf``, and whether the kernel has their tables."""
        for path in [FILE] if names is None else names:
            try:
                content = program_checked_files.ended(files.read(path, LARGEST).decode("utf-8", "replace"))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                file_parts.report_unreadable(context, [path], file_parts.at(path, error), names)
                continue
            row = {"ensure": "present", "path": path, "content": content, "loaded": True}
            if package := self._package(path):
                row["package"] = package
            if drift := self._drift(content):
                row |= {"loaded": False, "drift": drift}
            yield from context.accepted([row]) if names is None else [row]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Load the rules of each file into the kernel, then write it: a file that nft refuses is never written."""
        for path, (is_, should) in changes.items():
            content = reveal(should.get("content"))
            with context.processing(path, is_, should), file_parts.described(path):
                old = is_["content"] if is_ is not None else ""
                if should["ensure"] == "absent":
                    self._remove(path, old)
                    continue
                try:
                    tables = self._expected(content)
                except CommandError as error:
                    raise ResourceError(_reason(error)) from error
                self._verify(path, content)
                # A table that the file had and has no more is ours to remove.
                self._load(content, {*tables, *self._tables(old)}, whole=False)
                files.replace(path, content.encode(), mode=None if is_ else 0o600)

    def _remove(self, path: str, old: str) -> None:
        """Remove a file, and from the kernel the tables of ``old``, its content.

        If the content flushed the ruleset, which removed all other tables, all tables are removed.
        """
        self._verify_directory(path, None)
        self._load("", self._tables(old), whole=bool(FLUSH.search(old)))
        with files.Batch() as batch:
            batch.remove(path)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem if nft is missing, or else its error about a content.

        Yield also that the main file does not include a file, whose tables are then not loaded at boot.
        """
        missing = list(prerequisites.missing_program(None, "nft", needs="Package[nftables]"))
        yield from prerequisites.of_files(
            changes, lambda path, should: [*prerequisites.missing_parent(path), *missing] or self._refusal(path, should)
        )
        # Only files in /etc are expected to be loaded at boot.
        for path in (path for path in prerequisites.present(changes) if path != FILE and path.startswith("/etc/")):
            with suppress(OSError):
                if not _is_included(path, files.read_lines(FILE)):
                    message = f"{FILE} does not include {path}: its tables are not loaded at boot"
                    yield path, Problem(None, message, needs=f"File[{FILE}]", brought_by=prerequisites.BRINGING)

    def _refusal(self, path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the error of nft about a content, or a conflict with another file, so that a plan shows it.

        Yield nothing if this user cannot make a namespace for the check.
        """
        content = reveal(should.get("content"))
        if not isinstance(content, str):
            return
        try:
            self._expected(content)
            self._verify(path, content, TemporaryDirectory)
        except CommandError as error:
            if ERROR.match(error.stderr):
                yield Problem("content", _reason(error))
        except ResourceError as error:
            yield Problem("content", str(error))

    def _package(self, path: str) -> str | None:
        """Return the package that a file belongs to, by dpkg or rpm, or None.

        The type names this attribute in ``brought_by``: if a run installed the package, it has brought the file too.
        """
        if set(path) & set("*?[\\"):
            return None  # dpkg-query would read it as a pattern
        programs = ((self.dpkg_query, "--search"), (self.rpm, "--query", "--queryformat=%{NAME}: ", "--file"))
        for program, *options in programs:
            with suppress(CommandError):
                result = program.attempt(*options, "--", path, log="debug")
                if result.exit_code == 0 and (match := PACKAGE.match(result.stdout)):
                    return match[1]
        return None

    def _verify(
        self, path: str, content: str, temporary_directory: Callable[[], AbstractContextManager[str]] = stage
    ) -> None:
        """Raise ``ResourceError`` if another file has one of the tables, or nft refuses the content in the main file.

        ``temporary_directory`` makes the directory for nft's copies: the default needs root, so a plan passes its own.
        """
        directory, _, name = path.rpartition("/")
        for ruleset in listing.matching(directory, "*.nft"):
            if ruleset.name == name or not ruleset.is_file():
                continue
            text = ruleset.read_bytes().decode("utf-8", "replace")
            if both := self._tables(content) & self._tables(text):
                table = f"{ruleset} has the table {min(both)} too"
                raise ResourceError(f"{table}, and would lose its rules; put all of them into one file")
        self._verify_directory(path, content.encode(), temporary_directory)

    def _verify_directory(
        self, path: str, content: bytes | None, temporary_directory: Callable[[], AbstractContextManager[str]] = stage
    ) -> None:
        """Raise ``ResourceError`` if the main file could not be loaded at boot with a new content of a file.

        None stands for the removal of the file. nft loads copies in a ``temporary_directory``. Nothing is checked if
        the main file does not include the directory of ``path``.
        """
        directory, _, name = path.rpartition("/")
        if path != FILE and f"{directory}/".encode() in (files.read_content(FILE) or b""):
            WholeDirectory(directory, FILE, 'include "{}/*"', self._errors).verify({name: content}, temporary_directory)

    def _errors(self, copy: Copy) -> list[str]:
        """Return nft's errors about a copy of the rules, in an empty network namespace."""
        result = self.unshare.attempt("--net", "--", "nft", "--check", "--file", copy.main, log="debug")
        return [line for line in result.stderr.splitlines() if ERROR.match(line)]

    def _load(self, content: str, tables: Collection[str], *, whole: bool) -> None:
        """Replace the kernel's ``tables``, or all (``whole``), in one transaction: no packet meets half of them."""
        # A table is declared before it is deleted, as nft fails for a missing one.
        removed = "".join(f"table {table}\ndelete table {table}\n" for table in sorted(tables))
        try:
            self.nft("--file", "-", input=("flush ruleset\n" if whole else removed) + content)
        except CommandError as error:
            raise ResourceError(_reason(error)) from error

    def _drift(self, content: str) -> list[str]:
        """Return the differences between the kernel's tables and those of a text.

        Other tables of the kernel count only if the text begins with ``flush ruleset``, which removes them.
        """
        present = split_tables(self.reading("--stateless", "list", "ruleset").stdout)
        if not present and TABLE.search(content):
            return ["it has no table"]
        try:
            expected = self._expected(content)
        except CommandError as error:
            return [_reason(error)]
        tables = {**expected, **present} if FLUSH.search(content) else expected
        return [line for table in tables for line in differences(table, present.get(table), expected.get(table))]

    def _expected(self, content: str) -> dict[str, str]:
        """Return the tables of a text as the kernel lists them, to compare them with the present ones.

        nft loads the text in an empty network namespace, so that nothing of the machine changes. Raise ``CommandError``
        for a text that nft refuses.
        """
        if content not in self._tables_by_text:
            listing = self.unshare("--net", "--", "sh", "-c", LOAD_AND_LIST, input=content, log="debug").stdout
            self._tables_by_text[content] = split_tables(listing)
        return self._tables_by_text[content]

    def _tables(self, content: str) -> frozenset[str]:
        """Return the names of the tables in a text; none if nft refuses it, as another or an old file may be wrong."""
        try:
            return frozenset(self._expected(content) if content else ())
        except CommandError:
            return frozenset()


def _is_included(path: str, lines: Iterable[str]) -> bool:
    """Return whether a main file includes a path, by itself or by a pattern."""
    patterns = (match[1] for match in map(INCLUDE.match, lines) if match)
    return any(fnmatchcase(path, text if text.startswith("/") else f"/etc/{text}") for text in patterns)


def split_tables(listing: str) -> dict[str, str]:
    """Return name → text of the tables in nft's listing, without elements of dynamic sets, which are no drift."""
    listing = VOLATILE.sub(r"\1", listing)
    tables: dict[str, str] = {}
    name = ""
    for line in listing.splitlines(keepends=True):
        if line.startswith("table "):
            name = line.removeprefix("table ").rpartition("{")[0].strip()
        tables[name] = tables.get(name, "") + line
    return tables


def differences(table: str, present: str | None, expected: str | None) -> list[str]:
    """Return messages about added or missing rules of a table; None stands for a missing table."""
    if present is None or expected is None:
        return [f"table {table} {'is missing' if present is None else 'has been added'}"]
    if present == expected:
        return []
    rules, expected_rules = Counter(_rules(present)), Counter(_rules(expected))
    changes = [(rule, "has been added") for rule in rules - expected_rules]
    changes += [(rule, "is missing") for rule in expected_rules - rules]
    rows = [f"'{rule}' {change} in {block}" for (block, rule), change in changes]
    return rows or [f"table {table} has another order"]


def _rules(listing: str) -> Iterator[tuple[str, str]]:
    """Yield (blocks, rule) of each line of a table, so that a message can contain the chain of a rule.

    ``blocks`` are the heads of the table and the chain or set around it.
    """
    blocks: list[str] = []
    for line in filter(None, map(str.strip, listing.splitlines())):
        if line == "}":
            blocks.pop()
            continue
        rule = line.removesuffix(" {")
        if blocks:
            yield ", ".join(blocks), rule
        if rule != line:
            blocks.append(rule)


def _reason(error: CommandError) -> str:
    """Return the first error of nft, with the line that it is about."""
    lines = error.stderr.replace("/dev/stdin:", "line ").splitlines()
    return "nft: " + "; ".join(line.strip() for line in lines[:2] if line.strip())
