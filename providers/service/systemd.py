"""Read units with ``systemctl show``, all in one call, and change them one after another with ``systemctl``."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from lib.services import ServiceProvider, short_name, unit_name
from resource_api import Command, CommandError, ProviderError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api import Change, Context, Resource

#: Exists while systemd manages this machine: sd_booted(3).
BOOTED = "/run/systemd/system"
PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload")
#: Names in one call of ``systemctl show``: far below the limit of the arguments of a program.
BATCH = 1000
#: The states of unit files that ``systemctl enable`` does not change, and why.
UNCHANGEABLE = {
    "static": "it is static: its unit file has no section [Install], other units start it",
    "indirect": "it is indirect: its unit file enables other units only",
    "generated": "its unit file is generated when the machine starts",
    "transient": "it was started by a program and has no unit file",
}
#: How much of the log of a unit is shown: lines, and characters of each.
LINES, WIDTH = 10, 200


class Provider(ServiceProvider):
    """The units of a machine that was started by systemd."""

    systemctl = Command("systemctl")
    journalctl = Command("journalctl", read_only=True, timeout=30)

    def suitable(self, _context: Context) -> bool | str:
        """Return whether systemd manages this machine."""
        return os.path.isdir(BOOTED) or f"systemd does not manage this machine (there is no {BOOTED})"  # noqa: PTH112

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the units in ``names``, also those that do not exist, or all services."""
        wanted = self._services() if names is None else list(names)
        return [_row(name, unit) for name, unit in zip(wanted, self._show(wanted), strict=True)]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one unit after another, in their order; have systemd read the changed unit files once."""
        written = False
        try:
            for name, (_, should) in changes.items():
                with context.updating(name):
                    unit = self._current(name)
                    written |= self._set_enable(name, unit, should)
                    self._set_ensure(name, unit, should)
        finally:
            if written:
                self.systemctl("daemon-reload")

    def runs(self, name: str) -> bool:
        """Return whether a unit runs now."""
        return _is_running(self._current(name))

    def restart(self, name: str) -> None:
        """Restart a unit that runs."""
        self._run("try-restart", name)

    def reload(self, name: str) -> None:
        """Reload a unit that runs, or restart it."""
        self._run("try-reload-or-restart", name)

    def _set_enable(self, name: str, unit: Mapping[str, str], should: Mapping[str, Any]) -> bool:
        """Enable, disable or mask a unit as declared; return whether systemd must read its files again."""
        wanted, enabled = should.get("enable"), _enable(unit)
        if wanted is None or wanted == enabled:
            return False
        if enabled == "mask":
            self.systemctl("unmask", "--", unit_name(name))
            self.systemctl("unmask", "--runtime", "--", unit_name(name))
            unit = self._current(name)
            enabled = _enable(unit)
        if wanted == enabled:
            return False
        verb = "mask" if wanted == "mask" else "enable" if wanted else "disable"
        if verb != "mask" and (why := UNCHANGEABLE.get(unit["UnitFileState"])):
            msg = f"{name} cannot be {verb}d: {why}"
            raise ResourceError(msg)
        self.systemctl(verb, "--no-reload", "--quiet", "--", unit_name(name))
        return True

    def _set_ensure(self, name: str, unit: Mapping[str, str], should: Mapping[str, Any]) -> None:
        """Start or stop a unit as declared, unless that is done."""
        wanted = should.get("ensure")
        if wanted == "stopped" and (_is_running(unit) or unit["ActiveState"] == "activating"):
            self.systemctl("stop", "--", unit_name(name))
        elif wanted == "running" and not _is_running(unit):
            self._run("start", name)
            self.started.add(name)

    def _run(self, verb: str, name: str) -> None:
        """Start a unit, or start it again. Raise ``ResourceError`` with its log where it does not run afterwards."""
        began = int(time.time())
        try:
            self.systemctl(verb, "--", unit_name(name))
        except CommandError as error:
            msg = f"{error}{self._log(name, began)}"
            raise ResourceError(msg) from error
        [unit] = self._show([name])
        if unit["ActiveState"] == "failed" or unit["SubState"] == "auto-restart":
            msg = f"{name} was started and has failed{self._log(name, began)}"
            raise ResourceError(msg)

    def _log(self, name: str, began: int) -> str:
        """Return the last lines that a unit has logged since a time, behind the words that introduce them."""
        limits = (f"--since=@{began}", f"--lines={LINES}", "--output=cat", "--no-pager", "--quiet")
        result = self.journalctl.attempt(*limits, f"--unit={unit_name(name)}")
        lines = [line[:WIDTH] for line in result.stdout.splitlines()[-LINES:] if line.strip()]
        return "".join(["; the end of its log:", *(f"\n  {line}" for line in lines)]) if lines else ""

    def _current(self, name: str) -> Mapping[str, str]:
        """Return the present state of a unit; before, have systemd read the unit files if that of this one is newer."""
        [unit] = self._show([name])
        if unit["NeedDaemonReload"] == "yes":
            self.systemctl("daemon-reload")
            [unit] = self._show([name])
        return unit

    def _show(self, names: Sequence[str]) -> list[Mapping[str, str]]:
        """Return the properties of units, in the order of ``names``."""
        found: list[Mapping[str, str]] = []
        for start in range(0, len(names), BATCH):
            units = [unit_name(name) for name in names[start : start + BATCH]]
            text = self.systemctl("show", f"--property={','.join(PROPERTIES)}", "--no-pager", "--", *units).stdout
            blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
            if len(blocks) != len(units) or not all(block.keys() >= set(PROPERTIES) for block in blocks):
                msg = f"systemctl showed {len(blocks)} of {len(units)} units; does systemd manage this machine?"
                raise ProviderError(msg)
            found += blocks
        return found

    def _services(self) -> list[str]:
        """Return the names of all services, without templates and second names."""
        options = ("--type=service", "--output=json", "--no-pager")
        files = json.loads(self.systemctl("list-unit-files", *options).stdout)
        loaded = json.loads(self.systemctl("list-units", "--all", *options).stdout)
        units = {each["unit_file"] for each in files if each["state"] != "alias"}
        units |= {each["unit"] for each in loaded if each["load"] not in {"not-found", "error", "bad-setting"}}
        return sorted(short_name(unit) for unit in units if "@." not in unit and unit[0] != "-")


def _row(name: str, unit: Mapping[str, str]) -> Resource:
    loaded = unit["LoadState"] in {"loaded", "masked"}
    row: Resource = {
        "name": name,
        "ensure": "running" if _is_running(unit) else "stopped",
        "state": f"{unit['ActiveState']} ({unit['SubState']})" if loaded else unit["LoadState"],
        "unit_file": unit["UnitFileState"] or None,
    }
    if unit["UnitFileState"] not in {"generated", "transient"}:
        row["enable"] = _enable(unit)
    return row


def _is_running(unit: Mapping[str, str]) -> bool:
    return unit.get("ActiveState") in {"active", "reloading", "refreshing"}


def _enable(unit: Mapping[str, str]) -> bool | str:
    """Return whether a unit is started with the machine, or ``mask``."""
    if unit["LoadState"] == "masked" or unit["UnitFileState"].startswith("masked"):
        return "mask"
    return unit["UnitFileState"] == "enabled"
