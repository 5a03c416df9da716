"""Read facts about this machine, under Facter's names, when a manifest refers to them; and its identity.

The sources are the standard library and the kernel's files, proc(5), sysfs(5) and netdevice(7): no fact starts a
program, none changes during a run. No other library is needed, so hosts of ``--on`` have the same facts. Linux only.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from contextlib import suppress
from functools import cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import blake2b
from resource_api.system.filesystem.permissions import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: ID of os-release(5) → the fact ``os.family``.
_FAMILIES: Final = {
    **dict.fromkeys(("debian", "ubuntu", "linuxmint", "raspbian"), "Debian"),
    **dict.fromkeys(("rhel", "centos", "fedora", "rocky", "almalinux", "amzn", "ol"), "RedHat"),
    **dict.fromkeys(("sles", "opensuse-leap", "opensuse-tumbleweed", "suse"), "Suse"),
    **dict.fromkeys(("arch", "manjaro"), "Archlinux"),
    "alpine": "Alpine",
    "gentoo": "Gentoo",
}
#: The request for the IPv4 address of an interface, and the position of the address in the answer (netdevice(7)).
_SIOCGIFADDR: Final = 0x8915
_ADDRESS: Final = slice(20, 24)
#: Of an interface, in bytes: IFNAMSIZ less one.
_LONGEST_NAME: Final = 15
#: Flags of an IPv6 address (linux/if_addr.h): a temporary, deprecated or tentative address is the last choice.
TEMPORARY: Final = 0x01
DEPRECATED: Final = 0x20
_TENTATIVE: Final = 0x40
_CORES: Final = "/sys/devices/system/cpu/cpu[0-9]*/topology"


@cache
def _release() -> Mapping[str, str]:
    """Return the fields of os-release(5), for the fact ``os``; empty where the file is missing or damaged."""
    import platform

    try:
        return platform.freedesktop_os_release()
    except (OSError, UnicodeDecodeError):
        return {}


def _os() -> dict[str, object]:
    """Return the fact ``os`` with the names of Puppet's Facter, so that manifests can be taken over."""
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
    version = _text("/etc/debian_version")
    return version if version[:1].isdigit() else _release().get("VERSION_ID", "")


def _identity() -> dict[str, object]:
    """Return the fact about the effective user; ``user`` is the number as text if it has no name, as in a container."""
    uid = os.geteuid()
    return {"uid": uid, "gid": os.getegid(), "user": user_name(uid), "privileged": uid == 0}


def networking() -> dict[str, object]:
    """Return the fact ``networking``: host names, all interfaces, and the addresses of the primary one.

    The primary interface is the first with an IPv4 address that is not ``lo``.
    """
    import socket  # 3 ms for this fact alone

    hostname, _, domain = socket.gethostname().partition(".")
    domain = domain or socket.getfqdn().partition(".")[2]
    addresses = interfaces()
    candidates = (families for name, families in addresses.items() if name != "lo" and "ip" in families)
    primary = next(candidates, addresses.get("lo", {}))
    fqdn = f"{hostname}.{domain}" if domain else hostname
    return {"hostname": hostname, "domain": domain, "fqdn": fqdn, "interfaces": addresses, **primary}


def interfaces() -> dict[str, dict[str, str]]:
    """Return the addresses (``ip``, ``ip6``, ``mac``) of each interface: at most one of each family.

    ``ip`` is the primary IPv4 address; ``ip6`` is chosen by ``version_6_addresses``. An interface without any is left
    out.
    """
    import socket

    version_6 = version_6_addresses(_text("/proc/net/if_inet6"))
    addresses = {}
    for _, name in socket.if_nameindex():
        mac = _text(f"/sys/class/net/{name}/address")
        families = {"ip": _version_4_address(name), "ip6": version_6.get(name, ""), "mac": mac}
        if present := {family: address for family, address in families.items() if address}:
            addresses[name] = present
    return addresses


def _version_4_address(interface: str) -> str:
    """Return the primary IPv4 address of an interface, or "". The kernel returns it for the name (netdevice(7))."""
    import socket

    request = struct.pack("256s", os.fsencode(interface)[:_LONGEST_NAME])
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, request)[_ADDRESS])
    return ""


def version_6_addresses(table: str) -> dict[str, str]:
    """Return an IPv6 address per interface from the ``table`` in ``/proc/net/if_inet6``.

    Of more than one address the one with the widest scope is chosen (0 is global), then a permanent one, then the
    smallest number, so that the fact is the same in each run.
    """
    addresses: dict[str, list[tuple[int, bool, int]]] = {}
    for line in table.splitlines():
        address, _, _, scope, flags, name = line.split()
        is_temporary = bool(int(flags, 16) & (TEMPORARY | DEPRECATED | _TENTATIVE))
        addresses.setdefault(name, []).append((int(scope, 16), is_temporary, int(address, 16)))
    return {name: str(IPv6Address(min(candidates)[2])) for name, candidates in addresses.items()}


def processors() -> dict[str, object]:
    """Return the fact ``processors``: the numbers of processors and of cores, at least 1, and the instruction set."""
    import glob

    # Processors of one core have the same list of siblings.
    cores = {_text(f"{path}/core_cpus_list") or _text(f"{path}/thread_siblings_list") for path in glob.iglob(_CORES)}
    return {"count": os.cpu_count() or 1, "physicalcount": len(cores - {""}) or 1, "isa": os.uname().machine}


def memory() -> dict[str, object]:
    """Return the fact ``memory``: the sizes of the memory and of the swap space in bytes."""
    sizes = {"MemTotal": 0, "SwapTotal": 0}
    for line in _text("/proc/meminfo").splitlines():
        name, _, size = line.partition(":")
        if name in sizes:
            sizes[name] = int(size.split()[0]) * 1024  # the kernel's are in kibibytes
    return {"system": {"total_bytes": sizes["MemTotal"]}, "swap": {"total_bytes": sizes["SwapTotal"]}}


def _text(path: str) -> str:
    """Return the stripped text of a file, or "" if it cannot be read: the fact is empty then, and no run fails."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


_FACTS: Final[Mapping[str, Callable[[], object]]] = {
    "os": _os,
    "kernel": lambda: os.uname().sysname,
    "kernelrelease": lambda: os.uname().release,
    "identity": _identity,
    "python": lambda: {"version": ".".join(map(str, sys.version_info[:3]))},
    "networking": networking,
    "processors": processors,
    "memory": memory,
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
        """Return one fact, read at its first use in a run. Raise ``KeyError`` for an unknown name."""
        if name not in self._values:
            self._values[name] = _FACTS[name]()
        return self._values[name]

    def names(self) -> list[str]:
        """Return the names of all facts, sorted."""
        return sorted(_FACTS)


@cache
def machine_id() -> str:
    """Return an identity of this machine, for state and schedules, that does not disclose its machine id.

    It is a digest of the id, which is confidential (machine-id(5)), or of the host name without one.
    """
    identifiers = filter(None, map(_text, ("/etc/machine-id", "/var/lib/dbus/machine-id")))
    identifier = next(identifiers, os.uname().nodename)
    return blake2b(identifier.encode(), key=b"resource-api", digest_size=16).hexdigest()
