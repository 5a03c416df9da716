"""Files of the resolver: private ones, and /etc/resolv.conf as the C library reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.applied import converge, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes /etc"),
    pytest.mark.usefixtures("private_system"),
]

OTHERS = b"""# by hand \xe9
sortlist 192.0.2.0/24
 nameserver 192.0.2.9
nameserver\t192.0.2.1  ignored
domain old.example
options rotate
; last
options ndots:2
nameserver 192.0.2.2"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with comments and odd spacing."""
    (tmp_path / "resolv.conf").write_bytes(OTHERS)
    return tmp_path / "resolv.conf"


@pytest.mark.parametrize(
    ("declared", "old", "new"),
    [
        ({"nameservers": ["192.0.2.1", "192.0.2.2"]}, b"", b""),
        ({"nameservers": ["2001:DB8::0:1"]}, b"nameserver\t192.0.2.1  ignored", b"nameserver 2001:db8::1"),
        ({"search": ["a.example", "b"]}, b"domain old.example", b"search a.example b"),
        ({"search": []}, b"domain old.example\n", b""),
        ({"options": ["rotate", "ndots:2"]}, b"", b""),
        ({"search": ["old.example"]}, b"", b""),
        ({"options": []}, b"options rotate\n; last\noptions ndots:2\n", b"; last\n"),
    ],
)
def test_other_lines_stay(path: Path, declared: dict[str, Any], old: bytes, new: bytes) -> None:
    """Byte by byte; a line that begins with a blank is none of ours."""
    run({f"Resolver[{path}]": declared})
    expected = OTHERS.replace(old, new) if old else OTHERS
    if len(declared.get("nameservers", ["", ""])) < 2:
        expected = expected.removesuffix(b"\nnameserver 192.0.2.2")
    assert path.read_bytes() == expected
    assert run({f"Resolver[{path}]": declared})[0].summary.unchanged == 1


def test_the_c_library_asks_the_declared_server() -> None:
    """And reads the options, of a file that did not exist."""
    target = Path("/etc/resolv.conf")
    target.unlink(missing_ok=True)
    run({f"Resolver[{target}]": {"nameservers": ["192.0.2.7"], "options": ["timeout:1", "attempts:1"]}})
    assert target.read_text() == "nameserver 192.0.2.7\noptions timeout:1 attempts:1\n"
    traced = ("strace", "-f", "-e", "trace=connect", "getent", "ahosts", "ra-test.example")
    process = subprocess.run(traced, check=False, capture_output=True, text=True)
    assert 'sin_addr=inet_addr("192.0.2.7")' in process.stderr


def test_a_link_of_another_program_is_replaced_and_that_of_an_administrator_followed(path: Path) -> None:
    """What a program writes into /run would win."""
    run_file = Path("/run/ra-test-resolv.conf")
    run_file.write_text("nameserver 192.0.2.3\n")
    link = path.with_name("link")
    try:
        link.symlink_to(run_file)
        declared = {f"Resolver[{link}]": {"nameservers": ["192.0.2.3"]}}
        _, lines = run(declared)
        assert any("changed from a link to /run/ra-test-resolv.conf to a file" in line for line in lines), lines
        assert (link.is_symlink(), link.read_text()) == (False, run_file.read_text())
        link.unlink()
        link.symlink_to(path)
        assert run({f"Resolver[{link}]": {"search": []}})[0].exit_code == 0
        assert link.is_symlink()
    finally:
        run_file.unlink()


def test_what_is_not_declared_is_taken_over_from_the_file_of_another_program(path: Path) -> None:
    """The search list and the options stay, and the comment that the program manages it goes."""
    run_file, link = Path("/run/ra-test-resolv.conf"), path.with_name("link")
    run_file.write_text(
        "# This is managed by man:systemd-resolved(8). Do not edit.\n\n"
        "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch corp.example\nsortlist 192.0.2.0/24\n"
    )
    link.symlink_to(run_file)
    try:
        converge({f"Resolver[{link}]": {"nameservers": ["192.0.2.3"]}})
        assert not link.is_symlink()
        assert link.read_text() == (
            "nameserver 192.0.2.3\noptions edns0 trust-ad\nsearch corp.example\nsortlist 192.0.2.0/24\n"
        )
    finally:
        run_file.unlink()


@pytest.mark.parametrize(
    "bad",
    [
        {"nameservers": ["1.2.3"]},
        {"nameservers": ["::1\nsearch x"]},
        {"nameservers": ["192.0.2.1"] * 4},
        {"search": ["a b"]},
        {"options": ["x\ny"]},
    ],
)
def test_an_invalid_value_is_refused(path: Path, bad: dict[str, Any]) -> None:
    """Nothing is written."""
    with pytest.raises(ManifestError):
        run({f"Resolver[{path}]": bad})
    assert path.read_bytes() == OTHERS


class TestResolver(ProviderCompliance):
    """A file of its own."""

    type_name = "resolver"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}/ra-test", "nameservers": ["2001:DB8::0:1", "192.0.2.1"], "search": ["example"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "nameservers": [], "options": ["edns0", "ndots:3"]}

    @pytest.fixture
    def world(self, present: Resource) -> Callable[[], Any]:
        return lambda: Path(present["path"]).exists() and Path(present["path"]).read_bytes()

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a file in a directory of another user."""
        mine = {**present, "path": f"{directory_of_nobody(tmp_path)}/resolv.conf"}
        return [Neighbour(mine["path"], b"nameserver 192.0.2.66\n", "nobody", [mine])]
