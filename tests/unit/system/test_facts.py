"""Facts of the kernel are those that psutil finds."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import psutil

from resource_api.system import facts

if TYPE_CHECKING:
    import pytest


def test_interfaces_have_the_addresses_that_psutil_finds() -> None:
    """Each interface has an address of each family, one of those that it has."""
    declared: dict[str, dict[str, set[str]]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        for item in addresses:
            family = {socket.AF_INET: "ip", socket.AF_INET6: "ip6"}.get(item.family, "mac")
            declared.setdefault(name, {}).setdefault(family, set()).add(item.address.partition("%")[0])
    interfaces = facts.interfaces()
    assert {name: set(entry) for name, entry in interfaces.items()} == {
        name: set(entry) for name, entry in declared.items()
    }
    assert all(
        address in declared[name][family] for name, entry in interfaces.items() for family, address in entry.items()
    )


def test_processors_and_memory_are_those_of_psutil() -> None:
    """Counts and bytes are equal."""
    counts = facts.processors()
    assert (counts["count"], counts["physicalcount"]) == (psutil.cpu_count(), psutil.cpu_count(logical=False))
    assert facts.memory() == {
        "system": {"total_bytes": psutil.virtual_memory().total},
        "swap": {"total_bytes": psutil.swap_memory().total},
    }


def test_the_ipv6_address_is_a_lasting_one_of_the_widest_scope() -> None:
    """One of the link, a temporary or a deprecated one only where there is no other; the least of several."""
    lines = [
        ("fe80000000000000000000fffe000001", 0x20, 0x80, "eth0"),
        ("fd000000000000000000000000000001", 0x00, facts.TEMPORARY, "eth0"),
        ("fd000000000000000000000000000003", 0x00, 0x80, "eth0"),
        ("fd000000000000000000000000000002", 0x00, 0x82, "eth0"),
        ("fe80000000000000000000fffe000002", 0x20, 0x80, "eth1"),
        ("fd000000000000000000000000000004", 0x00, facts.DEPRECATED, "eth2"),
        ("fe80000000000000000000fffe000003", 0x20, 0x80, "eth2"),
    ]
    table = "".join(f"{address} 02 40 {scope:02x} {flags:02x} {name}\n" for address, scope, flags, name in lines)
    assert facts.version_6_addresses(table) == {
        "eth0": "fd00::2",
        "eth1": "fe80::ff:fe00:2",
        "eth2": "fd00::4",
    }


def test_a_user_without_a_name_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, processes may run as a user that no account has."""
    monkeypatch.setattr(os, "geteuid", lambda: 2147483646)
    assert facts.Facts()["identity"] == {
        "uid": 2147483646,
        "gid": os.getegid(),
        "user": "2147483646",
        "privileged": False,
    }


def test_the_host_is_what_an_inventory_says_and_this_machine_otherwise() -> None:
    """``${host.name}`` has a meaning everywhere."""
    arguments = {"name": "web1", "groups": ["web"], "address": "10.0.0.1"}
    assert facts.Facts(arguments).host == arguments
    assert facts.Facts().host == {"name": socket.gethostname(), "groups": [], "address": socket.gethostname()}
