"""Priorities that the real apt uses, in a mount namespace with private directories of apt."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource
    from resource_api.model.report import RunReport

DIRECTORY: Final = Path("/etc/apt/preferences.d")
RECORD: Final = (
    "Explanation: one\nExplanation: two\nPackage: a  b\nPin: release  n=bookworm,l=Debian\nPin-Priority: 700\n"
)

pytestmark = pytest.mark.usefixtures("private_apt")


def apply(name: str, **attributes: Any) -> RunReport:
    """Apply a manifest of one priority."""
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": {f"Apt_pin[{name}]": attributes}})


def test_apt_chooses_by_the_priority(private_apt: Path) -> None:
    """The older of two versions is the candidate while it is pinned."""
    text = "Package: ra-test\nVersion: {}\nArchitecture: all\nFilename: ./x.deb\nSize: 1\nMaintainer: x\n"
    (private_apt / "Packages").write_text("\n".join(text.format(version) for version in ("1.0", "2.0")))
    Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{private_apt} ./\n")
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    observed = []
    for change in ({}, {"pin": "version 3*"}, {"ensure": "absent"}):
        declared = {"packages": ["ra-test"], "pin": "version 1.*", "priority": 900, **change}
        assert [apply("ra-test", **declared).summary.unchanged for _ in range(2)] == [0, 1]
        policy = subprocess.run(["apt-cache", "policy", "ra-test"], check=True, capture_output=True, text=True).stdout
        observed.append(policy.splitlines()[2].split()[-1])
    assert observed == ["1.0", "2.0", "2.0"]


@pytest.mark.parametrize("file", ["ra-test", "ra-test.pref"])
def test_a_file_of_somebody_else_keeps_what_is_not_declared(file: str) -> None:
    """Its name, its comments, and an explanation of several lines, which is read as one text."""
    text = f"# mine\n\n{RECORD}# end\n"
    (DIRECTORY / file).write_text(text)
    [row] = Runtime(Registry.from_path(), log=Log("off")).resources("apt_pin")
    declared = {"packages": ["a", "b"], "pin": "release n=bookworm,l=Debian", "explanation": "one two", "priority": 700}
    assert row == {"name": "ra-test", "ensure": "present", **declared}
    assert apply("ra-test", **declared).summary.unchanged == 1
    del declared["explanation"]
    assert apply("ra-test", **declared | {"priority": -1}).exit_code == 0
    assert {path.name: path.read_text() for path in DIRECTORY.iterdir()} == {file: text.replace("700", "-1")}
    assert apply("ra-test", **declared | {"explanation": "why"}).exit_code == 0
    assert "# mine\n\nExplanation: why\nPackage: a  b\n" in (DIRECTORY / file).read_text()


def test_a_file_with_several_records_fails_and_stays() -> None:
    """It would be unclear which one is meant."""
    (DIRECTORY / "ra-test").write_text(f"{RECORD}\n{RECORD}")
    report = apply("ra-test", ensure="absent")
    assert "2 paragraphs" in str(report.steps[0].error)
    assert (DIRECTORY / "ra-test").exists()


def test_what_apt_does_not_understand_is_refused_and_another_file_does_not_matter() -> None:
    """The file that apt cannot read already is not held against a new one, which has no fault."""
    declared = {"packages": ["a"], "pin": 'origin ""', "priority": 1}
    (DIRECTORY / "broken").write_text("Package: a\nPin: version 1\n")
    assert [apply("ra-test", **declared).summary.unchanged for _ in range(2)] == [0, 1]
    assert (DIRECTORY / "ra-test.pref").read_text() == 'Package: a\nPin: origin ""\nPin-Priority: 1\n'
    (DIRECTORY / "ra-test-2").write_text("Package: a\nPin: shape 1\nPin-Priority: 1\n")
    assert apply("ra-test-2", **{**declared, "pin": "version 2"}).exit_code == 0
    for wrong in ({"priority": 0}, {"pin": "shape 1"}):
        with pytest.raises(ManifestError):
            apply("ra-test", **declared | wrong)


@pytest.mark.parametrize(
    ("file", "record", "counts"),
    [
        (DIRECTORY / "a", "Package: ra-test b\nPin: version *\nPin-Priority: 700\n", True),
        (
            DIRECTORY / "a.pref",
            "Package: x\nPin: version 9\nPin-Priority: 1\n\nPackage: ra-*\nPin: version 1.*\nPin-Priority: 7\n",
            True,
        ),
        (DIRECTORY.with_name("preferences"), "Package: ra-test\nPin: version *\nPin-Priority: 700\n", True),
        (DIRECTORY / "z", "Package: ra-test\nPin: version *\nPin-Priority: 700\n", False),
        (DIRECTORY / "a.old", "Package: ra-test\nPin: version *\nPin-Priority: 700\n", False),
        (DIRECTORY / "a", "Package: *\nPin: version *\nPin-Priority: 700\n", False),
        (DIRECTORY / "a", "Package: ra-test\nPin: version *\nPin-Priority: 900\n", False),
        (DIRECTORY / "a", "Package: ra-test\nPin: origin b\nPin-Priority: 700\n", False),
    ],
)
def test_an_earlier_record_that_counts_is_named_in_the_plan(
    private_apt: Path, file: Path, record: str, *, counts: bool
) -> None:
    """The first one that matches a version decides, and one for a name before those for all packages."""
    (private_apt / "Packages").write_text(
        "Package: ra-test\nVersion: 1.0\nArchitecture: all\nFilename: ./x.deb\nSize: 1\nMaintainer: x\n"
    )
    Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{private_apt} ./\n")
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    file.write_text(record)
    declared = {"packages": ["ra-test"], "pin": "version 1.*", "priority": 900}
    priority = record.rpartition(" ")[2].strip()
    message = f"{file} comes before it and gives ra-test the priority {priority}, which counts"
    assert warned({"Apt_pin[ra-test]": declared}) == [message] * counts
    apply("ra-test", **declared)
    policy = subprocess.run(["apt-cache", "policy", "ra-test"], check=True, capture_output=True, text=True).stdout
    assert policy.splitlines()[4].split()[1] == (priority if counts else "900")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"packages": ["/(a/"]}, "Invalid regular expression: (a"), ({"packages": ["*"]}, "pin type version")],
)
def test_a_plan_names_the_complaint_of_apt_about_a_priority_before_it_is_written(
    change: dict[str, Any], complaint: str
) -> None:
    """It is an error of the apply, which writes nothing; apt repeats some complaints for each package."""
    declared = {"packages": ["a"], "pin": "version 1", "priority": 700}
    assert warned({"Apt_pin[ra-test]": declared}) == []
    [message] = warned({"Apt_pin[ra-test]": declared | change})
    assert message.count(complaint) == 1, message[:400]
    error = str(apply("ra-test", **declared | change).steps[0].error)
    assert error.count(complaint) == 1, error[:400]
    assert list(DIRECTORY.iterdir()) == []


class TestAptPin(ProviderCompliance):
    """A priority in a file, and similar ones."""

    type_name = "apt_pin"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test", "packages": ["git", "/^linux-/", "git"], "pin": "origin  'x'", "priority": -10}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "pin": "release a=stable, l=x", "explanation": "x  y", "priority": 1001}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [(path.name, path.read_bytes()) for path in sorted(DIRECTORY.iterdir())]

    @pytest.fixture
    def neighbours(self) -> str:
        return "the directories of apt belong to root"
