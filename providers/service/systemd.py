"""The units of the machine, read in one call and changed one after another by ``systemctl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.services import ServiceProvider
from lib.systemd_units import PROPERTIES, REFUSING, Units, is_running, manages_machine, refusals, row, side_effects
from resource_api import Problem, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource


class Provider(ServiceProvider):
    """The units of a machine that was started by systemd."""

    units = Units()

    def suitable(self, _context: Context) -> bool | str:
        """Return whether systemd manages this machine."""
        return manages_machine()

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the units in ``names``, also those that do not exist, or all services."""
        requested = self.units.services() if names is None else list(names)
        return [{"name": name, **row(unit)} for name, unit in zip(requested, self.units.show(requested), strict=True)]

    def preflight(self, context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the services that do not exist, and the states that units cannot have."""
        yield from super().preflight(context, changes)
        units = self.units.show(list(changes), (*PROPERTIES, *REFUSING))
        for (name, should), unit in zip(changes.items(), units, strict=True):
            yield from ((name, Problem(*refusal)) for refusal in refusals(name, unit, should))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the other units that systemd enables, disables, starts or stops with a unit."""
        for name, (is_, should) in changes.items():
            for action, unit_name, state in side_effects(self.units, name, is_, should):
                yield name, SideEffect(unit_name, action, state=state)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one unit after another, in their order; have systemd read the changed unit files once."""
        written = False
        try:
            for name, (_, should) in changes.items():
                with context.updating(name):
                    unit = self.units.current(name)
                    written |= self.units.set_enable(name, unit, should)
                    if self.units.set_ensure(name, unit, should):
                        self.started.add(name)
        finally:
            if written:
                self.units.systemctl("daemon-reload")

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Read all units in one call, then restart or reload those that run, by ``runs``."""
        self._units = dict(zip(names, self.units.current_of(names), strict=True))
        super().refresh(context, names)

    def runs(self, name: str) -> bool:
        """Return whether a unit ran when its refresh began."""
        return is_running(self._units[name])

    def restart(self, name: str) -> None:
        """Restart a unit that runs."""
        self.units.run("try-restart", name)

    def reload(self, name: str) -> None:
        """Reload a unit that runs, or restart it."""
        self.units.run("try-reload-or-restart", name)
