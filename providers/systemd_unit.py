"""Read and replace files in ``/etc/systemd/system`` that systemd-analyze(1) has verified."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lib import ini_lines, listing, prerequisites, program_checked_files, systemd_units, whole_directory
from lib.sensitive import reveal
from lib.services import short_name
from resource_api import BaseProvider, Command, CommandError, Problem, ResourceError, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

DIRECTORY = "/etc/systemd/system"
#: The directories with units of the distribution, of programs and of this start of the machine.
OTHERS = ("/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
UNIT = ini_lines.syntax("a.service")
#: The files that systemd reads.
FILE = re.compile(r".+\.(service|socket|timer|target|path|mount|automount|swap|slice)(\.d/.+\.conf)?")


class Provider(BaseProvider):
    """The unit files and drop-ins of the administrator."""

    analyze = Command("systemd-analyze", read_only=True, timeout=60)
    systemctl = Command("systemctl")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write sections as text, and end text with a line end, as in rows of ``get``."""
        return program_checked_files.write_texts(resources, format_sections)

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a changed file that systemd has not read yet as different: ``set`` reloads systemd."""
        if attribute == "content" and is_.get("outdated") and is_["content"] == should["content"]:
            return False, "changed, and systemd has not read it"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the files in ``names``, or all in the directory; a link fails its name, as links are not followed."""
        read = program_checked_files.read_rows(context, DIRECTORY, names, _listed() if names is None else ())
        rows_by_name = {row["name"]: row for row in read}
        outdated = self._outdated(rows_by_name)
        rows = [{**row, "outdated": _unit(name) in outdated} for name, row in rows_by_name.items()]
        yield from context.accepted(rows) if names is None else rows

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Verify and write the files, together, as they may need each other; then let systemd read all of them once."""
        written = False
        with program_checked_files.staged(changes) as stage:
            try:
                for name, (is_, should) in changes.items():
                    with context.processing(name, is_, should):
                        self._change(stage, name, should)
                        written = True
            finally:
                if written and os.path.isdir(systemd_units.BOOTED):  # noqa: PTH112 - a text
                    self.systemctl("daemon-reload")

    def _change(self, stage: str, name: str, should: Mapping[str, Any]) -> None:
        """Write a file after the check of its copy in ``stage``, or remove it after its unit was stopped."""
        if should["ensure"] == "present" and should["verify"]:
            self._verify(stage, name)
        if should["ensure"] == "absent":
            self._stop(name)
        program_checked_files.write(DIRECTORY, name, should)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for missing systemd, or else its errors, and warnings for overriding drop-ins.

        All new files are staged together, as they may need each other. Files whose content is not known yet are left
        out.
        """
        missing = list(prerequisites.missing_program("verify", "systemd-analyze", needs="Package[systemd]"))
        yield from prerequisites.of_files(
            changes,
            lambda _name, should: missing if should["ensure"] == "present" and should.get("verify") else [],
            lambda name: f"{DIRECTORY}/{name}",
        )
        complete = program_checked_files.complete(changes)
        for name, change in complete.items():
            yield from ((name, problem) for problem in _overridden(name, reveal(change.should["content"])))
        if missing:
            return
        with program_checked_files.staged(complete, TemporaryDirectory) as stage:
            for name in [name for name, change in complete.items() if change.should.get("verify")]:
                yield from ((name, problem) for problem in self._refusal(stage, name))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the unit that is stopped and disabled before a removal, and the units that this affects."""
        units = systemd_units.Units()
        for name in changes:
            # A template itself does not run, and a unit that has another file stays.
            if not os.path.isdir(systemd_units.BOOTED) or "@." in name or not _is_last(name):  # noqa: PTH112 - a text
                continue
            [unit] = units.show([name])
            stopped = [name] if systemd_units.is_running(unit) else []
            stopped += [affected for action, affected in units.consequences(name, "stop") if action == "stop"]
            for affected in stopped:
                yield name, SideEffect(short_name(affected), "stop", "service", {"ensure": "stopped"})
            disabled = [name] if systemd_units.enabled(unit) is True else []
            for affected in [*disabled, *units.installed_with(name, "disable")]:
                yield name, SideEffect(short_name(affected), "disable", "service", {"enable": False})

    def _refusal(self, stage: str, name: str) -> Iterator[Problem]:
        """Yield a problem with systemd's errors from a file, so that a plan shows them before ``set``.

        ``stage`` is the directory with the new files.
        """
        try:
            self._verify(stage, name)
        except ResourceError as error:
            yield Problem("content", str(error))

    def _verify(self, stage: str, name: str) -> None:
        """Raise ``ResourceError`` if a new file in the directory ``stage`` causes errors in its units.

        Errors that a unit has without the new file do not count, unless they are in that file.
        """
        for unit in _units(name):
            if not (errors := self._problems([stage, DIRECTORY], name, unit)):
                continue
            exists = any(os.path.lexists(f"{directory}/{unit}") for directory in (DIRECTORY, *OTHERS))
            present_errors = set(self._problems([DIRECTORY], name, unit)) if exists else set()
            if new := [line for line in errors if line not in present_errors or line.startswith(f"{_path(name)}:")]:
                more = ", ".join(self._involved(stage, name, unit, new[0]))
                raise ResourceError("; ".join(new) + (f" (together with {more})" if more else ""))

    def _problems(self, directories: Sequence[str], name: str, unit: str) -> list[str]:
        """Return systemd's errors about a unit, or else its warnings about the file ``name``.

        ``directories`` are searched before those of the system. Messages about a file in the first one, which may be
        the stage, have the path that the file will get.
        """
        try:
            # A colon at the end: the directories of the system follow.
            path = {"SYSTEMD_UNIT_PATH": "".join(f"{directory}:" for directory in directories)}
            options = ("--man=no", "--recursive-errors=no")
            result = self.analyze.attempt("verify", *options, "--", unit, env=path, log="debug")
        except CommandError as error:
            raise ResourceError(str(error)) from error
        output = result.stderr.replace(f"{directories[0]}/", f"{DIRECTORY}/")
        lines = [line for line in output.splitlines() if line.strip()]
        if result.exit_code == 0:
            return [line for line in lines if line.startswith(f"{_path(name)}:")]
        return lines or [f"systemd-analyze verify fails with exit code {result.exit_code}"]

    def _involved(self, stage: str, name: str, unit: str, error: str) -> Iterator[str]:
        """Yield the present drop-ins of a unit that cause an error together with the new file, for the message.

        An error that begins with the path of a file needs no search. For any other, the check is repeated without each
        drop-in.
        """
        for directory in (DIRECTORY, *OTHERS) if not error.startswith("/") else ():
            for drop_in in listing.matching(f"{directory}/{unit}.d", "*.conf"):
                mask = Path(stage, f"{unit}.d", drop_in.name)
                if mask.exists():
                    continue
                # An empty file of the same name in the stage, which is searched first, hides it.
                whole_directory.write(str(mask), b"")
                if error not in self._problems([stage, DIRECTORY], name, unit):
                    yield str(drop_in)
                mask.unlink()

    def _stop(self, name: str) -> None:
        """Stop and disable a unit, or a template's instances, before its last file is removed.

        Nothing is stopped for a drop-in, or if the unit has another file.
        """
        if not _is_last(name):
            return
        if os.path.isdir(systemd_units.BOOTED):  # noqa: PTH112 - a text
            self.systemctl("stop", "--", name.replace("@.", "@*."))
        self.systemctl("disable", "--quiet", "--no-reload", "--", name)

    def _outdated(self, names: Collection[str]) -> frozenset[str]:
        """Return the units of ``names`` whose files have changed since systemd read them, which ``insync`` reports."""
        units = sorted({unit for unit in map(_unit, names) if "@." not in unit})
        if not units or not os.path.isdir(systemd_units.BOOTED):  # noqa: PTH112 - a text
            return frozenset()
        output = self.systemctl("show", "--property=NeedDaemonReload", "--value", "--no-pager", "--", *units).stdout
        return frozenset(unit for unit, answer in zip(units, output.split(), strict=True) if answer == "yes")


def format_sections(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a unit file from its sections."""
    return "\n".join(f"[{section}]\n{''.join(_settings(settings))}" for section, settings in sections.items())


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a section in a content that is declared as a mapping of sections.

    A list has a line for each item, as systemd allows a setting more than once.
    """
    for key, value in settings.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            yield f"{key}={str(item).lower() if isinstance(item, bool) else item}\n"


def _overridden(name: str, content: str) -> Iterator[Problem]:
    """Yield a warning for each setting of a file with another value in a drop-in that systemd reads later."""
    unit = _unit(name)
    # All drop-ins of a unit are read after its main file.
    own = "" if unit == name else name.rpartition("/")[2]
    # Of one name, the file in the first directory counts.
    drop_ins: dict[str, str] = {}
    for directory in (DIRECTORY, *OTHERS):
        for drop_in in listing.matching(f"{directory}/{unit}.d", "*.conf"):
            drop_ins.setdefault(drop_in.name, str(drop_in))
    later = [drop_ins[file] for file in sorted(drop_ins) if file > own]
    declared = dict(ini_lines.settings(content.split("\n"), UNIT))
    for (_, setting), path, value in ini_lines.later_values(later, declared, UNIT):
        message = f"{path} comes after it and sets {setting} to '{listing.cut(value)}', which counts"
        yield Problem("content", message, severity="warning")


def _is_last(name: str) -> bool:
    """Return whether a unit has no other file than this one."""
    return "/" not in name and not any(os.path.lexists(f"{directory}/{name}") for directory in OTHERS)


def _path(name: str) -> str:
    """Return the path of a unit file or drop-in."""
    return f"{DIRECTORY}/{name}"


def _unit(name: str) -> str:
    """Return the unit of a file; a drop-in is in the directory ``UNIT.d``."""
    return name.partition(".d/")[0]


def _units(name: str) -> list[str]:
    """Return the units that a file concerns, each of which is to be verified with it.

    A drop-in for ``web-.service`` concerns all units whose names begin with ``web-``.
    """
    unit = _unit(name)
    start, _, kind = unit.rpartition(".")
    if unit == name or not start.endswith("-"):
        return [unit]
    matches = {
        path.name for directory in (DIRECTORY, *OTHERS) for path in listing.matching(directory, f"{start}*.{kind}")
    }
    return sorted(matches) or [unit]


def _listed() -> Sequence[str]:
    """Return the names of the regular files in the directory and its directories of drop-ins, for a listing."""
    paths: list[str] = []
    for directory, directories, names in os.walk(DIRECTORY):
        inside = os.path.relpath(directory, DIRECTORY)
        # ``os.walk`` enters only the directories that remain in this list.
        directories[:] = [name for name in directories if inside == "." and name.endswith(".d")]
        paths += [name if inside == "." else f"{inside}/{name}" for name in names]
    return sorted(
        name for name in paths if FILE.fullmatch(name) and stat.S_ISREG(os.lstat(f"{DIRECTORY}/{name}").st_mode)
    )
