"""The attributes of both services of the machine and services of users, and the packages of units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kinds of units (systemd.unit(5)) that have files.
SUFFIXES = ("service", "socket", "timer", "target", "path", "mount", "automount", "swap", "slice")

#: The characters of unit names (systemd.unit(5)); no option, no path, no glob, and no template without an instance.
NAME = r"Pattern[/\A[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\-]{0,255}(@[A-Za-z0-9:_\\@-][A-Za-z0-9:_.\\@-]{0,255})?\z/]"


def packages(should: Mapping[str, Any]) -> list[str]:
    """Return the possible titles of the package that brings a unit, so that the unit comes after that package.

    They are the name of the unit without its suffix, and without its instance. ``openvpn@home.service`` and its drop-in
    ``openvpn@home.service.d/limits.conf`` are of ``openvpn@home`` or ``openvpn``.
    """
    stem = str(should["name"]).partition(".d/")[0]
    for suffix in SUFFIXES:
        stem = stem.removesuffix(f".{suffix}")
    return list(dict.fromkeys((stem, stem.partition("@")[0])))


def name_attribute() -> Attribute:
    """Return the attribute ``name``, a namevar."""
    return Attribute(NAME, "The service, or another unit with its suffix.", kind="namevar", must_be="a unit's name")


def refresh_attribute() -> Attribute:
    """Return the attribute ``refresh`` for a type of units: the reaction to a notification."""
    return Attribute(
        "Enum[restart, reload]",
        "The reaction to a notification: `restart`; or `reload`, which restarts a unit that cannot be reloaded.",
        kind="parameter",
        default="restart",
    )


def unit_file_attribute() -> Attribute:
    """Return the read-only attribute ``unit_file``, the reason why a unit can or cannot be enabled."""
    return Attribute(
        "Optional[String]", "The state of the unit file, such as `enabled`, `static` or `masked`.", kind="read_only"
    )
