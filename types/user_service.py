"""Services that a user runs for themselves, with systemd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.unit_attributes import name_attribute, packages, refresh_attribute, unit_file_attribute
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the paths of the unit's file, assuming homes in their usual place."""
    name, user = should.get("name"), should.get("user")
    if not isinstance(name, str) or not isinstance(user, str):
        return []
    unit = name if "." in name.rpartition("@")[2] else f"{name}.service"
    home = "/root" if user == "root" else f"/home/{user}"
    return [f"{home}/.config/systemd/user/{unit}", f"/etc/systemd/user/{unit}"]


TYPE = TypeDefinition(
    name="user_service",
    docs="""Manage the services that users run for themselves, as `systemctl --user` does.

    File[/etc/systemd/user/sync.service]:
      content: |
        [Service]
        ExecStart=/usr/bin/syncthing
        [Install]
        WantedBy=default.target
    User_service[sync alice]:
      ensure: running
      enable: true
      linger: true
      subscribe: File[/etc/systemd/user/sync.service]

The title is the name of the unit and the user. Each user has a service manager of their own, and `systemctl` runs as
that user, so that a user can reach no other user's files by those in their home.

The manager runs while the user is logged in; it starts the enabled services of `default.target` with the first login,
and stops all with the end of the last session. With `linger: true` it runs from the start of the machine on, whether
the user logs in or not: a service that is to run on a server needs that. Without a manager a service is stopped, and
can be enabled, not started. Lingering belongs to the user: all services of a user must declare the same.

A service is never created or deleted here; one that does not exist, or whose user does not, is read as stopped and not
enabled. Units of the machine are `service`; the kinds of units, `mask`, refreshes and the log in errors are as there.

`resource user_service` lists the services of all users whose manager runs.
""",
    attributes={
        "name": name_attribute(),
        "user": Attribute(
            r"Pattern[/\A[A-Za-z0-9_][\w.-]*\$?\z/]",
            "The user whose service it is.",
            kind="namevar",
            must_be="a user's name",
        ),
        "ensure": Attribute("Optional[Enum[running, stopped]]", "Whether it runs now."),
        "enable": Attribute(
            "Optional[Variant[Boolean, Enum[mask]]]",
            "Whether it is started with the manager of the user; `mask`: nothing can start it.",
        ),
        "linger": Attribute(
            "Optional[Boolean]",
            "Whether the manager of the user, with its enabled units, runs without a login.",
        ),
        "refresh": refresh_attribute(),
        "state": Attribute(
            "Optional[String]",
            "The state as systemd calls it, such as `active (running)`, `failed (failed)` or `not-found`.",
            kind="read_only",
        ),
        "unit_file": unit_file_attribute(),
    },
    title_patterns=[{"pattern": r"(?P<name>\S+) (?P<user>\S+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"user": "$user", "file": files, "package": packages},
    features={
        *("canonicalize", "custom_insync", "not_rehearsable", "preflight"),
        *("refreshable", "side_effects", "simple_get_filter"),
    },
)
