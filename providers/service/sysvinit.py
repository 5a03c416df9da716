"""Query the scripts of ``/etc/init.d`` by ``service``, and link them to runlevels with ``update-rc.d``."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import init_scripts
from resource_api import Command, ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api import Context

UPDATE = "/usr/sbin/update-rc.d"
OVERRIDES = Path("/etc/insserv/overrides")
#: Directories and files that exist while another init system manages the machine: systemd, OpenRC.
OTHERS = ("/run/systemd/system", "/run/openrc/softlevel")
#: A link of a runlevel: whether it starts or stops, an order, a name.
LINK = re.compile(r"([SK])\d\d(.+)")
#: A line of the head of a script (LSB 5.0, 22.3).
LEVELS = re.compile(r"#\s*Default-(Start|Stop):[ \t]*(.*)", re.IGNORECASE)
#: The runlevels in which a machine works; in the others it stops.
WORKING = frozenset("S2345")
HEAD = 8192


class Provider(init_scripts.ScriptProvider):
    """The scripts of a Debian without systemd, such as Devuan, or a container in which no init system runs."""

    system = "sysvinit"
    service = Command("service", timeout=600)
    ask = Command("service", read_only=True, timeout=60)
    update_rc_d = Command("update-rc.d")

    def suitable(self, _context: Context) -> bool | str:
        """Return True if scripts start the services of this machine, or the reason why this provider is not for it."""
        if not os.path.exists(UPDATE):  # noqa: PTH110 - text in, text out
            return f"there is no {UPDATE}"
        manager = next(filter(os.path.exists, OTHERS), None)
        return manager is None or f"another init system manages this machine (there is {manager})"

    def states(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return name → state, by one call for each, as there is no other source."""
        return {name: self.state_by_script(name, self.ask) for name in names}

    def enabled(self, names: Sequence[str]) -> Mapping[str, bool | None]:
        """Return name → whether a script has the links of its LSB header, or None for only some of them."""
        links = _links()
        return {name: _is_enabled(links[name], _declared_links(name)) for name in names}

    def enable(self, name: str, _should: Mapping[str, Any]) -> None:
        """Link a script into the runlevels of its LSB header.

        ``update-rc.d`` changes nothing if any link exists: the rest of a killed call is removed before. Links in all
        these runlevels are only switched from stop to start.
        """
        links, declared = _links()[name], _declared_links(name)
        if not any(kind == "S" for kind, _ in declared):
            msg = f"{name} cannot be enabled: the head of its script names no runlevel in 'Default-Start'"
            raise ResourceError(msg)
        if {level for _, level in links} >= {level for _, level in declared}:
            self.update_rc_d(name, "enable")
            return
        if links:
            self.update_rc_d(name, "remove")
        self.update_rc_d(name, "defaults")

    def disable(self, name: str) -> None:
        """Have a script stopped in each runlevel in which it was started."""
        self.update_rc_d(name, "disable", *sorted(level for _, level in _started(_links()[name])))

    def act(self, name: str, action: str) -> None:
        """Run an action of the script. Raise ``CommandError`` if it fails."""
        self.service(name, action)

    def reload(self, name: str) -> None:
        """Reload a service; ``force-reload`` restarts one that cannot (LSB 5.0, 22.2)."""
        self.service(name, "force-reload")


def _links() -> Mapping[str, set[tuple[str, str]]]:
    """Return service → its links in the directories of runlevels, by which it is enabled or disabled.

    A link is ``S`` (start) or ``K`` (kill), and its runlevel.
    """
    links: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for directory, names in init_scripts.runlevel_directories("rc[0-6S].d"):
        for link in filter(None, map(LINK.fullmatch, names)):
            links[link[2]].add((link[1], directory[2]))
    return links


def _declared_links(name: str) -> set[tuple[str, str]]:
    """Return the links that a script asks for in its LSB header, or in the header's override (insserv(8)).

    They have the form of ``_links``: a service is enabled if it has all of them.
    """
    override, script = OVERRIDES / name, init_scripts.SCRIPTS / name
    with (override if override.is_file() else script).open(encoding="utf-8", errors="replace") as file:
        levels = {
            match[1].lower(): match[2].split() for match in map(LEVELS.match, file.read(HEAD).splitlines()) if match
        }
    starts = {("S", level) for level in levels.get("start", ())}
    return starts | {("K", level) for level in levels.get("stop", ())}


def _is_enabled(links: set[tuple[str, str]], declared: set[tuple[str, str]]) -> bool | None:
    """Return True if a script has all its declared links, False if none starts it, None for only some of them.

    A row then has no value of ``enable``, so that either declared value is a difference.
    """
    if not _started(links):
        return False
    return True if links >= declared else None


def _started(links: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the links that start a script when the machine starts."""
    return {link for link in links if link[0] == "S" and link[1] in WORKING}
