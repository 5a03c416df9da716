"""Read services with ``rc-status``, all in one call, and change them one after another with ``rc-service``."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import init_scripts
from resource_api import Command, ResourceError, SideEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api import Change, Context

#: Holds the runlevel that OpenRC has brought the machine to.
BOOTED = "/run/openrc/softlevel"
#: A line of ``rc-status --servicelist``: a name, and its state in brackets.
LINE = re.compile(r" (\S+)\s+\[\s*(\w+).*\]\s*")
#: The first line of OpenRC's own scripts; another init system's keep no state for ``rc-status``.
OWN = re.compile(rb"#!\s*\S*/(openrc-run|runscript)\b")
DEFAULT = "default"


class Provider(init_scripts.ScriptProvider):
    """The services of a machine that was started by OpenRC, such as Alpine Linux and Gentoo."""

    system = "OpenRC"
    rc_service = Command("rc-service", timeout=600)
    ask = Command("rc-service", read_only=True, timeout=60)
    rc_status = Command("rc-status", read_only=True, timeout=60)
    rc_update = Command("rc-update")

    def suitable(self, _context: Context) -> bool | str:
        """Return whether OpenRC manages this machine."""
        return os.path.exists(BOOTED) or f"OpenRC does not manage this machine (there is no {BOOTED})"  # noqa: PTH110

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the services that OpenRC starts because a service needs them, or stops because they need the service.

        A plan reports a conflict with the declared state of such a service.
        """
        for name, (is_, should) in changes.items():
            ensure = should.get("ensure")
            if ensure is None or ensure == (is_ or {}).get("ensure"):
                continue
            starts = ensure == "running"
            related = self._needs(name, "ineed" if starts else "needsme")
            for service, state in self.states(sorted(related)).items() if related else ():
                if (state in init_scripts.RUNNING) is not starts:
                    yield name, SideEffect(service, "start" if starts else "stop", state={"ensure": ensure})

    def _needs(self, name: str, relation: str) -> set[str]:
        """Return the services that OpenRC starts or stops with a service, directly or not.

        They are those that it needs (``ineed``), or that need it (``needsme``).
        """
        reached, waiting = set[str](), [name]
        while waiting:
            new = {*self.ask.attempt("--nocolor", waiting.pop(), relation, log="debug").stdout.split()} - reached
            reached |= new
            waiting += new
        return reached - {name}

    def states(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return name → state: of OpenRC's own scripts in one call, of others by a call of each script."""
        openrc_scripts = {name for name in names if _is_own(name)}
        lines = self.rc_status("--nocolor", "--servicelist", log="debug").stdout.splitlines() if openrc_scripts else []
        states = {match[1]: match[2] for line in lines if (match := LINE.fullmatch(line))}
        return {
            name: states.get(name, init_scripts.UNKNOWN)
            if name in openrc_scripts
            else self.state_by_script(name, self.ask)
            for name in names
        }

    def enabled(self, names: Sequence[str]) -> Mapping[str, bool | None]:
        """Return name → whether a service is in a runlevel."""
        levels = _runlevels()
        return {name: bool(levels[name]) for name in names}

    def enable(self, name: str, should: Mapping[str, Any]) -> None:
        """Add a service to its runlevel."""
        self.rc_update("--nocolor", "--quiet", "add", name, should.get("runlevel") or DEFAULT)

    def disable(self, name: str) -> None:
        """Remove a service from all runlevels in which it is."""
        self.rc_update("--nocolor", "--quiet", "del", name, *_runlevels()[name])

    def start(self, name: str, state: str) -> None:
        """Start a service. One that has crashed counts as started for OpenRC until it is reset."""
        if state == "crashed":
            self.act(name, "zap")
        self.act(name, "start")

    def reload(self, name: str) -> None:
        """Reload a service; restart one whose script has no ``reload``."""
        if self.rc_service.attempt("--nocolor", name, "reload", log="debug").exit_code != 0:
            self.restart(name)

    def act(self, name: str, action: str) -> None:
        """Run an action of a service's script. Raise ``ResourceError`` with its output for a failure.

        OpenRC also restarts or stops the services that need this one.
        """
        result = self.rc_service.attempt("--nocolor", name, action, log="debug")
        if result.exit_code != 0:
            lines = "".join(f"\n  {line.strip()}" for line in result.stderr.splitlines() if line.strip())
            msg = f"'rc-service {name} {action}' failed with exit code {result.exit_code}{':' if lines else ''}{lines}"
            raise ResourceError(msg)


def _is_own(name: str) -> bool:
    """Return whether the script of a service is one of OpenRC's own."""
    with (init_scripts.SCRIPTS / name).open("rb") as file:
        return OWN.match(file.readline(200)) is not None


def _runlevels() -> Mapping[str, list[str]]:
    """Return name → the runlevels of each enabled service, to read its state and to disable it in all of them."""
    levels: dict[str, list[str]] = defaultdict(list)
    for level, names in init_scripts.runlevel_directories("runlevels/*"):
        for name in names:
            levels[name].append(level)
    return levels
