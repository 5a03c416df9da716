"""Facts about network, processors and memory, read from the files of the kernel. Linux only.

From proc(5), sysfs(5) and netdevice(7). No library is needed, so a host of ``--on`` has the same facts.
"""

from __future__ import annotations

import glob
import os
import socket
import struct
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Final

#: The request for the IPv4 address of an interface, and where it stands in the answer (netdevice(7)).
_SIOCGIFADDR: Final = 0x8915
_ADDRESS: Final = slice(20, 24)
_LONGEST_NAME: Final = 15
#: Flags of an IPv6 address (linux/if_addr.h): one that is temporary, deprecated or not usable yet is the last choice.
TEMPORARY: Final = 0x01
DEPRECATED: Final = 0x20
_TENTATIVE: Final = 0x40
_CORES: Final = "/sys/devices/system/cpu/cpu[0-9]*/topology"


def interfaces() -> dict[str, dict[str, str]]:
    """Return one address of each family (``ip``, ``ip6``, ``mac``) of each interface.

    ``ip`` is its primary address; ``ip6`` a lasting one of the widest scope, the least of several.
    """
    found: dict[str, dict[str, str]] = {}
    of_version_6 = version_6_addresses(_text("/proc/net/if_inet6"))
    for _, name in socket.if_nameindex():
        addresses = {"ip": _version_4_address(name), "ip6": of_version_6.get(name, ""), "mac": _hardware_address(name)}
        if present := {family: address for family, address in addresses.items() if address}:
            found[name] = present
    return found


def processors() -> tuple[int, int]:
    """Return how many processors there are, and how many cores; at least one of each."""
    places = glob.iglob(_CORES)
    cores = {_text(f"{path}/core_cpus_list") or _text(f"{path}/thread_siblings_list") for path in places}
    return os.cpu_count() or 1, len(cores - {""}) or 1


def memory() -> tuple[int, int]:
    """Return the bytes of the memory and of the swap space."""
    sizes = {"MemTotal": 0, "SwapTotal": 0}
    for line in _text("/proc/meminfo").splitlines():
        name, _, size = line.partition(":")
        if name in sizes:
            sizes[name] = int(size.split()[0]) * 1024
    return sizes["MemTotal"], sizes["SwapTotal"]


def _version_4_address(name: str) -> str:
    import fcntl

    request = struct.pack("256s", os.fsencode(name)[:_LONGEST_NAME])
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        return socket.inet_ntoa(fcntl.ioctl(anything, _SIOCGIFADDR, request)[_ADDRESS])
    return ""


def version_6_addresses(table: str) -> dict[str, str]:
    """Return the IPv6 address of each interface in ``/proc/net/if_inet6``: lasting, of the widest scope, the least."""
    known: dict[str, list[tuple[int, bool, int]]] = {}
    for line in table.splitlines():
        address, _, _, scope, flags, name = line.split()
        passing = bool(int(flags, 16) & (TEMPORARY | DEPRECATED | _TENTATIVE))
        known.setdefault(name, []).append((int(scope, 16), passing, int(address, 16)))
    return {name: str(IPv6Address(min(addresses)[2])) for name, addresses in known.items()}


def _hardware_address(name: str) -> str:
    return _text(f"/sys/class/net/{name}/address").strip()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
