"""Read and edit priorities in files of the format apt_preferences(5)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import deb822, file_parts, listing, prerequisites, whole_directory
from lib.sensitive import new_mode, reveal
from resource_api import BaseProvider, Command, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lib.whole_directory import Copy
    from resource_api import Change, Context, Resource

DIRECTORY = Path("/etc/apt/preferences.d")
MAIN = "/etc/apt/preferences"
SUFFIX = ".pref"
NONE = "/dev/null"
#: The lists of repositories are not read, and no cache of them is written.
WITHOUT_LISTS = (
    *("-o", f"Dir::State::lists={NONE}/"),
    *("-o", "Dir::Cache::pkgcache="),
    *("-o", "Dir::Cache::srcpkgcache="),
)
#: The installed packages for a check: apt reads regular expressions for names only where it has a name to compare.
STATUS = b"Package: x\nStatus: install ok installed\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
#: The beginning of a line with an error of apt.
LEVEL = "E: "
INTEGER = re.compile(r"[-+]?\d{1,5}", re.ASCII)


class Provider(BaseProvider):
    """The priorities in files of one record in ``/etc/apt/preferences.d``."""

    apt_cache = Command("apt-cache", read_only=True, timeout=60)

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Remove differences without a meaning for apt: repeated packages, blanks, quotes around a host."""
        for resource in resources:
            if "packages" in resource:
                resource["packages"] = list(dict.fromkeys(resource["packages"]))
            if "pin" in resource:
                resource["pin"] = _pin(resource["pin"])
            if resource.get("explanation"):
                resource["explanation"] = " ".join(resource["explanation"].split())
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the priorities in ``names``, or of all files; one that cannot be read fails."""
        records = deb822.read_each(context, names, _names, _path)
        return context.accepted(_row(name, fields) for name, fields in records)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the reasons for a failure of ``set``: a file cannot be replaced, or apt refuses it.

        Yield a warning if an earlier record counts in place of a declared one.
        """
        yield from prerequisites.of_files(changes, path_of=_path, follow=True)
        contents: dict[str, bytes | None] = {}
        for name, should in prerequisites.present(changes).items():
            with suppress(OSError, ResourceError):
                contents[Path(_path(name)).name] = deb822.edited(_path(name), _edits(reveal(should)))
        for file_name, message in self._directory.refusals(contents):
            yield file_name.removesuffix(SUFFIX), Problem(None, message)
        for name, should in prerequisites.present(changes).items():
            yield from ((name, problem) for problem in _earlier(name, reveal(should)))

    @property
    def _directory(self) -> whole_directory.WholeDirectory:
        return whole_directory.WholeDirectory(str(DIRECTORY), MAIN, "", self._errors)

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Edit or remove the file of each priority, after a check by apt of all together in a copy.

        apt stops at a mistake in any of its files, so nothing is written unless all pass the check.
        """
        present = {_path(name): change for name, change in changes.items() if _is_present(change)}
        edits = {path: _edits(reveal(deb822.differing(change))) for path, change in present.items()}
        removed = [path for name, change in changes.items() if not _is_present(change) for path in _existing(name)]
        if edits:
            contents = {path: deb822.edited(path, edit) for path, edit in edits.items()} | dict.fromkeys(removed)
            self._directory.verify({Path(path).name: content for path, content in contents.items()})
        with file_parts.described(), files.Batch() as batch:
            for path, edit in edits.items():
                file_parts.edit_file(path, partial(deb822.edit, declared=edit), new_mode(present[path].should))
            for path in removed:
                batch.remove(path)

    def _errors(self, copy: Copy) -> list[str]:
        """Return the errors and warnings that apt prints about a copy of the files, to refuse a change that causes one.

        apt reads a single made-up package as installed: it checks some patterns only against a name, and reading the
        real packages takes long.
        """
        status = f"{copy.main}.status"
        whole_directory.write(status, STATUS)
        paths = {"preferences": copy.main, "preferencesparts": copy.directory, "sourcelist": NONE, "sourceparts": NONE}
        options = [word for key, path in paths.items() for word in ("-o", f"Dir::Etc::{key}={path}")]
        options += ["-o", f"Dir::State::status={status}", *WITHOUT_LISTS]
        result = self.apt_cache.attempt(*options, "policy", log="debug")
        return [line[len(LEVEL) :] for line in result.stderr.splitlines() if line.startswith(("E: ", "W: "))]


def _is_present(change: Change) -> bool:
    return bool(change.should["ensure"] == "present")


def _path(name: str) -> str:
    """Return the file of a name."""
    return next(_existing(name), f"{DIRECTORY}/{name}{SUFFIX}")


def _existing(name: str) -> Iterator[str]:
    """Yield the files of a name that exist: apt reads those with the suffix, and those without a dot."""
    candidates = (f"{DIRECTORY}/{name}{SUFFIX}", *([] if "." in name else [f"{DIRECTORY}/{name}"]))
    return (path for path in candidates if os.path.lexists(path))


def _earlier(name: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a warning for each earlier record that counts in place of a declared one.

    apt takes the first record that matches a version, in the order of the files' names.
    """
    own_file = Path(_path(name)).name
    earlier = [path for path in listing.matching(DIRECTORY) if path.name < own_file and _is_read(path.name)]
    for path in (Path(MAIN), *earlier):
        records = []
        with suppress(OSError, ResourceError):
            records = deb822.read_all(str(path))
        for fields in records:
            pin, priority = _pin(fields.get("pin", "")), fields.get("pin-priority", "")
            packages = fields.get("package", "").split()
            common = [package for package in should.get("packages", ()) if _is_among(package, packages)]
            # Only the same pin and that of any version match all the versions of the declared one.
            if common and pin in {should.get("pin"), "version *"} and priority != str(should.get("priority")):
                message = f"{path} comes before it and gives {', '.join(common)} the priority {priority}, which counts"
                yield Problem("priority", message, severity="warning")


def _is_among(package: str, patterns: Iterable[str]) -> bool:
    """Return whether a record for ``patterns`` counts for a package; ``*`` alone is for those without a record."""
    return any(text == package or (text != "*" and fnmatchcase(package, text)) for text in patterns)


def _is_read(name: str) -> bool:
    """Return whether apt reads a file of the directory, by its name."""
    return name.endswith(SUFFIX) or "." not in name


def _names() -> Iterable[str]:
    """Return the names of the files that apt reads, without the suffix, which they need not have."""
    present = [path.name for path in DIRECTORY.iterdir()] if DIRECTORY.is_dir() else []
    return sorted({name.removesuffix(SUFFIX) for name in present if _is_read(name)})


def _row(name: str, fields: Mapping[str, str]) -> Resource:
    """Return the row of a record of a pin file, in the form of ``canonicalize``, so that it can be compared."""
    row: Resource = {
        "name": name,
        "ensure": "present",
        "packages": list(dict.fromkeys(fields.get("package", "").split())),
    }
    if INTEGER.fullmatch(priority := fields.get("pin-priority", "")):
        row["priority"] = int(priority)
    return row | {"pin": _pin(fields.get("pin", "")), "explanation": " ".join(fields.get("explanation", "").split())}


def _edits(should: Mapping[str, Any]) -> dict[str, str]:
    """Return field → text of the declared attributes only, as the other fields of the file stay unchanged."""
    edits = {"Explanation": should["explanation"]} if should.get("explanation") is not None else {}
    edits |= {"Package": " ".join(should["packages"])} if "packages" in should else {}
    edits |= {"Pin": should["pin"]} if "pin" in should else {}
    return edits | ({"Pin-Priority": str(should["priority"])} if "priority" in should else {})


def _pin(text: str) -> str:
    """Return the canonical form of a pin, so that pins of the same meaning are equal texts.

    One blank follows each word, none stands at commas, and a host has no quotes: ``release a=stable,l=Debian``.
    """
    kind, _, rest = " ".join(text.split()).partition(" ")
    kind = kind.lower()
    if kind == "release":
        rest = ",".join(word.strip() for word in rest.split(","))
    if kind == "origin":
        rest = rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] == '"' else rest
        # An empty host is the one of packages that were installed from a file.
        rest = rest or '""'
    return f"{kind} {rest}".rstrip()
