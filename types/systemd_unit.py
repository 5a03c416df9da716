"""Unit files of systemd, and drop-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.unit_attributes import SUFFIXES, packages
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = "|".join(SUFFIXES)
VALUE = r"Variant[Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]*\z/], Integer, Boolean]"


def services(declared: Mapping[str, Any]) -> list[str]:
    """Return the possible names of the unit's service in a manifest: the unit's file must come before it."""
    unit = str(declared["name"]).partition(".d/")[0]
    return [unit, unit.removesuffix(".service")]


TYPE = TypeDefinition(
    name="systemd_unit",
    docs="""Manage unit files of systemd and drop-ins in /etc/systemd/system: services, timers, sockets, mounts.

    Systemd_unit[backup.service]:
      content:
        Unit: {Description: Copy the data}
        Service: {Type: oneshot, ExecStart: [/bin/sync, /usr/bin/true]}
    Systemd_unit[backup.timer]:
      content:
        Timer: {OnCalendar: daily, Persistent: true}
        Install: {WantedBy: timers.target}
    Service[backup.timer]: {ensure: running, enable: true}

The name is the file's: `backup.timer`, `worker@.service`, or for a drop-in `nginx.service.d/limits.conf`. Before a file
is written, `systemd-analyze verify` checks the unit, together with other drop-ins and with units that change in the
same step; a conflict names the other drop-in. The plan warns of errors. One `daemon-reload` loads all changed files.
Declare a `Service` to start and enable a unit. It comes after its unit automatically, and is restarted if it subscribes
to it.

`ensure: absent` stops and disables the unit, unless a file of the distribution takes its place, and removes the file.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "name": Attribute(
            rf"Pattern[/\A[A-Za-z0-9:_\\][A-Za-z0-9:_.\\@-]{{0,200}}\.({KINDS})(\.d\/[A-Za-z0-9:_@-][\w.:@-]{{0,200}}\.conf)?\z/]",
            "The unit with its suffix, or a drop-in: `UNIT.d/NAME.conf`.",
            kind="namevar",
            must_be="a unit's name with its suffix, or UNIT.d/NAME.conf",
        ),
        "content": Attribute(
            rf"Variant[String[1], Hash[Pattern[/\A[A-Za-z][\w-]*\z/], Hash[Pattern[/\A[A-Za-z][\w-]*\z/], "
            rf"Variant[{VALUE}, Array[{VALUE}]]]]]",
            "The text of the file, or its sections with their settings. A list is several settings; an empty text"
            ' as the first one, `ExecStart: ["", /bin/new]`, clears the values of other files.',
            must_be="text on one line",
        ),
        "verify": Attribute(
            "Boolean",
            "Whether `systemd-analyze verify` must accept the unit without warnings.",
            kind="parameter",
            default=True,
        ),
        "outdated": Attribute("Boolean", "Whether systemd has an older version of the unit.", kind="read_only"),
    },
    autorequires={"package": packages},
    autobefore={"service": services},
    features={
        "canonicalize",
        "custom_insync",
        "not_rehearsable",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
    },
)
