"""Read units with ``systemctl show``, all in one call, and change them one after another with ``systemctl``.

A manager of units is the machine's, or a user's own, whose systemctl is run as this user.
"""

from __future__ import annotations

import json
import pwd
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import command_lines
from lib.services import short_name, unit_name
from resource_api import Command, CommandError, ProviderError, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api import Resource

#: Exists while systemd manages this machine: sd_booted(3).
BOOTED = "/run/systemd/system"
PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload")
#: The action on a related unit when a unit starts or stops, by the property that relates them.
PULLS = {
    "start": {
        **dict.fromkeys(("Requires", "Requisite", "Wants", "BindsTo", "Upholds"), "start"),
        **dict.fromkeys(("Conflicts", "ConflictedBy"), "stop"),
    },
    "stop": dict.fromkeys(("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"), "stop"),
}
RELATED = ("Id", "LoadState", "ActiveState", *PULLS["start"], *PULLS["stop"])
#: The properties that tell which units are enabled and disabled with a unit.
INSTALLED = ("Id", "LoadState", "ActiveState", "UnitFileState", "FragmentPath", "DropInPaths")
#: The directories of unit files below those with masks, the first one that has a file counts (systemd.unit(5)).
UNIT_DIRECTORIES = ("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
#: The states of unit files that are changed by a verb.
CHANGED_BY = {"enable": {"disabled", "linked"}, "disable": {"enabled"}}
#: The kinds of units that only group others, or stand for a part of the machine.
WITHOUT_PROCESSES = (".slice", ".target", ".device", ".scope")
#: Names in one call of ``systemctl show``: far below the limit of the arguments of a program.
BATCH = 1000
#: The states of unit files that ``systemctl enable`` does not change, and why.
UNCHANGEABLE = {
    "static": "it is static: its unit file has no section [Install], other units start it",
    "indirect": "it is indirect: its unit file enables other units only",
    "generated": "its unit file is generated when the machine starts",
    "transient": "it was started by a program and has no unit file",
}
#: The properties that tell which changes a unit refuses.
REFUSING = ("Type", "RemainAfterExit", "FragmentPath")
#: The directory of the links that mask units; a file in it cannot be masked.
MASKS = "/etc/systemd/system/"
#: The part of a unit's log in a message: lines, and characters of each.
LINES, WIDTH = 10, 200
#: Seconds before each look into the log: journald writes the output of a service a little after its end.
LOG_WAITS = (0.0, 0.1, 0.4)
#: The longest that the manager of a user, who can make it hang, may take to answer.
USERS_LIMIT = 60.0
systemctl = Command("systemctl")
journalctl = Command("journalctl", read_only=True, timeout=30)


def manages_machine() -> bool | str:
    """Return whether systemd manages this machine, or the reason if it does not."""
    return Path(BOOTED).is_dir() or f"systemd does not manage this machine (there is no {BOOTED})"


class Units:
    """The units of one manager: the machine's, or a user's by name."""

    def __init__(self, user: str | None = None) -> None:
        """Use a manager. Raise ``KeyError`` for a user without an account."""
        self._user = user
        self.uid = None if user is None else pwd.getpwnam(user).pw_uid

    @property
    def directory(self) -> Path:
        """The directory in which the manager of the user has its socket."""
        return Path(f"/run/user/{self.uid}")

    def answers(self) -> bool:
        """Return whether a manager runs, so that systemctl gets answers."""
        return self._user is None or (self.directory / "systemd/private").is_socket()

    def systemctl(self, *arguments: str) -> str:
        """Run ``systemctl`` for this manager, as its user, and return its output."""
        return systemctl(*self._arguments(arguments), **self._options()).stdout

    def _arguments(self, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments of ``systemctl`` for this manager."""
        return arguments if self._user is None else ("--user", *arguments)

    def _options(self) -> dict[str, Any]:
        """Return the options to call systemctl as the user, and to find that user's manager; none for the machine's.

        Without a running manager, ``SYSTEMD_OFFLINE`` lets systemctl change the files of units alone.
        """
        if self._user is None:
            return {}
        variables = {"XDG_RUNTIME_DIR": str(self.directory)}
        alone = {} if self.answers() else {"SYSTEMD_OFFLINE": "1"}
        return {"env": {**variables, **alone}, "user": self._user, "timeout": USERS_LIMIT}

    def set_enable(self, name: str, unit: Mapping[str, str], should: Mapping[str, Any]) -> bool:
        """Enable, disable or mask a unit as declared; return whether systemd must read its files again.

        A mask is removed first, the lasting and the temporary one, because it hides whether the unit is enabled. Raise
        ``ResourceError`` for a unit that cannot be enabled or disabled.
        """
        enable, present = should.get("enable"), enabled(unit)
        if enable is None or enable == present:
            return False
        if present == "mask":
            self.systemctl("unmask", "--", unit_name(name))
            self.systemctl("unmask", "--runtime", "--", unit_name(name))
            unit = self.current(name)
            present = enabled(unit)
        if enable == present:
            return False
        verb = {"mask": "mask", True: "enable", False: "disable"}[enable]
        if verb != "mask" and (reason := UNCHANGEABLE.get(unit["UnitFileState"])):
            raise ResourceError(f"{name} cannot be {verb}d: {reason}")
        self.systemctl(verb, "--no-reload", "--quiet", "--", unit_name(name))
        return True

    def consequences(self, name: str, verb: str) -> Iterator[tuple[str, str]]:
        """Yield (action, unit) for each unit that systemd starts or stops with a unit: ``verb`` is start or stop.

        A plan shows them. Relations (systemd.unit(5)) are followed from unit to unit. Only loaded units whose state
        changes are yielded and followed: running ones for a stop, and ones that do not run for a start.
        """
        # By action, all units so far, and those whose relations have not been followed yet.
        reached, waiting = {"start": set[str](), "stop": set[str]()}, {verb: {unit_name(name)}}
        reached[verb].add(unit_name(name))
        while waiting:
            action, names = waiting.popitem()
            for effect, pulled in self._pulled(names, action).items():
                new = {unit for unit in pulled - reached[effect] if not unit.endswith(WITHOUT_PROCESSES)}
                reached[effect] |= new
                if changing := self._changing(new, effect):
                    waiting.setdefault(effect, set()).update(changing)
                    yield from ((effect, unit) for unit in sorted(changing))

    def _pulled(self, names: Iterable[str], action: str) -> dict[str, set[str]]:
        """Return effect (start or stop) → the units that ``action`` on the units ``names`` starts or stops directly.

        They are taken from the relations of ``names``, such as ``Requires=`` (systemd.unit(5)). ``consequences``
        follows the relations of the result in turn.
        """
        pulled: dict[str, set[str]] = {"start": set(), "stop": set()}
        for unit in self._related(sorted(names)):
            for relation, effect in PULLS[action].items():
                pulled[effect].update(unit.get(relation, "").split())
        return pulled

    def _changing(self, names: Iterable[str], effect: str) -> set[str]:
        """Return the loaded units whose state an effect changes: one to stop is running now, one to start is not."""
        loaded = [unit for unit in self._related(sorted(names)) if unit["LoadState"] == "loaded"]
        return {unit["Id"] for unit in loaded if is_running(unit) is (effect == "stop")}

    def _related(self, names: Sequence[str]) -> list[Mapping[str, str]]:
        """Return the state and the relations of units; nothing without a manager."""
        return self.show(names, RELATED) if names and self.answers() else []

    def installed_with(self, name: str, verb: str) -> Iterator[str]:
        """Yield the other units that systemd enables or disables together with a unit: a plan shows them.

        They are the units in its ``Also=`` (systemd.unit(5)), and in the ``Also=`` of these. Without a running manager,
        which reads the properties of units, nothing is yielded.
        """
        names, waiting = {unit_name(name)}, [unit_name(name)]
        while waiting and self.answers():
            units = self.show(waiting, INSTALLED)
            yield from (
                unit["Id"]
                for unit, requested in zip(units, waiting, strict=True)
                if requested != unit_name(name) and unit["UnitFileState"] in CHANGED_BY[verb]
            )
            waiting = sorted({linked for unit in units for linked in also(unit["Id"], self._unit_file(unit))} - names)
            names.update(waiting)

    def _unit_file(self, unit: Mapping[str, str]) -> Iterable[str]:
        """Return the lines of a unit's file and drop-ins, to read its ``Also=``; none of a unit that is not loaded.

        Of a masked unit of the machine it is the file behind the mask, as its change removes the mask first. A user's
        files are read with that user's rights.
        """
        if unit["LoadState"] == "masked" and self._user is None:
            behind = (Path(directory, unit["Id"]) for directory in UNIT_DIRECTORIES)
            return next((files.read_lines(str(path)) for path in behind if path.is_file()), ())
        if unit["LoadState"] != "loaded":
            return ()
        if self._user is not None:
            return self.systemctl("cat", "--no-pager", "--", unit["Id"]).splitlines()
        paths = [unit["FragmentPath"], *unit["DropInPaths"].split()]
        return [line for path in filter(None, paths) for line in ["", *files.read_lines(path)]]

    def set_ensure(self, name: str, unit: Mapping[str, str], should: Mapping[str, Any]) -> bool:
        """Start or stop a unit as declared, unless that is done.

        Return whether it was started: it has read its new files then, and a refresh need not restart it.
        """
        ensure = should.get("ensure")
        if ensure == "stopped" and (is_running(unit) or unit["ActiveState"] == "activating"):
            self.systemctl("stop", "--", unit_name(name))
        elif ensure == "running" and not is_running(unit):
            self.run("start", name)
            return True
        return False

    def run(self, verb: str, name: str) -> None:
        """Start or restart a unit, by the ``verb`` of systemctl. Raise ``ResourceError`` with its log if it fails."""
        began = int(time.time())
        try:
            self.systemctl(verb, "--", unit_name(name))
        except CommandError as error:
            log = self._log(name, began)
            # Without the message of systemctl, which only refers to the log.
            short = f"{command_lines.quoted(error.argv)} returned {error.status}"
            raise ResourceError(f"{short if log and error.status else error}{log}") from error
        [unit] = self.show([name])
        if unit["ActiveState"] == "failed" or unit["SubState"] == "auto-restart":
            status = " ".join(["systemctl", *self._arguments(["status", unit_name(name)])])
            silent = f"; it has written nothing into its log, '{status}' shows how it ended"
            raise ResourceError(f"{name} was started and has failed{self._log(name, began) or silent}")

    def _log(self, name: str, began: int) -> str:
        """Return the unit's last log lines since the time ``began``, as the end of a message, or an empty text."""
        limits = (f"--since=@{began}", f"--lines={LINES}", "--output=cat", "--no-pager", "--quiet")
        matches = self._log_matches(unit_name(name))
        for wait in LOG_WAITS:  # lines reach the journal with a delay
            time.sleep(wait)
            output = journalctl.attempt(*limits, *matches).stdout
            if lines := [line[:WIDTH].strip() for line in output.splitlines()[-LINES:] if line.strip()]:
                return f"; the end of its log: {'; '.join(lines)}"
        return ""

    def _log_matches(self, unit: str) -> Sequence[str]:
        """Return the arguments of ``journalctl`` for the lines of a unit, of the machine or of a user."""
        if self._user is None:
            return (f"--unit={unit}",)
        # journald looks up the unit of a line's process; once that has ended, it finds another unit, or none.
        arguments = ("show", "--property=ExecMainPID", "--value", "--", unit)
        process = systemctl.attempt(*self._arguments(arguments), **self._options()).stdout.strip()
        matches = (f"_SYSTEMD_USER_UNIT={unit}", f"_SYSTEMD_UNIT={unit}", f"_PID={process}")
        # "+" means or, journalctl(1): none before the first.
        return [word for match in matches for word in ("+", f"_UID={self.uid}", match)][1:]

    def current(self, name: str) -> Mapping[str, str]:
        """Return the present state of a unit, as ``current_of`` does."""
        [unit] = self.current_of([name])
        return unit

    def current_of(self, names: Sequence[str]) -> list[Mapping[str, str]]:
        """Return the present states of units, by their files as they are now.

        If a unit file has changed, systemd reads all of them again first: otherwise it would start the unit by its
        former file.
        """
        units = self.show(names)
        if any(unit["NeedDaemonReload"] == "yes" for unit in units):
            self.systemctl("daemon-reload")
            units = self.show(names)
        return units

    def show(self, names: Sequence[str], properties: Sequence[str] = PROPERTIES) -> list[Mapping[str, str]]:
        """Return properties of units in the order of ``names``, also for units that do not exist.

        One call of systemctl reads a thousand units. Raise ``ProviderError`` if its answer lacks one.
        """
        if not self.answers():
            return list(map(self._show_file, names))
        rows: list[Mapping[str, str]] = []
        for start in range(0, len(names), BATCH):
            units = [unit_name(name) for name in names[start : start + BATCH]]
            text = self.systemctl("show", f"--property={','.join(properties)}", "--no-pager", "--", *units)
            blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
            every_unit_has = {"Id", "LoadState", "ActiveState"}
            if len(blocks) != len(units) or not all(block.keys() >= every_unit_has for block in blocks):
                msg = f"systemctl showed {len(blocks)} of {len(units)} units; does systemd manage this machine?"
                raise ProviderError(msg)
            rows += blocks
        return rows

    def _show_file(self, name: str) -> Mapping[str, str]:
        """Return the properties of a unit without a running manager, as ``show`` returns them with one.

        Whether the unit is enabled is determined by its files; without a manager it does not run.
        """
        state = systemctl.attempt(*self._arguments(("is-enabled", "--", unit_name(name))), **self._options()).stdout
        loaded = {"LoadState": "loaded" if state.strip() else "not-found", "UnitFileState": state.strip()}
        return {**dict.fromkeys(PROPERTIES, ""), **loaded, "ActiveState": "inactive", "SubState": "dead"}

    def services(self) -> list[str]:
        """Return the names of all services for a listing, without templates, which cannot run, and aliases."""
        options = ("--type=service", "--output=json", "--no-pager")
        unit_files = json.loads(self.systemctl("list-unit-files", *options))
        loaded = json.loads(self.systemctl("list-units", "--all", *options)) if self.answers() else []
        units = {entry["unit_file"] for entry in unit_files if entry["state"] != "alias"}
        units |= {entry["unit"] for entry in loaded if entry["load"] not in {"not-found", "error", "bad-setting"}}
        # ``getty@.service`` is a template; a name that begins with a dash cannot be declared.
        return sorted(short_name(unit) for unit in units if "@." not in unit and unit[0] != "-")


def row(unit: Mapping[str, str]) -> Resource:
    """Return the attributes of a service for ``get``, from the properties of its unit.

    A unit that was generated, or made by a running program, cannot be enabled: its row has no ``enable``.
    """
    loaded = unit["LoadState"] in {"loaded", "masked"}
    attributes: Resource = {
        "ensure": "running" if is_running(unit) else "stopped",
        "state": f"{unit['ActiveState']} ({unit['SubState']})" if loaded else unit["LoadState"],
        "unit_file": unit["UnitFileState"] or None,
    }
    if unit["UnitFileState"] not in {"generated", "transient"}:
        attributes["enable"] = enabled(unit)
    return attributes


def is_running(unit: Mapping[str, str]) -> bool:
    """Return whether a unit runs now."""
    return unit.get("ActiveState") in {"active", "reloading", "refreshing"}


def refusals(
    name: str, unit: Mapping[str, str], should: Mapping[str, Any], masks: str = MASKS
) -> Iterator[tuple[str, str]]:
    """Yield the declared attributes that systemd would refuse for a unit, and the reasons, for a plan.

    ``unit`` has the properties in ``REFUSING`` too. ``masks``: the directory of the links that mask units, with a final
    slash; a unit whose own file is there cannot be masked.
    """
    enable, present = should.get("enable"), enabled(unit)
    if enable is not None and enable != present and "mask" not in {enable, present}:
        if reason := UNCHANGEABLE.get(unit["UnitFileState"]):
            yield "enable", f"{name} cannot be {'enabled' if enable else 'disabled'}: {reason}"
    elif enable == "mask" != present and unit.get("FragmentPath", "").startswith(masks):
        yield "enable", f"{name} cannot be masked: its file is {unit['FragmentPath']}, where the mask would be"
    if should.get("ensure") == "running" and unit.get("Type") == "oneshot" and unit.get("RemainAfterExit") != "yes":
        yield "ensure", f"{name} does not stay running: it has Type=oneshot without RemainAfterExit=yes"


def enabled(unit: Mapping[str, str]) -> bool | str:
    """Return whether a unit is started with the machine, or ``mask`` if it cannot be started at all."""
    if unit["LoadState"] == "masked" or unit["UnitFileState"].startswith("masked"):
        return "mask"
    return unit["UnitFileState"] == "enabled"


def side_effects(
    units: Units, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]
) -> Iterator[tuple[str, str, Resource]]:
    """Yield (action, name, state) of each other unit that a unit's change enables, disables, starts or stops.

    A plan shows them as side effects; ``state`` are the attributes that the other unit gets.
    """
    enable, present = should.get("enable"), (is_ or {}).get("enable")
    if isinstance(enable, bool) and enable != present and (enable or present != "mask"):
        verb = "enable" if enable else "disable"
        yield from ((verb, short_name(unit), {"enable": enable}) for unit in units.installed_with(name, verb))
    ensure, present = should.get("ensure"), (is_ or {}).get("ensure")
    if ensure is None or ensure == present:
        return
    for action, unit in units.consequences(name, "start" if ensure == "running" else "stop"):
        yield action, short_name(unit), {"ensure": "running" if action == "start" else "stopped"}


def also(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the units in ``Also=`` of the section ``[Install]`` of a unit's files, which are enabled together with it.

    Templates are left out, because only their instances are units.

    Specifiers such as ``%i`` are replaced by parts of the unit's ``name``; a backslash continues a line.
    """
    whole, _, _ = name.rpartition(".")
    prefix, _, instance = whole.partition("@")
    specifiers = {"n": name, "N": whole, "p": prefix, "i": instance, "%": "%"}
    section = ""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if line[:1] == "[":
            section = line.strip()
        elif section == "[Install]" and equals and key.strip() == "Also":
            words = (re.sub("%(.)", lambda match: specifiers.get(match[1], match[0]), word) for word in value.split())
            yield from (word for word in words if "@." not in word)
