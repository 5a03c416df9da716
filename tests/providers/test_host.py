"""Hosts in private files, and once in /etc/hosts as the resolver reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Change, Context, Runtime
from resource_api.files import Lines
from resource_api.plugins.module_path import PACKAGE
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.namespaces import bind, private_mounts
from tests.providers.applied import converge, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api import Resource

TYPE = Registry.from_path().type("host")
host = bundled.execute("providers", "host")
PEOPLE = b"""# caf\xe9
127.0.0.1 localhost   me\t# this machine

::1  localhost ip6-localhost
10.0.0.1\tdb # first
10.0.0.2\tdb
10.0.0.2\tdb
nonsense
"""


def read(target: Path | str, *names: str) -> dict[str, dict[str, Any]]:
    """Return the hosts of a file by name."""
    rows = host.Provider().get(None, [(name, str(target)) for name in names or ("any",)])
    return {row["name"]: row for row in rows}


def write(target: Path | str, *expected: Mapping[str, Any]) -> None:
    """Apply changes to hosts and check that the result is as declared."""
    provider, is_ = host.Provider(), read(target)
    resources = [{"ensure": "present", "target": str(target), **should} for should in expected]
    names = {(should["name"], should["target"]): should for should in provider.canonicalize(None, resources)}
    context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name[0]) for name in names})
    with context.activate(provider):
        provider.set(context, {name: Change(is_.get(name[0]), should) for name, should in names.items()})
    after = read(target)
    for (name, _), should in names.items():
        row = after.get(name, {**should, "ensure": "absent"})
        assert {key: row[key] for key in should} == should


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return a file with comments and odd spacing."""
    path = tmp_path / "hosts"
    path.write_bytes(PEOPLE)
    return path


def test_a_host_is_created_changed_and_deleted_without_a_trace(hosts: Path) -> None:
    """All other lines keep their bytes, the file its mode and owner."""
    hosts.chmod(0o640)
    os.chown(hosts, 65534, 65534)
    web = {"name": "web", "ip": "10.0.0.5", "host_aliases": ["www", "w"], "comment": " the # one "}
    write(hosts, web)
    assert hosts.read_bytes() == PEOPLE + b"10.0.0.5\tweb www w\t# the # one\n"
    write(hosts, {"name": "web", "ip": "2001:DB8:0::1", "host_aliases": []})
    assert hosts.read_bytes() == PEOPLE + b"2001:db8::1\tweb\t# the # one\n"
    write(hosts, {"name": "web", "comment": ""})
    assert hosts.read_bytes() == PEOPLE + b"2001:db8::1\tweb\n"
    write(hosts, {"name": "web", "ensure": "absent"})
    assert hosts.read_bytes() == PEOPLE
    status = hosts.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 65534, 65534)


def test_the_first_line_of_a_name_counts_and_absent_removes_all(hosts: Path) -> None:
    """The resolver uses the first line too."""
    assert read(hosts)["localhost"] == {
        "ensure": "present",
        "name": "localhost",
        "target": str(hosts),
        "ip": "127.0.0.1",
        "host_aliases": ["me"],
        "comment": "this machine",
        "other_family": {"name": "localhost", "ip": "::1", "host_aliases": ["ip6-localhost"], "comment": ""},
    }
    write(hosts, {"name": "db", "ip": "10.0.0.9"})
    assert hosts.read_bytes() == PEOPLE.replace(b"10.0.0.1\tdb # first", b"10.0.0.9\tdb\t# first")
    write(hosts, {"name": "db", "ensure": "absent"})
    assert hosts.read_bytes() == b"".join(line for line in PEOPLE.splitlines(keepends=True) if b"\tdb" not in line)


#: getaddrinfo(3) sorts addresses; gethostbyname(3) returns them in the order of the file.
FIRST_OF_FILE = """
import ctypes, socket, sys
class Host(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("aliases", ctypes.c_void_p), ("family", ctypes.c_int),
        ("length", ctypes.c_int), ("addresses", ctypes.POINTER(ctypes.POINTER(ctypes.c_char * 4)))]
ask = ctypes.CDLL(None).gethostbyname
ask.restype = ctypes.POINTER(Host)
print(socket.inet_ntoa(bytes(ask(sys.argv[1].encode()).contents.addresses[0].contents)), end="")
"""


def resolved(directory: Path, content: bytes, name: str, ip: str) -> str:
    """Return the first address of a family that the resolver of this machine finds in a file of hosts."""
    path = directory / "private hosts"
    path.write_bytes(content)
    with private_mounts():
        bind(path, "/etc/hosts")
        question = ["getent", "ahostsv6"] if ":" in ip else [sys.executable, "-c", FIRST_OF_FILE]
        process = subprocess.run([*question, name], capture_output=True, text=True, check=True)
    return process.stdout.partition(" ")[0]


#: The content before, what is declared, the content after.
COUNTING: dict[str, tuple[bytes, dict[str, Any], bytes]] = {
    "true already for IPv4": (
        b"::1 localhost ip6-localhost\n127.0.0.1 localhost\n",
        {"name": "localhost", "ip": "127.0.0.1"},
        b"::1 localhost ip6-localhost\n127.0.0.1 localhost\n",
    ),
    "true already for IPv6": (
        b"127.0.0.1 localhost\n0:0::1\tLocalHost # six\n",
        {"name": "localhost", "ip": "::1"},
        b"127.0.0.1 localhost\n0:0::1\tLocalHost # six\n",
    ),
    "another address of the family": (
        b"::1 localhost\n127.0.0.2 localhost\n",
        {"name": "localhost", "ip": "127.0.0.1"},
        b"::1 localhost\n127.0.0.1\tlocalhost\n",
    ),
    "another case": (
        b"10.0.0.1 DB.Example.ORG Db # main\n",
        {"name": "db.example.org", "ip": "10.0.0.2"},
        b"10.0.0.2\tDB.Example.ORG Db\t# main\n",
    ),
    "another case of all": (
        b"10.0.0.1 DB.Example.ORG Db\n",
        {"name": "Db.example.org", "ip": "10.0.0.1", "host_aliases": ["DB"]},
        b"10.0.0.1 DB.Example.ORG Db\n",
    ),
    "an alias above": (
        b"127.0.0.1 localhost\n127.0.1.1 web.example.org web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"127.0.0.1 localhost\n10.0.0.5\tweb\n127.0.1.1 web.example.org web\n",
    ),
    "an alias above a line": (
        b"127.0.1.1 own WEB\n# main\n10.0.0.5 web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"10.0.0.5 web\n127.0.1.1 own WEB\n# main\n",
    ),
    "an alias of the other family above": (
        b"2001:db8::9 own web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"2001:db8::9 own web\n10.0.0.5\tweb\n",
    ),
    "the other loopback address above": (
        b"::1 own web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"10.0.0.5\tweb\n::1 own web\n",
    ),
    "a mapped address above": (
        b"::ffff:10.0.0.9 own web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"10.0.0.5\tweb\n::ffff:10.0.0.9 own web\n",
    ),
    "an alias with the same address above": (
        b"10.0.0.5 own web\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"10.0.0.5 own web\n10.0.0.5\tweb\n",
    ),
    "an alias that is declared": (
        b"10.0.0.1 own www\n10.0.0.5 web www\n",
        {"name": "web", "ip": "10.0.0.5", "host_aliases": ["www"]},
        b"10.0.0.5 web www\n10.0.0.1 own www\n",
    ),
    "an alias that is not declared": (
        b"10.0.0.1 own www\n10.0.0.5 web www\n",
        {"name": "web", "ip": "10.0.0.5"},
        b"10.0.0.1 own www\n10.0.0.5 web www\n",
    ),
    "an address in another spelling": (
        b"2001:DB8:0:0::0001 web\n",
        {"name": "web", "ip": "2001:db8::1"},
        b"2001:DB8:0:0::0001 web\n",
    ),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file over /etc/hosts")
@pytest.mark.parametrize(("before", "declared", "after"), COUNTING.values(), ids=COUNTING)
def test_what_is_declared_is_what_the_resolver_finds(
    tmp_path: Path, before: bytes, declared: dict[str, Any], after: bytes
) -> None:
    """The line of the declared family counts; other bytes stay, and the next plan is empty."""
    target = tmp_path / "hosts"
    target.write_bytes(before)
    converge({"Host[h]": {**declared, "target": str(target)}})
    assert target.read_bytes() == after
    for name in (declared["name"], *declared.get("host_aliases", ())):
        result = resolved(tmp_path, after, name, declared["ip"])
        assert ip_address(result) == ip_address(declared["ip"])


def test_the_plan_names_the_line_that_would_count(tmp_path: Path) -> None:
    """For a new line, and for one that is there."""
    target = tmp_path / "hosts"
    target.write_bytes(b"# all\n127.0.1.1 web.example.org web\n")
    declared = {"Host[web]": {"target": str(target), "ip": "10.0.0.5"}}
    text = f"line 2 of {target} gives 'web' the address 127.0.1.1, and comes first"
    assert [item for item in warned(declared) if text in item]
    target.write_bytes(b"# all\n127.0.1.1 web.example.org web\n10.0.0.5 web\n")
    _, logged = run(declared)
    assert any(text in line for line in logged), logged
    assert warned(declared) == []


def test_two_declared_hosts_with_one_alias_fail(tmp_path: Path) -> None:
    """The resolver takes the first line, so only one of them can be as declared."""
    target = str(tmp_path / "hosts")
    hosts = {"Host[a]": {"ip": "10.0.0.1"}, "Host[b]": {"ip": "10.0.0.2"}}
    report, _ = run({title: {**host, "target": target, "host_aliases": ["www"]} for title, host in hosts.items()})
    assert sorted(step.status for step in report.steps) == ["failed", "success"]


def test_all_changes_of_a_file_are_one_rewrite(hosts: Path) -> None:
    """A thousand hosts create one new inode."""
    inodes = {hosts.stat().st_ino}
    write(hosts, *({"name": f"n{number}", "ip": f"10.1.{number // 250}.{number % 250}"} for number in range(1000)))
    inodes.add(hosts.stat().st_ino)
    assert len(inodes) == 2
    assert len(hosts.read_bytes().splitlines()) == len(PEOPLE.splitlines()) + 1000


def test_nothing_is_written_when_nothing_differs(hosts: Path) -> None:
    """Inode and times stay, and odd spacing too."""
    before = hosts.stat()
    write(hosts, {"name": "localhost", "ip": "127.0.0.1"}, {"name": "absent", "ensure": "absent"})
    after = hosts.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_missing_file_is_created_readable_for_all(tmp_path: Path) -> None:
    """Every program reads it."""
    write(tmp_path / "new", {"name": "web", "ip": "10.0.0.5"})
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_a_file_is_the_same_in_each_spelling_of_its_path(tmp_path: Path) -> None:
    """And one whose directory is missing is reported by the plan."""
    write(tmp_path / "hosts", {"name": "web", "ip": "10.0.0.5"})
    other = {"Host[web]": {"target": f"{tmp_path}//./hosts", "ip": "10.0.0.5"}}
    assert run(other)[0].summary.unchanged == 1
    missing = {"Host[web]": {"target": f"{tmp_path}/none/hosts", "ip": "10.0.0.5"}}
    assert f"the directory '{tmp_path}/none' does not exist" in warned(missing)


def test_the_resolver_finds_a_host_of_etc_hosts(tmp_path: Path) -> None:
    """The test uses a private /etc/hosts in a mount namespace."""
    program = f"""
import socket, sys
sys.path.insert(0, {PACKAGE.rpartition("/")[0]!r})
from resource_api import Change
from tests import bundled
provider = bundled.execute("providers", "host").Provider()
should = {{"ensure": "present", "name": "ra-test.example", "ip": "192.0.2.7", "host_aliases": ["ra-test-alias"]}}
provider.set(None, {{("ra-test.example", "/etc/hosts"): Change(None, should)}})
assert "ra-test.example" in {{row["name"] for row in provider.get(None)}}
sys.stdout.write(socket.gethostbyname("ra-test-alias"))
"""
    upper, work = tmp_path / "upper", tmp_path / "work"
    script = (
        f"set -e; mount -t tmpfs ra-test {tmp_path}; mkdir {upper} {work}\n"
        f"mount -t overlay ra-test -o lowerdir=/etc,upperdir={upper},workdir={work} /etc\n"
        f'exec {sys.executable} -c "$1"'
    )
    process = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", program], capture_output=True, text=True, check=False
    )
    assert (process.stdout, process.stderr) == ("192.0.2.7", "")


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    """What was declared is read back."""
    target = str(tmp_path / "hosts")
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    manifest = {
        "project": "ra-test",
        "resources": {
            "Host[web.example]": {"target": target, "ip": "2001:DB8:0::1", "comment": " x "},
            "Host[other]": {"target": target, "name": "db", "ip": "10.0.0.1", "host_aliases": ["b", "a"]},
        },
    }
    assert runtime.apply(manifest).summary.created == 2
    assert {step.action for step in runtime.plan(manifest).steps} == {"same"}


@pytest.mark.parametrize(
    "value", ["a\nb", "a\n", "a\r", "a\x00", "a#b", "a b", "a\tb", "", "a/b", "a\x1b[2J", "\u2028"]
)
def test_a_name_cannot_contain_separators(value: str) -> None:
    """The data types refuse line breaks, comments, blanks and control characters."""
    assert not TYPE.accepts["name"](value)
    assert not TYPE.accepts["host_aliases"](["a", value])
    assert not TYPE.accepts["ip"](value)


@pytest.mark.parametrize("value", ["a\n127.0.0.1 bank.example", "a\r", "\x00", "\x1b[2J"])
def test_a_comment_stays_on_its_line(value: str) -> None:
    """It may contain everything but a line break."""
    assert not TYPE.accepts["comment"](value)
    assert TYPE.accepts["comment"]("caf\u00e9 #1\t: ok")


@pytest.mark.parametrize(
    ("line", "ip"),
    [
        ("0:0:0::0001", "::1"),
        ("::1", "0:0::0001"),
        ("2001:DB8::A", "2001:db8:0::a"),
        ("::FFFF:10.0.0.9", "::ffff:a00:9"),
    ],
)
def test_an_address_is_the_same_in_each_spelling(tmp_path: Path, line: str, ip: str) -> None:
    """Nothing is written where the file has another one."""
    file = tmp_path / "hosts"
    file.write_text(f"{line} ra-test\n")
    resources = {f"Host[ra-test {file}]": {"ip": ip}}
    assert Runtime(Registry.from_path(), log=Log("off")).apply({"resources": resources}).summary.unchanged == 1
    assert file.read_text() == f"{line} ra-test\n"


@pytest.mark.parametrize("ip", ["1.2.3", "1.2.3.256", "01.2.3.4", ":::", "12345::", "1.2.3.4%eth0", "face"])
def test_an_invalid_address_is_refused_with_a_message(ip: str) -> None:
    """It is refused before anything is changed."""
    (problem,) = host.Provider().validate(None, {"ip": ip})
    assert problem.attribute == "ip"
    assert ip in problem.message


NAMES = st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True)
COMMENT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]))
HOSTS = st.fixed_dictionaries(
    {"name": NAMES, "ip": st.ip_addresses().map(str), "host_aliases": st.lists(NAMES), "comment": COMMENT}
)
LINE = st.sampled_from([*PEOPLE.split(b"\n"), b"1.1.1.1 a\r", b"\r", b"1.1.1.1 \xff", b"# 1.1.1.1 a"])
FILES = st.one_of(st.binary(), st.lists(LINE).map(b"\n".join), st.lists(LINE).map(b"\r\n".join))


@given(FILES, HOSTS)
def test_an_added_host_is_read_back_and_removed_without_a_trace(content: bytes, should: dict[str, Any]) -> None:
    """It holds for any file, and a second edit changes nothing."""
    (should,) = host.Provider().canonicalize(None, [should])
    name = should["name"] = f"{should['name']}.ra-test"
    file = Lines(content)
    host.edit(file, {name: should})
    added = file.content
    assert [result for line in file if (result := host.parse_line(line)) and result["name"] == name] == [should]
    host.edit(file, {name: should})
    assert file.content == added
    host.edit(file, {name: None})
    assert file.content == content


@pytest.mark.usefixtures("private_etc")
def test_a_resolver_that_does_not_read_the_file_is_reported_by_the_plan() -> None:
    """By nsswitch.conf(5), whose comments count for nothing."""
    switch, declared = Path("/etc/nsswitch.conf"), {"Host[ra-test.example]": {"ip": "192.0.2.1"}}
    switch.write_text("hosts: dns # files\n")
    assert warned(declared) == ["/etc/nsswitch.conf has no 'files' for hosts: programs do not read /etc/hosts"]
    switch.write_text("hosts:\tfiles dns\n")
    assert warned(declared) == []


class TestHost(ProviderCompliance):
    """A host in a file with other content."""

    type_name = "host"

    @pytest.fixture
    def present(self, hosts: Path) -> Resource:
        return {"name": "ra-test-a", "target": str(hosts), "ip": "2001:DB8:0::1", "host_aliases": ["b", "a"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "ip": "10.0.0.9"}

    @pytest.fixture
    def world(self, hosts: Path) -> Callable[[], Any]:
        return hosts.read_bytes

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a target in a directory of another user."""
        directory = directory_of_nobody(tmp_path)
        mine = {**present, "target": str(directory / "hosts")}
        records = b"192.0.2.6 ra-test-a evil.example\n" * 2
        return [Neighbour(mine["target"], records, "nobody", [mine, {**mine, "ensure": "absent"}])]
