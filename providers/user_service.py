"""The units of users' own service managers, one query a user, changed one after another as that user."""

from __future__ import annotations

import os
import pwd
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import prerequisites
from lib.file_parts import report_unreadable
from lib.services import NOT_FOUND, ServiceProvider
from lib.systemd_units import PROPERTIES, REFUSING, Units, is_running, manages_machine, refusals, row, side_effects
from resource_api import Command, CommandError, Problem, ProviderError, ResourceError, SideEffect, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

    #: The name of a unit, and its user.
    Name = tuple[str, str]

#: Has a file for each user whose manager runs without a login; only systemd-logind writes there.
LINGERING = Path("/var/lib/systemd/linger")
#: Has a directory for each user with a manager, by number.
RUNNING = Path("/run/user")
MISSING: Resource = {"ensure": "stopped", "enable": False, "state": NOT_FOUND}


class Provider(ServiceProvider):
    """The services of the users of a machine that was started by systemd."""

    systemctl = Command("systemctl")
    loginctl = Command("loginctl")

    def suitable(self, _context: Context) -> bool | str:
        """Return whether systemd manages this machine."""
        return manages_machine()

    def name_of(self, resource: Resource) -> Name:
        """Return the name of a unit with its user."""
        return resource["name"], resource.get("user", "")

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the units in ``names``, or all services of users with a manager.

        A unit in ``names`` that does not exist has a row too, as a stopped one. A query that a user's manager does not
        answer is a failure of that user's units.
        """
        names_by_user: dict[str, list[str]] = defaultdict(list)
        for name, user in names or ():
            names_by_user[user].append(name)
        for user in _users() if names is None else names_by_user:
            try:
                rows = _rows(user, None if names is None else names_by_user[user])
            except (CommandError, ProviderError, ValueError) as error:
                reason = f"the service manager of '{user}' cannot be asked: {files.printable(str(error))}"
                report_unreadable(context, [(name, user) for name in names_by_user[user]], reason, names)
            else:
                yield from context.accepted(rows)

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing user of a service, and the declared states that its unit cannot have."""
        for name, should in changes.items():
            yield from ((name, problem) for problem in prerequisites.missing_user("user", name[1]))
            with suppress(KeyError, ResourceError):  # without an answer of this user's manager, others are queried
                [unit] = Units(name[1]).show([name[0]], (*PROPERTIES, *REFUSING))
                # The directory of the links by which a user's units are masked.
                masks = f"{pwd.getpwnam(name[1]).pw_dir}/.config/systemd/user/"
                yield from ((name, Problem(*refusal)) for refusal in refusals(name[0], unit, should, masks))

    def side_effects(self, _context: Context, changes: Mapping[Name, Change]) -> Iterator[tuple[Name, SideEffect]]:
        """Yield the other units of the same user that systemd enables, disables, starts or stops with a unit."""
        for name, (is_, should) in changes.items():
            with suppress(KeyError):  # a user that does not exist yet has no units
                for action, unit, state in side_effects(Units(name[1]), name[0], is_, should):
                    yield name, SideEffect((unit, name[1]), action, state=state)

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Change one unit after another, in their order; have each manager read the changed unit files once."""
        written: dict[str, Units] = {}
        try:
            for name, (is_, should) in changes.items():
                with context.updating(name):
                    self._change(name, is_ or {}, should, written)
        finally:
            for units in written.values():
                if units.answers():
                    units.systemctl("daemon-reload")

    def _change(self, name: Name, is_: Mapping[str, Any], should: Mapping[str, Any], written: dict[str, Units]) -> None:
        """Change one unit of a user, whose manager is started before and stopped after as ``linger`` declares.

        As soon as a unit file has changed, the manager is added to ``written``, to read the files at the end.
        """
        unit_name, user = name
        units = _units(user)
        self._start_manager(user, units, is_, should)
        unit = units.current(unit_name)
        if units.set_enable(unit_name, unit, should):
            written[user] = units
        if should.get("ensure") == "running" and not units.answers():
            raise ResourceError(f"the service manager of '{user}' does not run: declare 'linger: true', or log in")
        if units.set_ensure(unit_name, unit, should):
            self.started.add(name)
        if should.get("linger") is False and is_.get("linger"):
            self._end_lingering(user, units)

    def _start_manager(self, user: str, units: Units, is_: Mapping[str, Any], should: Mapping[str, Any]) -> None:
        """Enable lingering of a user as declared, and start the manager of a lingering user.

        A lingering user's manager runs without a login, and answers the next calls: systemctl waits until it has
        started.
        """
        if should.get("linger") is True and not is_.get("linger"):
            self.loginctl("enable-linger", "--", user)
        if _lingers(user) and not units.answers():
            self.systemctl("start", f"user@{units.uid}.service")

    def _end_lingering(self, user: str, units: Units) -> None:
        """Disable lingering, and stop a manager without a login now, as systemd would only after some seconds."""
        self.loginctl("disable-linger", "--", user)
        if self.loginctl.attempt("show-user", "--property=Sessions", "--value", "--", user).stdout.strip() == "":
            self.systemctl("stop", f"user@{units.uid}.service")

    def runs(self, name: Name) -> bool:
        """Return whether a unit runs now."""
        return is_running(_units(name[1]).current(name[0]))

    def restart(self, name: Name) -> None:
        """Restart a unit that runs."""
        _units(name[1]).run("try-restart", name[0])

    def reload(self, name: Name) -> None:
        """Reload a unit that runs, or restart it."""
        _units(name[1]).run("try-reload-or-restart", name[0])


def _units(user: str) -> Units:
    """Return the units of a user. Raise ``ResourceError`` for a missing account, so that only its services fail."""
    try:
        return Units(user)
    except KeyError:
        raise ResourceError(f"there is no user '{user}'") from None


def _rows(user: str, names: Sequence[str] | None) -> list[Resource]:
    """Return the rows of a user's units, or with None of all services; an unknown user's units are read as stopped."""
    linger = _lingers(user)
    try:
        units = Units(user)
    except KeyError:
        return [{"name": name, "user": user, "linger": linger, **MISSING} for name in names or ()]
    requested = units.services() if names is None else names
    queried = units.answers()
    try:
        rows = units.show(requested)
    except CommandError:
        if not queried or units.answers():
            raise
        rows = units.show(requested)  # the manager has ended meanwhile: the files tell the rest
    return [
        {"name": name, "user": user, "linger": linger, **row(unit)} for name, unit in zip(requested, rows, strict=True)
    ]


def _lingers(user: str) -> bool:
    """Return whether the manager of a user runs without a login."""
    return (LINGERING / user).exists()


def _users() -> list[str]:
    """Return the users who have a service manager now, sorted, for a listing: no other user's units can be queried."""
    users = []
    for number in os.listdir(RUNNING) if RUNNING.is_dir() else ():  # noqa: PTH208 - bare names
        with suppress(KeyError, ValueError):
            user = pwd.getpwuid(int(number)).pw_name
            if Units(user).answers():
                users.append(user)
    return sorted(users)
