"""Facts about network, processors and memory as the kernel has them, for hosts without psutil. Linux only.

From proc(5), sysfs(5) and netdevice(7); the values are those that psutil returns.
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
_CORES: Final = "/sys/devices/system/cpu/cpu[0-9]*/topology"


def interfaces() -> dict[str, dict[str, str]]:
    """Return the first address of each family (``ip``, ``ip6``, ``mac``) of each interface."""
    found: dict[str, dict[str, str]] = {}
    of_version_6 = _version_6_addresses()
    for _, name in socket.if_nameindex():
        addresses = {"ip": _version_4_address(name), "ip6": of_version_6.get(name, ""), "mac": _hardware_address(name)}
        if present := {family: address for family, address in addresses.items() if address}:
            found[name] = present
    return found


def processors() -> tuple[int, int]:
    """Return how many processors there are, and how many cores; at least one of each."""
    places = glob.iglob(_CORES)  # noqa: PTH207 - pathlib costs more
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
    import fcntl  # noqa: PLC0415 - only for this fact

    request = struct.pack("256s", os.fsencode(name)[:_LONGEST_NAME])
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        return socket.inet_ntoa(fcntl.ioctl(anything, _SIOCGIFADDR, request)[_ADDRESS])
    return ""


def _version_6_addresses() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _text("/proc/net/if_inet6").splitlines():
        address, *_, name = line.split()
        found.setdefault(name, str(IPv6Address(int(address, 16))))
    return found


def _hardware_address(name: str) -> str:
    return _text(f"/sys/class/net/{name}/address").strip()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib costs more
            return file.read().strip()
    except OSError:
        return ""
