"""Read and edit the files of repositories; ``apt-get update`` fetches from a repository before its file is written."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lib import deb822, file_parts, listing, prerequisites
from lib.sensitive import new_mode, reveal
from lib.whole_directory import WholeDirectory
from resource_api import BaseProvider, Command, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lib.whole_directory import Copy
    from resource_api import Change, Context, Resource

DIRECTORY = "/etc/apt/sources.list.d"
MAIN = "/etc/apt/sources.list"
SUFFIX = ".sources"
#: The fields that are lists of words, by attribute, in the order in which they are written.
LISTS = {
    "types": "Types",
    "uris": "URIs",
    "suites": "Suites",
    "components": "Components",
    "architectures": "Architectures",
}
FIELDS = {*map(str.lower, LISTS.values()), "enabled", "signed-by"}
#: The words that apt takes for false.
FALSE = {"no", "false", "without", "off", "disable", "0"}
#: A warning about an index that two files name.
REPEATED = re.compile(r"W: Target .* is configured multiple times in (\S+):\d+ and (\S+):\d+")
#: The beginning of a line with an error of apt.
ERROR = "E: "
#: It follows every other error of the sources.
UNREADABLE = "The list of sources could not be read."
#: Only the staged files, nothing of other repositories is removed, and the caches of all repositories stay.
OPTIONS = (
    *("-q", "--error-on=any"),
    *("-o", "Dir::Etc::sourcelist=/dev/null"),
    *("-o", "APT::Get::List-Cleanup=false"),
    *("-o", "Dir::Cache::pkgcache="),
    *("-o", "Dir::Cache::srcpkgcache="),
)


class Provider(BaseProvider):
    """The repositories in files of one paragraph in ``/etc/apt/sources.list.d``."""

    apt_get = Command("apt-get", timeout=3600)
    reading = Command("apt-get", read_only=True)

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort values whose order has no meaning, and write options as apt does, so that equal sources are equal."""
        for resource in resources:
            for attribute in ("types", "architectures"):
                if resource.get(attribute):
                    resource[attribute] = sorted(set(resource[attribute]))
            if resource.get("signed_by"):
                resource["signed_by"] = "\n".join(map(str.strip, resource["signed_by"].strip().split("\n")))
            if resource.get("options"):
                resource["options"] = {_field(name): _text(value) for name, value in resource["options"].items()}
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse ``components`` for a path, any other suite without components, and an attribute among the options.

        A suite that ends with ``/`` is a path, which has no components. A field with an attribute, such as
        ``Signed-By``, could have two contradictory values if ``options`` contained it too.
        """
        suites, components = should.get("suites"), should.get("components")
        if isinstance(suites, list) and should.get("ensure") != "absent":
            paths = [suite for suite in suites if isinstance(suite, str) and suite.endswith("/")]
            if paths and components:
                yield Problem("components", f"components: the suite '{paths[0]}' is a path, which has no components")
            elif components in ([], None) and len(paths) < len(suites):
                yield Problem("components", "components: only a suite that ends with '/' has none")
        options = should.get("options")
        for name in options if isinstance(options, dict) else ():
            if name.lower() in FIELDS:
                yield Problem("options", f"options: '{name}' has an attribute of its own")

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the repositories in ``names``, or of all files; one that cannot be read fails."""
        rows = (_row(name, fields) for name, fields in deb822.read_each(context, names, _names, _path))
        return context.accepted(rows)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a repository, apt and its keyring, and the errors of apt."""
        yield from prerequisites.of_files(changes, self._missing, _path, follow=True)
        texts: dict[str, bytes | None] = {}
        for name, should in prerequisites.present(changes).items():
            with suppress(OSError, ResourceError):
                texts[f"{name}{SUFFIX}"] = deb822.edited(_path(name), _edits(name, reveal(should)))
        for file_name, message in self._directory.refusals(texts):
            yield file_name.removesuffix(SUFFIX), Problem(None, message)

    @property
    def _directory(self) -> WholeDirectory:
        """The sources as apt reads them, to check a change in a copy of all."""
        return WholeDirectory(DIRECTORY, MAIN, "", self._errors)

    def _missing(self, name: str, should: Mapping[str, Any]) -> list[Problem]:
        """Return the missing prerequisites of a source, or else the other files that declare its repository."""
        signed_by = reveal(should.get("signed_by")) or ""
        missing = [*prerequisites.missing_program(None, "apt-get", needs="Package[apt]")]
        missing += prerequisites.missing_file("signed_by", signed_by if signed_by[:1] == "/" else None)
        return missing or [*self._repetitions(name, should)]

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Write or remove the files of repositories, after a check by apt and a fetch from the changed ones.

        Nothing is written if either fails: with a broken file apt would stop for all repositories.
        """
        declared = {name: change.should for name, change in changes.items()}
        present = [name for name, should in declared.items() if should["ensure"] != "absent"]
        edits = {name: _edits(name, reveal(deb822.differing(changes[name]))) for name in present}
        contents = {name: deb822.edited(_path(name), edit) for name, edit in edits.items()}
        if contents:
            self._directory.verify({f"{name}{SUFFIX}": contents.get(name) for name in declared})
        self._fetch({name: content for name, content in contents.items() if declared[name]["update"]})
        for name, edit in edits.items():
            file_parts.edit_file(_path(name), partial(deb822.edit, declared=edit), new_mode(declared[name]))
        with file_parts.described(), files.Batch() as batch:
            for name in declared.keys() - edits.keys():
                batch.remove(_path(name))

    def _repetitions(self, name: str, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield a problem for each other file that declares the same repository, as apt would warn of it.

        apt itself finds them, in a temporary directory with the new file and links to all others. A repetition that is
        there before the change is not reported again.
        """
        file_name = f"{name}{SUFFIX}"
        with TemporaryDirectory(prefix="apt-source-") as directory, suppress(OSError, ResourceError):
            for path in listing.matching(DIRECTORY):
                Path(directory, path.name).symlink_to(path.resolve())
            before = self._repeated(directory, file_name)
            content = deb822.edited(_path(name), _edits(name, reveal(should)))
            Path(directory, file_name).unlink(missing_ok=True)
            Path(directory, file_name).write_bytes(content)
            for repeated in self._repeated(directory, file_name) if not before else ():
                message = f"{repeated} has the repository too: apt reads it twice and warns each time; remove it there"
                yield Problem(None, message, needs=f"File[{repeated}]")

    def _repeated(self, directory: str, file_name: str) -> Sequence[str]:
        """Return the other files with a repository of ``file_name``, from apt's warnings about a temporary directory.

        ``directory`` has links to all files; the result has the paths of the files themselves.
        """
        pairs = (match.groups() for match in map(REPEATED.match, self._messages(MAIN, directory)) if match)
        paths = {path for pair in pairs if f"{directory}/{file_name}" in pair for path in pair}
        return sorted(path.replace(directory, DIRECTORY) for path in paths - {f"{directory}/{file_name}"})

    def _errors(self, copy: Copy) -> list[str]:
        """Return apt's errors about the repositories of a copy of the directory, without the general one."""
        return [line for line in _errors(self._messages(copy.main, copy.directory)) if line != UNREADABLE]

    def _messages(self, main: str, directory: str) -> list[str]:
        """Return apt's errors and warnings about a main file and a directory of sources; nothing is fetched."""
        # The command reads all sources; the filter matches none of the indexes that it would print.
        options = ("-o", f"Dir::Etc::sourcelist={main}", "-o", f"Dir::Etc::sourceparts={directory}")
        result = self.reading.attempt("-q", *options, "indextargets", "Identifier: none", log="debug")
        return result.stderr.splitlines()

    def _fetch(self, contents: Mapping[str, bytes]) -> None:
        """Fetch the lists of packages from the repositories, before their files are written.

        After a failure nothing is written: apt would report the repository in every later update.
        """
        if not contents:
            return
        with TemporaryDirectory(prefix="apt-source-") as directory:
            for name, content in contents.items():
                Path(directory, f"{name}{SUFFIX}").write_bytes(content)
            result = self.apt_get.attempt(*OPTIONS, "-o", f"Dir::Etc::sourceparts={directory}", "update")
        if result.exit_code:
            reasons = "; ".join(_errors(result.stderr.splitlines())) or f"apt-get ended with {result.exit_code}"
            raise ResourceError(f"it cannot be fetched from: {reasons}")


def _errors(lines: Iterable[str]) -> list[str]:
    """Return the errors among apt's messages."""
    return [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]


def _path(name: str) -> str:
    """Return the path of a source."""
    return f"{DIRECTORY}/{name}{SUFFIX}"


def _names() -> Iterable[str]:
    """Return the names of the sources in the directory."""
    return [path.stem for path in listing.matching(DIRECTORY, f"[!.]*{SUFFIX}")]


def _row(name: str, fields: Mapping[str, str]) -> Resource:
    """Return the row of a source from its file's fields by lower-case name; fields without an attribute are options."""
    row: Resource = {"name": name, "ensure": "present"}
    row |= {attribute: fields.get(field.lower(), "").split() for attribute, field in LISTS.items()}
    row |= {attribute: sorted(set(row[attribute])) for attribute in ("types", "architectures")}
    return row | {
        "signed_by": fields.get("signed-by", "").strip("\n"),
        "enabled": fields.get("enabled", "").lower() not in FALSE,
        "options": {_field(field): _text(value) for field, value in fields.items() if field not in FIELDS},
    }


def _edits(title: str, should: Mapping[str, Any]) -> dict[str, str]:
    """Return field → text for the changes to the file of a source; an empty text removes a field.

    Fields of the present file without an attribute are its ``options``: declared ones replace all of them. apt requires
    the field ``Types``, which gets a default. ``title`` is the name of the source, whose file is read.
    """
    present = deb822.read(_path(title))
    attributes = {**({} if "types" in present else {"types": ["deb"]}), **should}
    edits = {field: " ".join(attributes[name] or ()) for name, field in LISTS.items() if name in attributes}
    if attributes.get("signed_by") is not None:
        key = attributes["signed_by"]
        edits["Signed-By"] = f"\n{key}" if "\n" in key else key
    if attributes.get("enabled") is not None:
        edits["Enabled"] = "" if attributes["enabled"] else "no"
    if attributes.get("options") is not None:
        # The present options are removed, unless they are declared again.
        edits |= {_field(field): "" for field in present if field not in FIELDS} | attributes["options"]
    return edits


def _field(name: str) -> str:
    """Return the name of a field in its usual spelling; apt ignores the case."""
    return "-".join(map(str.capitalize, name.split("-")))


def _text(value: bool | int | str) -> str:  # noqa: FBT001 - a value of a manifest
    """Return the value of an option as text on one line, with ``yes`` and ``no`` for a boolean, as in apt's files."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())
