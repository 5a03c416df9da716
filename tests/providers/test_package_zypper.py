"""Packages built for the tests and installed by the real zypper, in a mount namespace with a database of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.providers.applied import reason, run, warned


@pytest.fixture
def _machine(rpm_packages: Path) -> None:
    """Have zypper use the repository of the tests alone."""
    path = Path("/etc/zypp/repos.d")
    path.mkdir(parents=True, exist_ok=True)
    text = f"[ra-test]\nname=x\nbaseurl=file://{rpm_packages}/repository\ngpgcheck=0\nautorefresh=1\nenabled=1\n"
    (path / "ra-test.repo").write_text(text)


def wanted(**packages: Any) -> dict[str, Any]:
    """Return packages that zypper manages, by name with ``_`` for ``-``."""
    return {
        f"Package[{name.replace('_', '-')}]": {**(body if isinstance(body, dict) else {"ensure": body})}
        | {"implementation": "zypper"}
        for name, body in packages.items()
    }


def installed() -> list[str]:
    """Return what rpm has in its database."""
    return sorted(subprocess.run(["rpm", "-qa"], check=True, capture_output=True, text=True).stdout.split())


def locks() -> str:
    """Return what is locked."""
    file = Path("/etc/zypp/locks")
    return file.read_text() if file.exists() else ""


@pytest.mark.usefixtures("_machine")
def test_zypper_installs_changes_holds_and_removes() -> None:
    """A version, an older one, the newest; a hold that a declaration overrides; two at once; then nothing to do."""
    for ensure, version in (("1.1-1", "1.1-1"), ("1.0-1", "1.0-1"), ("latest", "1.1-1")):
        packages = wanted(ra_Test=ensure, ra_other="present")
        noop = run(packages, noop=True)[0]
        assert noop.summary.created + noop.summary.updated > 0
        report, _ = run(packages)
        assert report.exit_code == 0, [step.error for step in report.steps]
        assert installed() == [f"ra-Test-{version}.noarch", "ra-other-2.0-1.noarch"]
        assert run(packages)[0].summary.unchanged == len(packages)
    held = wanted(ra_Test={"ensure": "1.0-1", "mark": "hold"})
    assert run(wanted(ra_Test="latest"))[0].summary.unchanged == 1
    for packages in (held, wanted(ra_Test="1.1-1"), held):
        report, lines = run(packages)
        assert report.summary.updated == 1, lines
        assert run(packages)[0].summary.unchanged == 1
        assert "solvable_name: ra-Test" in locks()
    assert run(wanted(ra_Test="latest"))[0].summary.unchanged == 1  # zypper has no update for what is locked
    assert run(wanted(ra_Test={"mark": "none"}))[0].summary.updated == 1
    assert "ra-Test" not in locks()
    gone = wanted(ra_Test="absent")
    assert run(gone)[0].summary.deleted == 1
    assert run(gone)[0].summary.unchanged == 1
    assert installed() == ["ra-other-2.0-1.noarch"]


@pytest.mark.usefixtures("_machine")
def test_held_packages_change_in_one_call_with_different_options() -> None:
    """The lock of each is removed before, though each option takes a call of zypper of its own."""
    held = wanted(ra_Test={"ensure": "1.0-1", "mark": "hold"}, ra_other={"ensure": "present", "mark": "hold"})
    assert run(held)[0].exit_code == 0
    changed = wanted(ra_Test={"ensure": "1.1-1", "install_options": ["--no-recommends"]}, ra_other="absent")
    report, lines = run(changed)
    assert (report.exit_code, [line for line in lines if line.startswith("warning")]) == (0, [])
    assert installed() == ["ra-Test-1.1-1.noarch"]
    assert "solvable_name: ra-Test" in locks()


@pytest.mark.usefixtures("_machine")
def test_what_zypper_cannot_install_is_said() -> None:
    """A package that no repository has, in the plan; a version that none has, with what zypper says."""
    assert warned(wanted(ra_missing="present")) == ["zypper knows no package 'ra-missing'"]
    unknown = reason(run(wanted(ra_Test="9.9-1"))[0])
    assert "'zypper install' would fail: Package 'ra-Test=9.9-1' not found." in unknown
    assert "ra-Test=9.9-1" in unknown


@pytest.mark.usefixtures("_machine")
def test_a_killed_zypper_is_no_obstacle() -> None:
    """What it has left as its lock belongs to no process any more."""
    Path("/run/zypp.pid").write_text("999999999\n")
    try:
        assert run(wanted(ra_other="present"))[0].summary.created == 1
    finally:
        Path("/run/zypp.pid").unlink(missing_ok=True)
