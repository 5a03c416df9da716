"""Services of init systems that run scripts of ``/etc/init.d``: the base class of the providers openrc and sysvinit.

The state of a script is the exit code of its action ``status``, by the Linux Standard Base (LSB 5.0, 22.2).
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lib import listing, services
from resource_api import Command, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from resource_api import Change, Context, Resource

SCRIPTS = Path("/etc/init.d")
#: Executable files that are no service: parts of the init system, and a template (service(8)).
NO_SERVICES = frozenset({"README", "halt", "killprocs", "rc", "rc.local", "rcS", "reboot", "single", "skeleton"})
#: The states by the exit code of ``status``; any other one is none.
LSB_STATES = {0: "running", 1: "dead", 2: "dead", 3: "stopped"}
RUNNING = frozenset({"running", "started"})
#: The state of a script that cannot be asked.
UNKNOWN = "unknown"
PID = re.compile(r"\s*([1-9]\d{0,9})\s*")


class Service(NamedTuple):
    """A service as it is: its state in the words of its init system, and whether it is started with the machine.

    ``enabled`` is None for a service of whose links only a part is there.
    """

    state: str
    enabled: bool | None

    @property
    def runs(self) -> bool:
        """Whether it runs now."""
        return self.state in RUNNING


class ScriptProvider(services.ServiceProvider):
    """The base class of providers of services with scripts; a subclass implements the init system."""

    #: The init system in messages.
    system: ClassVar[str]

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the services in ``names``, also those that do not exist, or all that have a script."""
        scripts = _scripts() if names is None else list(names)
        return [_row(name, service) for name, service in self._services(scripts).items()]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one service after another, in their order: enable or disable first, then start or stop.

        The failure of one service does not prevent the others.
        """
        for name, (_, should) in changes.items():
            with context.updating(name):
                service = self._services([name])[name]
                if service.state == services.NOT_FOUND:
                    raise ResourceError(f"there is no service {name}: {SCRIPTS}/{name} is missing or not executable")
                self._set_enable(name, service, should)
                self._set_ensure(name, service, should)

    def runs(self, name: str) -> bool:
        """Return whether a service runs now."""
        return self._services([name])[name].runs

    @abstractmethod
    def states(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return name → state of services that exist."""

    @abstractmethod
    def enabled(self, names: Sequence[str]) -> Mapping[str, bool | None]:
        """Return name → whether an existing service starts with the machine, or None with only a part of its links."""

    @abstractmethod
    def enable(self, name: str, should: Mapping[str, Any]) -> None:
        """Have a service started with the machine."""

    @abstractmethod
    def disable(self, name: str) -> None:
        """Have a service not started with the machine."""

    @abstractmethod
    def act(self, name: str, action: str) -> None:
        """Run an action of the script of a service: ``start``, ``stop`` or ``restart``. Raise if it fails."""

    def start(self, name: str, _state: str) -> None:
        """Start a service that does not run, from its present state."""
        self.act(name, "start")

    def restart(self, name: str) -> None:
        """Restart a service."""
        self.act(name, "restart")

    def state_by_script(self, name: str, ask: Command) -> str:
        """Return the state of a service: by the process in its pidfile, or else by its script's ``status``."""
        if pidfile := self._pidfiles.get(name):
            return "running" if _process_exists(pidfile) else "stopped"
        result = ask.attempt(name, "status", log="debug")
        # A script without the action ``status`` prints a usage message with its actions: the state cannot be known.
        if "usage:" in f"{result.stdout}{result.stderr}".lower():
            return UNKNOWN
        return LSB_STATES.get(result.exit_code, UNKNOWN)

    def _services(self, names: Sequence[str]) -> Mapping[str, Service]:
        """Return name → service, with its state and whether it is enabled, read at once for all ``names``.

        A service without a script, of which the init system knows nothing, has the state ``NOT_FOUND``.
        """
        existing = [name for name in names if _is_script(name)]
        states, enabled = (self.states(existing), self.enabled(existing)) if existing else ({}, {})
        return {name: Service(states.get(name, services.NOT_FOUND), enabled.get(name, False)) for name in names}

    def _set_enable(self, name: str, service: Service, should: Mapping[str, Any]) -> None:
        """Enable or disable a service at boot if that differs; refuse ``mask``, which only systemd has."""
        enable = should.get("enable")
        if enable == "mask":
            raise ResourceError(f"{name} cannot be masked: {self.system} does not know that; declare 'enable: false'")
        if enable is not None and enable != service.enabled:
            if enable:
                self.enable(name, should)
            else:
                self.disable(name)

    def _set_ensure(self, name: str, service: Service, should: Mapping[str, Any]) -> None:
        """Start or stop a service if its state differs.

        A service that is started here has read its new files: it is noted in ``started``, so that a refresh in the same
        run does not restart it.
        """
        ensure = should.get("ensure")
        if ensure is not None and service.state == UNKNOWN:
            msg = f"whether {name} runs is not known: its script has no action 'status'; declare its 'pidfile'"
            raise ResourceError(msg)
        if ensure == "stopped" and service.runs:
            self.act(name, "stop")
        elif ensure == "running" and not service.runs:
            self.start(name, service.state)
            self.started.add(name)


def _scripts() -> list[str]:
    """Return the names of all services that have a script, sorted."""
    names = os.listdir(SCRIPTS) if SCRIPTS.is_dir() else []  # noqa: PTH208 - bare names
    return sorted(name for name in names if name not in NO_SERVICES and name[0] != "." and _is_script(name))


def _is_script(name: str) -> bool:
    """Return whether a service has a script that can be executed."""
    path = SCRIPTS / name
    return path.is_file() and os.access(path, os.X_OK)


def _process_exists(pidfile: str) -> bool:
    """Return whether the process in a pidfile exists and has not ended; False without such a file.

    A service that was killed may leave its pidfile, and its process may wait as a zombie for its parent.
    """
    with suppress(OSError), os.fdopen(os.open(pidfile, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        number = PID.fullmatch(file.read(64).decode("ascii", "replace"))
        if number is not None:
            stat = Path(f"/proc/{number[1]}/stat").read_text(encoding="utf-8", errors="replace")
            # The letter of the state is behind the name in brackets; Z and X have ended: proc(5).
            return stat.rpartition(") ")[2][:1] not in {"", "Z", "X"}
    return False


def _row(name: str, service: Service) -> Resource:
    """Return the row of a service for ``get``.

    An attribute that cannot be determined is left out: ``insync`` then explains that to the user.
    """
    row: Resource = {"name": name, "state": service.state}
    if service.state != UNKNOWN:
        row["ensure"] = "running" if service.runs else "stopped"
    if service.enabled is not None:
        row["enable"] = service.enabled
    return row


def runlevel_directories(pattern: str) -> Iterable[tuple[str, list[str]]]:
    """Yield the name of each directory of a runlevel, and of its files, whose links show the enabled services.

    ``pattern`` is that of the directories in /etc, such as ``rc[0-6S].d``.
    """
    parent, _, names = pattern.rpartition("/")
    for directory in listing.matching(f"/etc/{parent}", names):
        with suppress(FileNotFoundError, NotADirectoryError):
            yield directory.name, os.listdir(directory)  # noqa: PTH208 - bare names
