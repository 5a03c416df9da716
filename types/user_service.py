"""Services that a user runs for themselves, with systemd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.unit_attributes import name_attribute, packages, refresh_attribute, unit_file_attribute
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the possible paths of the unit's file, so that a resource with this name comes before the service.

    The user may not exist yet, so the file is expected in the usual home.
    """
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

The title is the unit and the user. Each user has a service manager; `systemctl` runs as that user. The manager runs
while the user is logged in: it starts the enabled services of `default.target` at the first login, and stops all after
the last session. On a server, declare `linger: true`: the manager then runs from boot on. Without a manager a service
is stopped; it can be enabled, but not started. All services of a user must declare the same `linger`.

Services are never created or deleted; a missing one, or one of a missing user, is read as stopped and not enabled.
`service` is for units of the machine; it also explains names, `mask`, refreshes and errors.

`resource user_service` lists the services of users whose manager runs.
""",
    attributes={
        "name": name_attribute(),
        "user": Attribute(
            r"Pattern[/\A[A-Za-z0-9_][\w.-]*\$?\z/]",
            "The user of the service.",
            kind="namevar",
            must_be="a user's name",
        ),
        "ensure": Attribute("Optional[Enum[running, stopped]]", "Whether it runs now."),
        "enable": Attribute(
            "Optional[Variant[Boolean, Enum[mask]]]",
            "Whether it starts with the user's manager; `mask`: nothing can start it.",
        ),
        "linger": Attribute("Optional[Boolean]", "Whether the user's manager runs without a login."),
        "refresh": refresh_attribute(),
        "state": Attribute(
            "Optional[String]",
            "The state in the words of systemd, such as `active (running)`, `failed (failed)` or `not-found`.",
            kind="read_only",
        ),
        "unit_file": unit_file_attribute(),
    },
    title_patterns=[{"pattern": r"(?P<name>\S+) (?P<user>\S+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"user": "$user", "file": files, "package": packages},
    features={
        "canonicalize",
        "custom_insync",
        "not_rehearsable",
        "preflight",
        "refreshable",
        "side_effects",
        "simple_get_filter",
        "validate",
    },
)
