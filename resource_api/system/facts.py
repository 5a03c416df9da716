"""Facts about this machine under Facter's names, each read only when a manifest refers to it.

The sources are the standard library and the kernel's own files: no fact starts a program. A fact does not change during
a run.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

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
    import platform

    try:
        return platform.freedesktop_os_release()
    except (OSError, UnicodeDecodeError):
        return {}


def _os() -> dict[str, Any]:
    import platform

    release = _release()
    identity = release.get("ID", "")
    version = _debian_version() if identity == "debian" else release.get("VERSION_ID", platform.release())
    major, _, minor = version.partition(".")
    name = release.get("NAME", platform.system()).removesuffix(" GNU/Linux").removesuffix(" Linux")
    like = next((_FAMILIES[word] for word in release.get("ID_LIKE", "").split() if word in _FAMILIES), None)
    return {
        "name": name,
        "family": _FAMILIES.get(identity) or like or platform.system(),
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "hardware": platform.machine(),
        "release": {"full": version, "major": major, "minor": minor},
        "distro": {
            "id": name,
            "codename": release.get("VERSION_CODENAME", ""),
            "description": release.get("PRETTY_NAME", ""),
            "release": {"full": version, "major": major, "minor": minor},
        },
    }


def _debian_version() -> str:
    """Return the version with its minor part, such as ``12.11``, as Facter does; os-release has the major one only."""
    try:
        with open("/etc/debian_version", encoding="ascii") as file:
            version = file.read().strip()
    except (OSError, UnicodeDecodeError):
        version = ""
    return version if version[:1].isdigit() else _release().get("VERSION_ID", "")


def _networking() -> dict[str, Any]:
    import socket

    from resource_api.system import kernel_facts

    hostname, _, domain = socket.gethostname().partition(".")
    if not domain:
        domain = socket.getfqdn().partition(".")[2]
    interfaces = kernel_facts.interfaces()
    primary = next((i for n, i in interfaces.items() if n != "lo" and "ip" in i), interfaces.get("lo", {}))
    fqdn = f"{hostname}.{domain}" if domain else hostname
    return {"hostname": hostname, "domain": domain, "fqdn": fqdn, "interfaces": interfaces, **primary}


def _processors() -> dict[str, Any]:
    import platform

    from resource_api.system import kernel_facts

    count, cores = kernel_facts.processors()
    return {"count": count, "physicalcount": cores, "isa": platform.machine()}


def _memory() -> dict[str, Any]:
    from resource_api.system import kernel_facts

    system, swap = kernel_facts.memory()
    return {"system": {"total_bytes": system}, "swap": {"total_bytes": swap}}


def _kernel() -> str:
    return os.uname().sysname


def _kernelrelease() -> str:
    return os.uname().release


def _identity() -> dict[str, Any]:
    import pwd

    uid = os.geteuid()
    return {"uid": uid, "gid": os.getegid(), "user": pwd.getpwuid(uid).pw_name, "privileged": uid == 0}


def _python() -> dict[str, Any]:
    return {"version": ".".join(map(str, sys.version_info[:3]))}


_FACTS: Final[Mapping[str, Callable[[], Any]]] = {
    "os": _os,
    "networking": _networking,
    "processors": _processors,
    "memory": _memory,
    "kernel": _kernel,
    "kernelrelease": _kernelrelease,
    "identity": _identity,
    "python": _python,
}


class Facts:
    """Facts by name; each is read once, at its first use."""

    def __init__(self, host: Mapping[str, Any] | None = None) -> None:
        """Start without any fact read; ``host``: the ``name``, ``groups`` and ``address`` that an inventory gives."""
        self._read: dict[str, Any] = {}
        self._host = host

    @property
    def host(self) -> Mapping[str, Any]:
        """What is known of the host: its name, groups and address; of this machine, where it was not given one."""
        if self._host is None:
            name = os.uname().nodename
            self._host = {"name": name, "groups": [], "address": name}
        return self._host

    def __getitem__(self, name: str) -> Any:
        """Return one fact. Raise ``KeyError`` for an unknown name."""
        if name not in self._read:
            self._read[name] = _FACTS[name]()
        return self._read[name]

    def names(self) -> list[str]:
        """Return the names of all facts, sorted."""
        return sorted(_FACTS)
