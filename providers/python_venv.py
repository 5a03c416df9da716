"""Make environments with Python's ``venv``, and read them without executing code; a mark shows an unfinished one."""

from __future__ import annotations

import os
import pwd
import re
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites, python_environment, removed_directories
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, CannotList, Command, CommandError, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource, SideEffect

CONFIG = "pyvenv.cfg"
MARK = ".resource-api-incomplete"
LARGEST = 65536  # bytes of a configuration
SETTING = re.compile(r"[ \t]*([\w-]+)[ \t]*=[ \t]*(.*?)[ \t\r]*", re.ASCII)
MINOR = re.compile(r"python(\d+\.\d+)")
NO_OWNER = "other users can write to a directory on the path; declare the 'owner'"
SYSTEM = "include-system-site-packages"


class Provider(BaseProvider):
    """The environments in the directories that a manifest names."""

    sync = Command("sync", timeout=3600)

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets, which would be arguments of a program, and an owner by number: Python runs as this user."""
        yield from refused_secrets(should)
        if files.owner_number(should.get("owner")) is not None:
            yield Problem("owner", "owner must be a name: Python runs as this user")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare ``ensure`` with the status, as only a complete environment is present; an empty one has no owner."""
        if attribute == "owner" and is_.get("status") == "empty":
            return True  # the directory gets its owner with the environment
        if attribute != "ensure" or should["ensure"] == "absent":
            return None
        return is_.get("status") == "complete" or (False, f"the environment is {is_.get('status')}")

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the environments in ``names``; one that cannot be read fails."""
        if names is None:
            raise CannotList("an environment can be in any directory")
        for name in names:
            try:
                row = _row(name)
            except OSError as error:
                context.failed(name, message=f"{name} cannot be read: {files.describe_error(error, name)}")
            else:
                if row and (accepted := context.type.accepted_row(row)) is not None:
                    yield accepted

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of an environment: the directory above, its interpreter, pip, its owner."""
        yield from prerequisites.kept_by_mounts(changes)
        changes = prerequisites.present(changes)
        for name, should in changes.items():
            missing = [*prerequisites.missing_parent(name), *_missing_interpreter(name, should)]
            missing += prerequisites.missing_user("owner", should.get("owner"))
            yield from ((name, problem) for problem in missing)
            # Only for a new environment a program runs, in a directory that other users might replace.
            is_new = not os.path.lexists(f"{name}/{CONFIG}")
            if is_new and not missing and "owner" not in should and _can_others_replace(name):
                yield name, Problem("owner", NO_OWNER)
        yield from prerequisites.written_in_place({name: f"{name}/{CONFIG}" for name in changes})

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the content of environments that are removed."""
        return removed_directories.side_effects(changes)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one environment after another."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should), file_parts.described(name):
                self._change(name, is_, should)

    def _change(self, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Remove an environment, make or repair it, or only set the visibility of the system's packages."""
        if should["ensure"] == "absent":
            _remove(name)
        elif is_ is None or is_["status"] != "complete":
            self._make(name, is_, should)
        elif (value := should.get("system_site_packages")) is not None:
            files.edit_lines(f"{name}/{CONFIG}", partial(_set_system, value=value), mode=0o644)

    def _make(self, path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Make an environment; the file ``MARK`` in it lets the next run make it again if this one is killed."""
        owner = should.get("owner") or (is_ or {}).get("owner")
        system = should.get("system_site_packages", (is_ or {}).get("system_site_packages"))
        options = [*["--system-site-packages"] * bool(system), *["--without-pip"] * (not should["pip"])]
        _begin(path, is_, owner)
        python = Command(should["python"], timeout=3600)
        python.check_code(path, *python_environment.of_interpreter(python.locate()), user=owner)
        python("-m", "venv", *options, "--", path, user=owner)
        if not all(os.path.islink(f"{path}/bin/{name}") for name in _interpreters(path)):  # noqa: PTH114 - text in, text out
            msg = "the interpreter could not be linked"  # which the module takes as a reason to copy it
            raise ResourceError(msg)
        self.sync("-f", "--", path)
        with files.Batch() as batch:
            batch.remove(f"{path}/{MARK}")


def _row(path: str) -> Resource | None:
    """Return the row of the environment in a directory, or None for another content. Raise ``OSError``."""
    incomplete = os.path.lexists(f"{path}/{MARK}")
    try:
        text = files.read(f"{path}/{CONFIG}", LARGEST).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        if not incomplete:
            return {"path": path, "ensure": "present", "status": "empty"} if _is_empty(path) else None
        text = ""
    settings = {setting[1].lower(): setting[2] for line in text.split("\n") if (setting := SETTING.fullmatch(line))}
    version = settings.get("version") or settings.get("version_info", "")
    status = "incomplete"
    if not incomplete:
        status = "complete" if _works(path, version) else "broken"
    return {
        "path": path,
        "ensure": "present",
        "status": status,
        "version": version,
        "system_site_packages": settings.get(SYSTEM, "").lower() == "true",
        "owner": files.user_name(Path(path).stat().st_uid),
    }


def _is_empty(path: str) -> bool:
    """Return whether a directory is empty, as after a removal of an environment that was killed at its end."""
    try:
        return not os.listdir(path)  # noqa: PTH208 - bare names
    except (FileNotFoundError, NotADirectoryError):
        return False


def _works(path: str, version: str) -> bool:
    """Return whether the interpreter exists and is of the environment's version, for which packages are installed.

    A link to ``python3.12`` in an environment of 3.11 finds none of them.
    """
    interpreter = os.path.realpath(f"{path}/bin/python3")
    minor = MINOR.fullmatch(os.path.basename(interpreter))  # noqa: PTH119 - text in, text out
    return os.path.isfile(interpreter) and (minor is None or version.startswith((f"{minor[1]}.", minor[1])))  # noqa: PTH113 - text in, text out


def _missing_interpreter(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if the interpreter is missing, or its ``ensurepip``: Debian packages both separately."""
    needs, python = "Package[python3-venv]", should.get("python")
    if python is None:
        return
    missing = list(prerequisites.missing_program("python", python, needs=needs))
    yield from missing
    if missing or not should.get("pip") or os.path.lexists(f"{path}/{CONFIG}"):
        return
    with suppress(CommandError):
        if Command(python, read_only=True).attempt("-I", "-c", "import ensurepip").exit_code:
            message = f"'{python}' has no module ensurepip, which gives the environment its pip"
            yield Problem("pip", message, needs=needs)


def _can_others_replace(path: str) -> bool:
    """Return whether users other than root and the caller can replace an environment."""
    with files.Batch() as batch:
        return batch.can_others_replace(f"{path}/{CONFIG}" if os.path.isdir(path) else path)  # noqa: PTH112 - text in, text out


def _begin(path: str, is_: Mapping[str, Any] | None, owner: str | None) -> None:
    """Prepare a directory for ``venv``, and mark its environment as incomplete until the end of ``_make``.

    The directory is made, or emptied after a killed run; of an environment with a missing interpreter only the links
    are removed.
    """
    ids = {"uid": files.user_id(owner), "gid": pwd.getpwnam(owner).pw_gid} if owner else {}
    with files.Batch() as batch:
        if owner is None and _can_others_replace(path):
            raise ResourceError(NO_OWNER)
        if is_ is None or is_["status"] == "empty":
            _make_directory(path, batch, ids)
        elif is_["status"] == "incomplete":
            _empty(path, batch, keep={MARK})
        else:
            # The module `venv` keeps the links to an interpreter that lead nowhere.
            for name in _interpreters(path):
                batch.remove(f"{path}/bin/{name}")
    files.replace(f"{path}/{MARK}", b"", mode=0o644, **ids)


def _make_directory(path: str, batch: files.Batch, ids: Mapping[str, int]) -> None:
    """Make the directory of an environment, unless an empty one is there.

    A killed run may have left an empty directory before it had the declared owner (``ids``) and mode: with another
    owner or the mode 0700 it is made again.
    """
    if os.path.lexists(path):
        # The mark that a killed run was making is no content; the next one removes it.
        if any(not entry.startswith(f".{MARK}.") for entry in os.listdir(path)):  # noqa: PTH208 - bare names
            raise ResourceError("the directory has a content that is no environment")
        status = Path(path).stat()
        if not ids or (status.st_uid == ids["uid"] and stat.S_IMODE(status.st_mode) != stat.S_IRWXU):
            return
        batch.remove(path)
    batch.make_directory(path, mode=0o755 if ids else None, **ids)


def _interpreters(path: str) -> list[str]:
    """Return the names of an environment's interpreters, to check that all are links, or to remove broken ones."""
    programs = f"{path}/bin"
    names = os.listdir(programs) if os.path.isdir(programs) else ()  # noqa: PTH112, PTH208 - text in, text out
    return [name for name in names if name.startswith("python")]


def _empty(path: str, batch: files.Batch, keep: Collection[str]) -> None:
    """Remove the content of an environment, except the entries ``keep`` by which the next run recognizes it."""
    for entry in sorted(os.listdir(path)):  # noqa: PTH208 - bare names
        if entry not in keep:
            batch.remove(f"{path}/{entry}", recursive=True)


def _remove(path: str) -> None:
    """Remove an environment, its identifying files last, so that a killed removal can be continued."""
    with files.Batch() as batch:
        _empty(path, batch, keep={MARK, CONFIG})
    with files.Batch() as batch:
        batch.remove(path, recursive=True)


def _set_system(lines: files.Lines, *, value: bool) -> None:
    """Set the visibility of the system's packages in the environment, by the setting in its ``pyvenv.cfg``."""
    for number, line in enumerate(lines):
        if (setting := SETTING.fullmatch(line)) and setting[1].lower() == SYSTEM:
            lines[number] = f"{SYSTEM} = {str(value).lower()}"
            return
    lines.append(f"{SYSTEM} = {str(value).lower()}")
