"""The laws of names of hosts: ranges, selections, and names folded back."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.fleet import host_names

NO_RANGE: Final = "is no range; write [1:50], [01:20], [a:c] or [1,3,7:9]"
#: Names with numbers and letters side by side, leading zeros, long numbers and none.
NAMES: Final = st.from_regex(r"[a-z0-9.-]{0,3}[0-9]{0,3}[a-z.-]{0,2}(0|[0-9]{1,2}|[0-9]{10})?", fullmatch=True).filter(
    bool
)
BLOCKS: Final = st.builds(
    lambda prefix, low, count, width: [f"{prefix}{n:0{width}}" for n in range(low, low + count)],
    st.sampled_from(["web", "db-", "r1n", ""]),
    st.integers(0, 120),
    st.integers(1, 40),
    st.integers(1, 4),
)


@given(st.lists(st.one_of(NAMES.map(lambda name: [name]), BLOCKS), max_size=8))
def test_folded_names_expand_to_the_same_names_each_once(blocks: list[list[str]]) -> None:
    """Whatever the names are: none is lost, none is added, none comes twice."""
    names = list(dict.fromkeys(name for block in blocks for name in block))
    expanded = [name for pattern in host_names.fold(names) for name in host_names.expand(pattern)]
    assert sorted(expanded) == sorted(names)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("web1", ["web1"]),
        ("web[1:3]", ["web1", "web2", "web3"]),
        ("db[a:c]", ["dba", "dbb", "dbc"]),
        ("r[01:02]n[1:2]", ["r01n1", "r01n2", "r02n1", "r02n2"]),
        ("web[8:11]", ["web8", "web9", "web10", "web11"]),
        ("web[08:11]", ["web08", "web09", "web10", "web11"]),
        ("web[2,5:6]", ["web2", "web5", "web6"]),
    ],
)
def test_a_range_stands_for_its_names(pattern: str, names: list[str]) -> None:
    """Both ends are included, in this order, with their leading zeros."""
    assert host_names.expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("web[1:50", "'web[1:50': a bracket has no counterpart; a range is written as web[1:50]"),
        ("web1]", "'web1]': a bracket has no counterpart; a range is written as web[1:50]"),
        ("web[]", f"'web[]': '[]' {NO_RANGE}"),
        ("web[1-5]", f"'web[1-5]': '[1-5]' {NO_RANGE}"),
        ("[::1]", f"'[::1]': '[::1]' {NO_RANGE}; an IPv6 address is written without brackets"),
        ("web[5:1]", "'web[5:1]': '5:1' ends before it begins"),
        ("web[c:a]", "'web[c:a]': 'c:a' ends before it begins"),
        ("web[1:c]", "'web[1:c]': the ends of '1:c' are of two sorts"),
        ("web[a:C]", "'web[a:C]': the ends of 'a:C' are of two sorts"),
        ("web[1:05]", "'web[1:05]': write both ends of '1:05' with as many digits"),
        ("web[1:999999999]", "'web[1:999999999]' has more than 200,000 hosts"),
        ("a" * 256, f"'{'a' * 40}…' has a name of more than 255 characters"),
        ("w[1:999]x[1:999]", "'w[1:999]x[1:999]' has more than 200,000 hosts"),
    ],
)  # fmt: skip
def test_a_wrong_range_says_what_is_wrong(pattern: str, reason: str) -> None:
    """The message names the range, and how it is written."""
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        host_names.expand(pattern)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([f"web{n}" for n in range(1, 51) if n != 18], ["web[1:17,19:50]"]),
        ([f"r{r:02}n{n}" for r in range(1, 21) for n in range(1, 5)], ["r[01:20]n[1:4]"]),
        (["web1.example.org", "web2.example.org", "db1"], ["web[1:2].example.org", "db1"]),
        (["z", "a2", "a1"], ["z", "a[1:2]"]),
        ([f"web-{n}{zone}" for n in (1, 2) for zone in "abc"], ["web-[1:2][a:c]"]),
        (["r1n", "r1Z", "r1a", "r1b", "r12"], ["r1[Z,a:b,n]", "r12"]),
        (["w1", "h1", "a", "b", "dba", "dbb"], ["w1", "h1", "a", "b", "dba", "dbb"]),
    ],
)
def test_names_are_folded_as_people_write_them(names: list[str], patterns: list[str]) -> None:
    """In the order of the first name of each pattern."""
    assert host_names.fold(names) == patterns


HOSTS: Final = {"web": ["web1", "web2", "web3"], "old": ["web2", "db1"], "db": ["db1"]}


@pytest.mark.parametrize(
    ("location", "result"),
    [
        ("web", ["web1", "web2", "web3"]),
        ("db,web", ["db1", "web1", "web2", "web3"]),
        ("web,web2", ["web1", "web2", "web3"]),
        ("web,!web2", ["web1", "web3"]),
        ("!web2", ["web1", "web3", "db1"]),
        ("web&old", ["web2"]),
        ("web&!old", ["web1", "web3"]),
        ("old & web , db", ["web2", "db1"]),
        ("web[1:2],x[1,3]", ["web1", "web2", "x1", "x3"]),
        ("!old,web", ["web1", "web3"]),
        ("db,!db1", []),
    ],
)
def test_a_selection_is_a_set_in_order(location: str, result: list[str]) -> None:
    """Doubles fall away; what is excluded is excluded wherever it is named."""

    def find(name: str) -> list[str]:
        return HOSTS.get(name) or host_names.expand(name)

    assert host_names.select(host_names.split(location), find, ["web1", "web2", "web3", "db1"]) == result


def test_the_names_of_a_selection_are_counted_together() -> None:
    """Many ranges, each of which is allowed, are not expanded for ever."""
    with pytest.raises(ValueError, match="more than 200,000 hosts are named"):
        host_names.select(host_names.split("a[1:150000]," * 10_000), host_names.expand, [])


@pytest.mark.parametrize("location", ["", "web,", "web&", "!", "a&!"])
def test_a_missing_name_is_an_error(location: str) -> None:
    """Between commas and beside every sign stands a name."""
    with pytest.raises(ValueError, match="a name is missing"):
        host_names.select(host_names.split(location), lambda name: [name], [])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("web1", ("web1", None, None)),
        ("admin@web1:2222", ("web1", "admin", 2222)),
        ("10.0.0.9:22", ("10.0.0.9", None, 22)),
        ("fe80::1%eth0", ("fe80::1%eth0", None, None)),
        ("root@::1", ("::1", "root", None)),
    ],
)
def test_an_address_has_a_user_and_a_port(name: str, parts: tuple[str, str | None, int | None]) -> None:
    """Both are optional; a text with several colons has no port."""
    assert host_names.address(name) == parts


@pytest.mark.parametrize(
    "name", ["web1:0", "web1:70000", "web1:00000199999", "web1:ssh", "-oProxyCommand=x", "a b", "a@b@c", "web1\n", ""]
)
def test_what_can_be_no_host_is_refused(name: str) -> None:
    """Above all what a program would take for an option."""
    with pytest.raises(ValueError, match=r"can be no host|a port is a number"):
        host_names.address(name)
