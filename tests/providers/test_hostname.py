"""The name of the machine, in a UTS namespace of the tests."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root names the machine"),
    pytest.mark.usefixtures("private_system"),
]

FILE = Path("/etc/hostname")


@pytest.fixture(autouse=True)
def _named() -> Iterator[None]:
    """Give the machine a name."""
    socket.sethostname("ra-test")
    FILE.write_text("# this machine\nra-test\n")
    yield
    assert not FILE.is_symlink()


def test_the_file_and_the_kernel_get_the_name() -> None:
    """Comments stay; a second run changes nothing."""
    declared = {"Hostname[system]": {"hostname": "web1.example.org"}}
    assert run(declared)[0].summary.updated == 1
    assert (socket.gethostname(), FILE.read_text()) == ("web1.example.org", "# this machine\nweb1.example.org\n")
    assert run(declared)[0].summary.unchanged == 1


@pytest.mark.parametrize("part", ["kernel", "file", "no file"])
def test_drift_of_either_is_mended(part: str) -> None:
    """The message says which of them."""
    if part == "kernel":
        socket.sethostname("other")
    elif part == "file":
        FILE.write_text("other\n")
    else:
        FILE.unlink()
    _, lines = run({"Hostname[system]": {"hostname": "ra-test"}})
    assert any("in the running kernel" in line for line in lines) is (part == "kernel"), lines
    assert (socket.gethostname(), FILE.read_text().splitlines()[-1]) == ("ra-test", "ra-test")


@pytest.mark.parametrize("bad", ["", "-a", "a-", "a b", "a\nb", "a..b", "a.-b", ".a", "a.", "é", "a" * 65, "a_b"])
def test_an_invalid_name_is_refused(bad: str) -> None:
    """Before anything is changed."""
    with pytest.raises(ManifestError):
        run({"Hostname[system]": {"hostname": bad}})


def test_there_is_one_such_resource() -> None:
    """Another title is a mistake that is explained."""
    with pytest.raises(ManifestError, match="system"):
        run({"Hostname[web1]": {"hostname": "web1"}})


class TestHostname(ProviderCompliance):
    """The name is changed and restored."""

    type_name = "hostname"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "system", "hostname": "ra-test-a"}

    @pytest.fixture
    def updated(self) -> Resource:
        return {"name": "system", "hostname": "RA-test-b.example"}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return []

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return FILE.read_bytes

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes /etc/hostname"
