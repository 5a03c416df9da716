"""Real file systems in memory and bind mounts, in a mount namespace of the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import converge, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts"),
    pytest.mark.usefixtures("private_system"),
]

FSTAB = Path("/etc/fstab")
OTHERS = b"""# /etc/fstab \xe9
UUID=1  /  ext4  errors=remount-ro 0       1
/dev/swap none swap sw 0 0
tmpfs /not/mounted tmpfs
//server/a\\040b /mnt/a\\040b cifs noauto 0 0"""
SMALL = {"device": "tmpfs", "fstype": "tmpfs", "options": "size=64k"}


@pytest.fixture(autouse=True)
def fstab() -> Iterator[Path]:
    """Give the machine entries of its own."""
    before = mounts()
    FSTAB.write_bytes(OTHERS)
    yield FSTAB
    for mount in reversed(mounts()[len(before) :]):
        subprocess.run(["umount", "-l", mount], check=True)


@pytest.fixture
def mount_point(tmp_path: Path) -> Path:
    """Return a mount point whose name needs an escape."""
    (tmp_path / "a b").mkdir()
    return tmp_path / "a b"


def mounts() -> list[str]:
    """Return the mount points, in order."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    return [line.split()[4].replace("\\040", " ") for line in lines]


def options(path: Path) -> str:
    """Return the options of what is mounted there, as a program of the system shows them."""
    process = subprocess.run(["findmnt", "-nro", "OPTIONS", str(path)], check=False, capture_output=True, text=True)
    return process.stdout.strip()


def test_a_file_system_is_mounted_and_has_an_entry(mount_point: Path, fstab: Path) -> None:
    """mount(8) reads the same entry; a second run changes nothing; absent leaves no trace."""
    name = f"Mount[{mount_point}]"
    assert run({name: SMALL})[0].summary.created == 1
    assert "size=64k" in options(mount_point)
    line = f"\ntmpfs\t{mount_point}\ttmpfs\tsize=64k\t0\t0".replace("a b", "a\\040b")
    assert fstab.read_bytes() == OTHERS + line.encode()
    assert run({name: SMALL})[0].summary.unchanged == 1
    subprocess.run(["umount", mount_point], check=True)
    subprocess.run(["mount", mount_point], check=True)
    assert run({name: {"ensure": "absent"}})[0].summary.deleted == 1
    assert (str(mount_point) in mounts(), fstab.read_bytes()) == (False, OTHERS)


@pytest.mark.parametrize("spelling", ["{}/", "/{}", "{}//", "/.{}"])
def test_an_entry_in_another_spelling_is_the_entry(mount_point: Path, fstab: Path, spelling: str) -> None:
    """It is read, listed and left as it is, changed in its line, and removed."""
    written = spelling.format(str(mount_point).replace(" ", "\\040"))
    line = f"tmpfs  {written} tmpfs size=64k".encode()
    fstab.write_bytes(OTHERS + b"\n" + line + b"\n# end\n")
    subprocess.run(["mount", mount_point], check=True)
    name = f"Mount[{mount_point}]"
    assert run({name: SMALL})[0].summary.unchanged == 1
    assert fstab.read_bytes() == OTHERS + b"\n" + line + b"\n# end\n"
    assert run({name: {**SMALL, "options": "size=128k"}})[0].summary.updated == 1
    assert fstab.read_bytes().count(b"size=") == 1
    assert run({name: {"ensure": "absent"}})[0].summary.deleted == 1
    assert fstab.read_bytes() == OTHERS + b"\n# end\n"


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        ('UUID="1234-AB"', "UUID=1234-AB"),
        ("uuid=1234-AB", 'UUID="1234-AB"'),
        ('LABEL="a\\040b"', "LABEL=a b"),
        ("/dev//sdz1", "/dev/sdz1"),
        ("//server/share", "//server/share"),
    ],
)
def test_a_device_in_another_spelling_is_the_device(
    mount_point: Path, fstab: Path, written: str, declared: str
) -> None:
    """Nothing is to be changed."""
    line = f"{written} {mount_point}\tauto noauto\n".replace("a b\t", "a\\040b\t").encode()
    fstab.write_bytes(line)
    assert run({f"Mount[{mount_point}]": {"ensure": "present", "device": declared}})[0].summary.unchanged == 1
    assert fstab.read_bytes() == line


def test_a_file_can_be_mounted_over_a_file(tmp_path: Path) -> None:
    """The plan does not miss a directory."""
    (tmp_path / "source").write_text("x")
    (tmp_path / "file").touch()
    declared = {f"Mount[{tmp_path}/file]": {"device": str(tmp_path / "source"), "fstype": "none", "options": "bind"}}
    assert warned(declared) == []
    converge(declared)
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize(
    ("first", "then", "mounted"),
    [
        ("mounted", "unmounted", False),
        ("mounted", "present", True),
        ("mounted", "defined", True),
        ("unmounted", "present", False),
        ("unmounted", "mounted", True),
        ("present", "mounted", True),
    ],
)
def test_a_state_leads_to_another(mount_point: Path, first: str, then: str, *, mounted: bool) -> None:
    """What is only present stays as it is."""
    name = f"Mount[{mount_point}]"
    run({name: {**SMALL, "ensure": first}})
    run({name: {"ensure": then}})
    assert (str(mount_point) in mounts()) is mounted
    assert run({name: {**SMALL, "ensure": then}})[0].summary.unchanged == 1


def test_changed_options_remount_and_a_changed_device_mounts_anew(mount_point: Path, tmp_path: Path) -> None:
    """Files survive the first, not the second; ``remounts: false`` never remounts."""
    name = f"Mount[{mount_point}]"
    run({name: SMALL})
    (mount_point / "file").touch()
    run({name: {**SMALL, "options": "size=128k,nosuid"}})
    assert (mount_point / "file").exists()
    assert {"size=128k", "nosuid"} <= set(options(mount_point).split(","))
    run({name: {**SMALL, "remounts": False}})
    assert not (mount_point / "file").exists()
    assert "nosuid" not in options(mount_point)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "there").touch()
    run({name: {"device": str(tmp_path / "source"), "fstype": "none", "options": "bind"}})
    assert (mount_point / "there").exists()
    assert mounts().count(str(mount_point)) == 1


def test_drift_is_mended(mount_point: Path, fstab: Path) -> None:
    """Somebody has unmounted it, or removed the entry."""
    name = f"Mount[{mount_point}]"
    run({name: SMALL})
    subprocess.run(["umount", mount_point], check=True)
    assert run({name: SMALL})[0].summary.updated == 1
    fstab.write_bytes(OTHERS)
    _, lines = run({name: SMALL})
    assert any("has no entry in /etc/fstab" in line for line in lines), lines
    assert fstab.read_bytes() != OTHERS
    assert mounts().count(str(mount_point)) == 1


def test_what_is_mounted_by_hand_is_unmounted_where_it_is_to_be_absent(mount_point: Path) -> None:
    """Without an entry too, and all layers of it."""
    for _ in range(2):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mount_point], check=True)
    assert run({f"Mount[{mount_point}]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert str(mount_point) not in mounts()


def test_what_cannot_be_mounted_or_unmounted_keeps_its_entry_as_it_was(mount_point: Path, fstab: Path) -> None:
    """A failed mount has no entry, and a busy one keeps it."""
    report, _ = run({f"Mount[{mount_point}]": {"device": "/dev/ra-test-none", "fstype": "ext4"}})
    assert "/dev/ra-test-none" in reason(report)
    assert fstab.read_bytes() == OTHERS
    run({f"Mount[{mount_point}]": SMALL})
    before = fstab.read_bytes()
    with (mount_point / "open").open("w"):
        assert "busy" in reason(run({f"Mount[{mount_point}]": {"ensure": "absent"}})[0])
    assert fstab.read_bytes() == before


def test_only_blanks_and_tabs_separate_the_fields_of_an_entry(tmp_path: Path, fstab: Path) -> None:
    """Other white space is a part of a name, and written as it is."""
    name = tmp_path / "a\u00a0b\u2003c"
    converge({f"Mount[{name}]": {**SMALL, "ensure": "unmounted"}})
    assert f"tmpfs\t{name}\ttmpfs\tsize=64k\t0\t0" in fstab.read_text("utf-8", "surrogateescape").split("\n")


def test_an_entry_without_a_device_is_reported_by_the_plan(mount_point: Path) -> None:
    """As the run would."""
    message = "it has no entry in /etc/fstab: declare its device"
    declared = {f"Mount[{mount_point}]": {"ensure": "mounted", "fstype": "tmpfs"}}
    assert (warned(declared), reason(run(declared)[0])) == ([message], message)


def test_the_mount_point_is_no_place_of_another_user(tmp_path: Path, mount_point: Path) -> None:
    """A link is not followed, and nothing is mounted where others could put one."""
    link, shared = tmp_path / "link", tmp_path / "shared"
    link.symlink_to(mount_point)
    message = f"it is reached through a symbolic link; declare {mount_point}"
    assert (warned({f"Mount[{link}]": SMALL}), reason(run({f"Mount[{link}]": SMALL})[0])) == ([message], message)
    (shared / "point").mkdir(parents=True)
    shared.chmod(0o777)
    assert "other users can write" in reason(run({f"Mount[{shared}/point]": SMALL})[0])
    assert "other users can write" in "".join(warned({f"Mount[{shared}/point]": SMALL}))
    assert warned({f"Mount[{tmp_path}/none]": SMALL}) == [f"the directory '{tmp_path}/none' does not exist"]


def test_a_refresh_remounts(mount_point: Path, tmp_path: Path) -> None:
    """With the options of the entry."""
    resources = {
        f"Mount[{mount_point}]": {**SMALL, "subscribe": f"File[{tmp_path}/f]"},
        f"File[{tmp_path}/f]": {"content": "1"},
    }
    run(resources)
    subprocess.run(["mount", "-o", "remount,ro,size=256k", mount_point], check=True)
    resources[f"File[{tmp_path}/f]"]["content"] = "2"
    _, lines = run(resources)
    assert f"notice: Mount[{mount_point}]: Remounted" in lines
    assert "size=64k" in options(mount_point)


@pytest.mark.parametrize(
    "bad",
    [{"name": "x"}, {"name": "/a\nb"}, {"device": "a\nb"}, {"device": " "}, {"options": "a\n"}, {"fstype": "a b"}],
)
def test_hostile_values_are_refused(bad: dict[str, Any]) -> None:
    """No value adds a line or an option of a program."""
    with pytest.raises(ManifestError):
        run({"Mount[/mnt]": {**SMALL, **bad}})


class TestMount(ProviderCompliance):
    """A file system in memory."""

    type_name = "mount"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        for number in ("", "-2", "-3"):
            (tmp_path / f"ra-test{number}").mkdir()
        return {"name": f"{tmp_path}//ra-test/", **SMALL}

    @pytest.fixture
    def others(self, tmp_path: Path) -> list[Resource]:
        return [{"name": f"{tmp_path}/ra-test{number}", **SMALL} for number in ("-2", "-3")]

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "options": "size=128k", "pass": 2}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: (FSTAB.read_bytes(), mounts())

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes /etc/fstab, and mounts"


def test_what_is_declared_below_a_mount_keeps_it_mounted(mount_point: Path) -> None:
    """Unmounting would put it out of reach; the directory itself stays where it is."""
    run({f"Mount[{mount_point}]": SMALL})
    unmounted = {f"Mount[{mount_point}]": {"ensure": "absent"}}
    report, _ = run({**unmounted, f"File[{mount_point}/x]": {"content": "a"}})
    reason = {str(step.reference): step.error for step in report.steps}[f"Mount[{mount_point}]"]
    assert (
        f"would also hide File[{mount_point}/] and all below it, which File[{mount_point}/x] declares as present"
        in reason
    )
    assert str(mount_point) in mounts()
    report, _ = run({**unmounted, f"File[{mount_point}]": {"ensure": "directory"}})
    assert [step.error for step in report.steps if step.error] == []
    assert str(mount_point) not in mounts()
