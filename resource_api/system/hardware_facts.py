"""Read facts about network, processors and memory from the kernel's files. Linux only.

Sources are proc(5), sysfs(5) and netdevice(7). No library is needed, so hosts of ``--on`` have the same facts.
"""

from __future__ import annotations

import fcntl
import glob
import os
import socket
import struct
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Final

#: The request for the IPv4 address of an interface, and the position of the address in the answer (netdevice(7)).
_SIOCGIFADDR: Final = 0x8915
_ADDRESS: Final = slice(20, 24)
_LONGEST_NAME: Final = 15
#: Flags of an IPv6 address (linux/if_addr.h): a temporary, deprecated or tentative address is the last choice.
TEMPORARY: Final = 0x01
DEPRECATED: Final = 0x20
_TENTATIVE: Final = 0x40
_CORES: Final = "/sys/devices/system/cpu/cpu[0-9]*/topology"


def networking() -> dict[str, object]:
    """Return the fact: names, all ``interfaces``, and the addresses of the first one with IPv4, ``lo`` last."""
    hostname, _, domain = socket.gethostname().partition(".")
    domain = domain or socket.getfqdn().partition(".")[2]
    addresses = interfaces()
    candidates = (families for name, families in addresses.items() if name != "lo" and "ip" in families)
    primary = next(candidates, addresses.get("lo", {}))
    fqdn = f"{hostname}.{domain}" if domain else hostname
    return {"hostname": hostname, "domain": domain, "fqdn": fqdn, "interfaces": addresses, **primary}


def interfaces() -> dict[str, dict[str, str]]:
    """Return the addresses (``ip``, ``ip6``, ``mac``) of each interface: at most one of each family.

    ``ip`` is the primary IPv4 address; ``ip6`` is chosen by ``version_6_addresses``.
    """
    version_6 = version_6_addresses(_text("/proc/net/if_inet6"))
    addresses = {}
    for _, name in socket.if_nameindex():
        mac = _text(f"/sys/class/net/{name}/address")
        families = {"ip": _version_4_address(name), "ip6": version_6.get(name, ""), "mac": mac}
        if present := {family: address for family, address in families.items() if address}:
            addresses[name] = present
    return addresses


def _version_4_address(interface: str) -> str:
    """Return the primary IPv4 address of an interface, or ""."""
    request = struct.pack("256s", os.fsencode(interface)[:_LONGEST_NAME])
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, request)[_ADDRESS])
    return ""


def version_6_addresses(table: str) -> dict[str, str]:
    """Return an IPv6 address per interface from the text of ``/proc/net/if_inet6``.

    An address of the widest scope is preferred, then a permanent one, then the numerically smallest.
    """
    addresses: dict[str, list[tuple[int, bool, int]]] = {}
    for line in table.splitlines():
        address, _, _, scope, flags, name = line.split()
        is_passing = bool(int(flags, 16) & (TEMPORARY | DEPRECATED | _TENTATIVE))
        addresses.setdefault(name, []).append((int(scope, 16), is_passing, int(address, 16)))
    return {name: str(IPv6Address(min(candidates)[2])) for name, candidates in addresses.items()}


def processors() -> dict[str, object]:
    """Return the fact: the numbers of processors and of cores, each at least 1, and the machine's instruction set."""
    directories = glob.iglob(_CORES)
    # Processors of one core have the same list of siblings.
    cores = {_text(f"{path}/core_cpus_list") or _text(f"{path}/thread_siblings_list") for path in directories}
    return {"count": os.cpu_count() or 1, "physicalcount": len(cores - {""}) or 1, "isa": os.uname().machine}


def memory() -> dict[str, object]:
    """Return the fact: the sizes of the memory and of the swap space in bytes."""
    sizes = {"MemTotal": 0, "SwapTotal": 0}
    for line in _text("/proc/meminfo").splitlines():
        name, _, size = line.partition(":")
        if name in sizes:
            sizes[name] = int(size.split()[0]) * 1024
    return {"system": {"total_bytes": sizes["MemTotal"]}, "swap": {"total_bytes": sizes["SwapTotal"]}}


def _text(path: str) -> str:
    """Return the stripped text of a file, or "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
