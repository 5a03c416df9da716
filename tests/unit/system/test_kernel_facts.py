"""Facts without psutil are those that psutil has."""

from __future__ import annotations

import socket
import sys

import psutil
import pytest

from resource_api.system import facts, kernel_facts


def test_interfaces_have_the_addresses_that_psutil_finds() -> None:
    """Each interface has an address of each family, one of those that it has."""
    known: dict[str, dict[str, set[str]]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        for each in addresses:
            family = {socket.AF_INET: "ip", socket.AF_INET6: "ip6"}.get(each.family, "mac")
            known.setdefault(name, {}).setdefault(family, set()).add(each.address.partition("%")[0])
    found = kernel_facts.interfaces()
    assert {name: set(entry) for name, entry in found.items()} == {name: set(entry) for name, entry in known.items()}
    assert all(address in known[name][family] for name, entry in found.items() for family, address in entry.items())


def test_processors_and_memory_are_those_of_psutil() -> None:
    """Counts and bytes are equal."""
    assert kernel_facts.processors() == (psutil.cpu_count(), psutil.cpu_count(logical=False))
    assert kernel_facts.memory() == (psutil.virtual_memory().total, psutil.swap_memory().total)


@pytest.mark.parametrize("name", ["networking", "processors", "memory"])
def test_a_fact_is_the_same_without_psutil(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that refers to it means the same on a host that has only this package."""
    before = facts.Facts()[name]
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert facts.Facts()[name] == before


def test_the_host_is_what_an_inventory_says_and_this_machine_otherwise() -> None:
    """``${host.name}`` has a meaning everywhere."""
    given = {"name": "web1", "groups": ["web"], "address": "10.0.0.1"}
    assert facts.Facts(given).host == given
    assert facts.Facts().host == {"name": socket.gethostname(), "groups": [], "address": socket.gethostname()}
