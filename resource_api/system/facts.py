"""Read facts about this machine, under Facter's names, when a manifest refers to them; and its identity.

The sources are the standard library and the kernel's files: no fact starts a program, none changes during a run.
"""

from __future__ import annotations

import os
import pwd
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import blake2b
from resource_api.system import hardware_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FAMILIES: Final = {
    **dict.fromkeys(("debian", "ubuntu", "linuxmint", "raspbian"), "Debian"),
    **dict.fromkeys(("rhel", "centos", "fedora", "rocky", "almalinux", "amzn", "ol"), "RedHat"),
    **dict.fromkeys(("sles", "opensuse-leap", "opensuse-tumbleweed", "suse"), "Suse"),
    **dict.fromkeys(("arch", "manjaro"), "Archlinux"),
    "alpine": "Alpine",
    "gentoo": "Gentoo",
}


@cache
def _release() -> Mapping[str, str]:
    """Return the fields of os-release(5); empty where the file is missing or damaged."""
    import platform

    try:
        return platform.freedesktop_os_release()
    except (OSError, UnicodeDecodeError):
        return {}


def _os() -> dict[str, object]:
    """Return the fact ``os`` in the form of Puppet's Facter: name, family, architecture, release, distro."""
    system, release = os.uname(), _release()
    identity = release.get("ID", "")
    full = _debian_version() if identity == "debian" else release.get("VERSION_ID", system.release)
    major, _, minor = full.partition(".")
    version = {"full": full, "major": major, "minor": minor}
    name = release.get("NAME", system.sysname).removesuffix(" GNU/Linux").removesuffix(" Linux")
    like = next((_FAMILIES[word] for word in release.get("ID_LIKE", "").split() if word in _FAMILIES), None)
    codename, description = release.get("VERSION_CODENAME", ""), release.get("PRETTY_NAME", "")
    return {
        "name": name,
        "family": _FAMILIES.get(identity) or like or system.sysname,
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(system.machine, system.machine),
        "hardware": system.machine,
        "release": version,
        "distro": {"id": name, "codename": codename, "description": description, "release": {**version}},
    }


def _debian_version() -> str:
    """Return the version with its minor part, such as ``12.11``, as Facter does; os-release has only the major part."""
    try:
        with open("/etc/debian_version", encoding="ascii") as file:
            version = file.read().strip()
    except (OSError, UnicodeDecodeError):
        version = ""
    return version if version[:1].isdigit() else _release().get("VERSION_ID", "")


def _identity() -> dict[str, object]:
    """Return the fact about the effective user; ``user`` is the number as text if it has no name, as in a container."""
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return {"uid": uid, "gid": os.getegid(), "user": user, "privileged": uid == 0}


#: The facts that are functions of ``hardware_facts``: it is loaded, and ``socket`` with it, at the first use of one.
_HARDWARE_FACTS: Final = ("networking", "processors", "memory")
_FACTS: Final[Mapping[str, Callable[[], object]]] = {
    "os": _os,
    "kernel": lambda: os.uname().sysname,
    "kernelrelease": lambda: os.uname().release,
    "identity": _identity,
    "python": lambda: {"version": ".".join(map(str, sys.version_info[:3]))},
}


class Facts:
    """Facts by name; each is read once, at its first use."""

    def __init__(self, host: Mapping[str, object] | None = None) -> None:
        """Start without any fact; ``host`` is the name, groups and address in an inventory, None: this machine's."""
        name = os.uname().nodename
        #: The host's name, groups and address.
        self.host: Final[Mapping[str, object]] = {"name": name, "groups": [], "address": name} if host is None else host
        self._values: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        """Return one fact. Raise ``KeyError`` for an unknown name."""
        if name not in self._values:
            read = getattr(hardware_facts, name) if name in _HARDWARE_FACTS else _FACTS[name]
            self._values[name] = read()
        return self._values[name]

    def names(self) -> list[str]:
        """Return the names of all facts, sorted."""
        return sorted((*_FACTS, *_HARDWARE_FACTS))


@cache
def machine_id() -> str:
    """Return a digest of the machine id, or of the host name without one.

    machine-id(5): the id itself is confidential, and state may be in a database of many machines.
    """
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            if identifier := file.read(64).strip():
                break
    else:
        identifier = os.uname().nodename
    return blake2b(identifier.encode(), key=b"resource-api", digest_size=16).hexdigest()
