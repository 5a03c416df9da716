"""Parameters of the real kernel, in a network namespace of the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.applied import REGISTRY, converge, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the kernel"),
    pytest.mark.usefixtures("private_system"),
]

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
RESERVED = FORWARD.with_name("ip_local_reserved_ports")
FILE = Path("/etc/sysctl.d/99-resource-api.conf")
OTHERS = b"; ours\n# by hand\n-net.ipv4.ip_forward=1\nnet/ipv4/tcp_syncookies  =  1\nnonsense"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Restore the kernel's values and the files."""
    before = {path: path.read_text() for path in (FORWARD, *FORWARD.parent.glob("tcp_[frs]*"), RESERVED)}
    yield
    for path, text in before.items():
        if path.read_text() != text:
            path.write_text(text)
    FILE.unlink(missing_ok=True)


def test_a_parameter_is_set_in_the_kernel_and_in_a_file() -> None:
    """A second run changes nothing; a removed entry leaves the kernel as it is."""
    declared = {"Sysctl[net.ipv4.ip_forward]": {"value": 1}, "Sysctl[net/ipv4/tcp_rmem]": {"value": "4096\t8192 16384"}}
    assert run(declared)[0].summary.created == 2
    assert FORWARD.read_text() == "1\n"
    assert FORWARD.with_name("tcp_rmem").read_text() == "4096\t8192\t16384\n"
    assert FILE.read_text() == "net.ipv4.ip_forward = 1\nnet.ipv4.tcp_rmem = 4096 8192 16384\n"
    assert run(declared)[0].summary.unchanged == 2
    assert run({"Sysctl[net.ipv4.ip_forward]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert (FORWARD.read_text(), FILE.read_text()) == ("1\n", "net.ipv4.tcp_rmem = 4096 8192 16384\n")
    assert run({"Sysctl[net.ipv4.tcp_rmem]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert not FILE.exists()


@pytest.mark.parametrize(
    ("name", "value", "live", "drift"),
    [
        ("ip_local_reserved_ports", "8080,8081,9000", "8080-8081,9000", "8080"),
        ("ip_local_reserved_ports", "9000,8000-8010,8005-8020", "8000-8020,9000", "8000-8021,9000"),
        ("tcp_fastopen", "0x3", "3", "1"),
        ("tcp_retries2", "014", "12", "14"),
        ("tcp_rmem", "0x1000 010000 4096", "4096 4096 4096", "4096 4096 4097"),
    ],
)
def test_a_value_may_be_spelled_as_the_kernel_does_not_show_it(name: str, value: str, live: str, drift: str) -> None:
    """It is set, the next plan is empty, and another value is drift."""
    path = FORWARD.with_name(name)
    declared = {f"Sysctl[net.ipv4.{name}]": {"value": value}}
    converge(declared)
    assert path.read_text().split() == live.split()
    path.write_text(drift)
    assert run(declared)[0].summary.updated == 1
    assert path.read_text().split() == live.split()


def test_a_drifted_value_of_the_running_kernel_is_set_again() -> None:
    """With a message that tells it from a changed file; ``apply: false`` leaves the kernel alone."""
    FORWARD.write_text("0\n")
    later = {"Sysctl[net.ipv4.ip_forward]": {"value": 1, "apply": False}}
    assert run(later)[0].summary.created == 1
    assert FORWARD.read_text() == "0\n"
    assert run(later)[0].summary.unchanged == 1
    lines = run({"Sysctl[net.ipv4.ip_forward]": {"value": 1}})[1]
    assert "notice: Sysctl[net.ipv4.ip_forward]: value: changed from 0 to 1 in the running kernel" in lines
    assert FORWARD.read_text() == "1\n"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("net.ipv4.ip_forward", "maybe", "the kernel does not accept 'maybe' for it: invalid argument"),
        ("net.ipv4.no_such_thing", 1, "the running kernel has no such parameter"),
    ],
)
def test_what_the_kernel_refuses_is_not_written(name: str, value: Any, reason: str) -> None:
    """The other parameters of the call are."""
    report, _ = run(
        {f"Sysctl[{name}]": {"value": value}, "Sysctl[net.ipv4.ip_forward]": {"value": 1}}
        | ({f"Sysctl[{name}]": {"value": value}})
    )
    assert [step.error for step in report.steps if step.error] == [reason]
    assert name not in FILE.read_text() if FILE.exists() else True


def test_lines_of_others_stay_and_the_last_entry_counts(tmp_path: Path) -> None:
    """Comments, odd spacing and a missing last newline too."""
    path = tmp_path / "x.conf"
    path.write_bytes(OTHERS)
    declared = {"target": str(path), "value": 0}
    run({"Sysctl[a]": {**declared, "name": "net.ipv4.ip_forward", "apply": False}})
    assert path.read_bytes() == OTHERS.replace(b"-net.ipv4.ip_forward=1", b"net.ipv4.ip_forward = 0")
    run({"Sysctl[a]": {"name": "net.ipv4.ip_forward", "target": str(path), "ensure": "absent"}})
    assert path.read_bytes() == OTHERS.replace(b"-net.ipv4.ip_forward=1\n", b"")


def test_a_file_that_is_not_read_when_the_machine_starts_is_a_warning_of_the_plan() -> None:
    """By its name, or because a file of the same name in an earlier directory takes its place."""
    declared = {"name": "net.ipv4.ip_forward", "value": 1}
    end = "is not read when the machine starts"
    assert warned({"Sysctl[a]": {**declared, "target": "/etc/sysctl.d/10-a"}}) == [
        f"/etc/sysctl.d/10-a {end}: its name does not end with .conf"
    ]
    FILE.with_name("10-a.conf").write_text("")
    assert warned({"Sysctl[a]": {**declared, "target": "/usr/lib/sysctl.d/10-a.conf"}}) == [
        f"/usr/lib/sysctl.d/10-a.conf {end}: /etc/sysctl.d/10-a.conf takes its place"
    ]
    FILE.with_name("10-a.conf").unlink()


def test_a_file_that_is_read_later_is_a_warning_of_the_plan() -> None:
    """As is a parameter that the kernel lacks."""
    later = FILE.with_name("99-z.conf")
    later.write_text("net.ipv4.ip_forward = 0\n")
    result = warned({"Sysctl[net.ipv4.ip_forward]": {"value": 1}})
    later.unlink()
    assert result == [f"{later} comes after {FILE} and sets it to '0' when the machine starts"]
    assert warned({"Sysctl[no.such]": {"value": 1}}) == [
        "the running kernel has no such parameter; its module may not be loaded"
    ]


def test_a_machine_may_lack_the_directory() -> None:
    """As a new Debian does: nothing is listed, and a plan names the missing part."""
    away = FILE.parent.rename(FILE.parent.with_name("sysctl.away"))
    try:
        listed = Runtime(REGISTRY, log=Log("off")).resources("sysctl")
        result = warned({"Sysctl[net.ipv4.ip_forward]": {"value": 1}})
    finally:
        away.rename(FILE.parent)
    assert (listed, result) == ([], ["the directory '/etc/sysctl.d' does not exist"])


def test_a_parameter_that_can_only_be_written_is_set_once() -> None:
    """It cannot be compared."""
    declared = {"Sysctl[net.ipv4.route.flush]": {"value": 1}}
    assert run(declared)[0].exit_code == 0
    assert run(declared)[0].summary.unchanged == 1


@pytest.mark.parametrize("bad", ["x", "a..b", "a/../../etc/passwd", "a./b", "/a/b", "a.b\n", "a b.c", "a.*", ""])
def test_a_hostile_name_is_refused(bad: str) -> None:
    """It is no path out of /proc/sys, no glob, no second line."""
    with pytest.raises(ManifestError):
        run({"Sysctl[x.y]": {"name": bad, "value": 1}})


@pytest.mark.parametrize("bad", ["1\nkernel.sysrq = 1", "", " ", "\x00"])
def test_a_value_is_one_line(bad: str) -> None:
    """It cannot add an entry."""
    with pytest.raises(ManifestError):
        run({"Sysctl[net.ipv4.ip_forward]": {"value": bad}})


class TestSysctl(ProviderCompliance):
    """A parameter of several numbers, in a file with other content."""

    type_name = "sysctl"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        (tmp_path / "ra-test.conf").write_bytes(OTHERS)
        return {"name": "net/ipv4/tcp_rmem", "target": f"{tmp_path}/ra-test.conf", "value": "4096 \t 8192 16384"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "value": "4096 8192 32768"}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [{**present, "name": "net.ipv4.tcp_wmem"}, {**present, "name": "net.ipv4.tcp_syn_retries", "value": 5}]

    @pytest.fixture
    def world(self, present: Resource) -> Callable[[], Any]:
        return lambda: (Path(present["target"]).read_bytes(), FORWARD.with_name("tcp_rmem").read_text())

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a target in a directory of another user."""
        directory = directory_of_nobody(tmp_path)
        mine = {**present, "target": str(directory / "x.conf")}
        return [
            Neighbour(
                mine["target"], b"net.ipv4.tcp_rmem = 1 1 1\n" * 2, "nobody", [mine, {**mine, "ensure": "absent"}]
            )
        ]
