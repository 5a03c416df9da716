"""The time zone of the machine, in a copy of /etc, as the C library and date(1) see it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes /etc"),
    pytest.mark.usefixtures("private_system"),
]

LINK, FILE = Path("/etc/localtime"), Path("/etc/timezone")


@pytest.fixture(autouse=True)
def _zone() -> None:
    """Let the zone be UTC."""
    LINK.unlink(missing_ok=True)
    LINK.symlink_to("/usr/share/zoneinfo/Etc/UTC")
    FILE.write_text("Etc/UTC\n")


def date() -> str:
    """Return the abbreviation that a program shows."""
    return subprocess.run(["date", "+%Z"], check=True, capture_output=True, text=True).stdout.strip()


def test_programs_see_the_zone() -> None:
    """A second run changes nothing."""
    declared = {"Timezone[system]": {"zone": "Asia/Tokyo"}}
    assert run(declared)[0].summary.updated == 1
    assert (date(), FILE.read_text()) == ("JST", "Asia/Tokyo\n")
    assert run(declared)[0].summary.unchanged == 1


@pytest.mark.parametrize("subject", ["no link", "a copy", "a relative link", "the file", "no file"])
def test_what_an_administrator_may_leave_is_mended(subject: str) -> None:
    """A relative link names the same zone; a file /etc/timezone is not created."""
    if subject == "the file":
        FILE.write_text("Europe/Berlin\n")
    elif subject == "no file":
        FILE.unlink()
    else:
        LINK.unlink()
    if subject == "a copy":
        LINK.write_bytes(Path("/usr/share/zoneinfo/Asia/Tokyo").read_bytes())
    elif subject == "a relative link":
        LINK.symlink_to("../usr/share/zoneinfo/Etc/UTC")
    changed = run({"Timezone[system]": {"zone": "Etc/UTC"}})[0].summary.updated
    assert changed == (subject in {"no link", "a copy", "the file"})
    assert (date(), FILE.exists() and FILE.read_text()) == ("UTC", subject != "no file" and "Etc/UTC\n")


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "zone", "Europe"])
def test_a_zone_that_does_not_exist_is_not_set(zone: str) -> None:
    """The plan says so already."""
    declared = {"Timezone[system]": {"zone": zone}}
    message = f"/usr/share/zoneinfo has no time zone '{zone}'"
    assert warned(declared) == [message]
    assert reason(run(declared)[0]) == message
    assert str(LINK.readlink()) == "/usr/share/zoneinfo/Etc/UTC"


@pytest.mark.parametrize("bad", ["", "/etc/passwd", "../../../etc/passwd", "Europe/../UTC", "a b", "UTC\n", "a//b"])
def test_a_hostile_zone_is_refused(bad: str) -> None:
    """It leads nowhere else."""
    with pytest.raises(ManifestError):
        run({"Timezone[system]": {"zone": bad}})


class TestTimezone(ProviderCompliance):
    """The zone is changed and restored."""

    type_name = "timezone"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "system", "zone": "Europe/Berlin"}

    @pytest.fixture
    def updated(self) -> Resource:
        return {"name": "system", "zone": "America/Argentina/Buenos_Aires"}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return []

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: (LINK.readlink(), FILE.read_bytes())

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes /etc/localtime and /etc/timezone"
