"""What dnf and zypper do besides: asked before they do it, on a machine with a private database of rpm."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from resource_api import Registry, Runtime
from resource_api.system.log import Log

BIG: Final = "ra-big-with-a-name-that-is-longer-than-a-column-of-a-table-is-wide"


@pytest.fixture(params=["dnf", "zypper"])
def program(request: pytest.FixtureRequest, rpm_packages: Path) -> str:
    """Have one of the programs use the repository of the tests alone, and return its name."""
    source = f"[ra-test]\nname=x\nbaseurl=file://{rpm_packages}/repository\ngpgcheck=0\n"
    Path("/etc/dnf/dnf.conf").write_text(f"[main]\nreposdir={rpm_packages}\nobsoletes=1\n{source}")
    path = Path("/etc/zypp/repos.d")
    path.mkdir(parents=True, exist_ok=True)
    (path / "ra-test.repo").write_text(f"{source}autorefresh=1\nenabled=1\n")
    return str(request.param)


def manifest(program: str, expected: dict[str, str]) -> dict[str, Any]:
    """Return a manifest of packages: name → ``ensure``."""
    return {
        "resources": {
            f"Package[{name}]": {"ensure": ensure, "implementation": program} for name, ensure in expected.items()
        }
    }


def planned(program: str, expected: dict[str, str]) -> dict[str, Any]:
    """Return the side effects of each step of a plan by name, as pairs of action and name."""
    plan = Runtime(Registry.from_path(), log=Log("off")).plan(manifest(program, expected))
    return {
        step["reference"][8:-1]: step["side_effects"]
        and [(side_effect["action"], side_effect["name"]) for side_effect in step["side_effects"]]
        for step in plan.to_dict()["steps"]
    }


def failures(program: str, expected: dict[str, str]) -> list[str]:
    """Apply, and return why steps have failed."""
    report = Runtime(Registry.from_path(), log=Log("off")).apply(manifest(program, expected))
    return [step.error for step in report.steps if step.status == "failed"]


def installed() -> list[str]:
    """Return what rpm has in its database."""
    return sorted(subprocess.run(["rpm", "-qa"], check=True, capture_output=True, text=True).stdout.split())


def test_what_is_installed_and_upgraded_besides_is_in_the_plan(program: str) -> None:
    """A dependency; asking installs nothing."""
    assert planned(program, {BIG: "present"}) == {BIG: [("install", "ra-base")]}
    assert installed() == []
    assert failures(program, {BIG: "present"}) == []
    assert installed() == ["ra-base-2.0-1.noarch", f"{BIG}-1.0-1.noarch"]
    assert planned(program, {BIG: "absent"}) == {BIG: [] if program == "zypper" else [("remove", "ra-base")]}


def test_destroy_takes_along_what_was_installed_for_ours(program: str) -> None:
    """Dnf removes dependencies that nothing needs any more; one that is declared present stays."""
    runtime, ours = (
        Runtime(Registry.from_path(), log=Log("off")),
        {"project": "p", **manifest(program, {BIG: "present"})},
    )
    assert runtime.apply(ours).exit_code == 0
    if program == "dnf":
        (failure,) = failures(program, {BIG: "absent", "ra-base": "present"})
        assert "would also remove ra-base, which Package[ra-base] declares as present" in failure
    assert runtime.destroy(ours).exit_code == 0
    assert installed() == ([] if program == "dnf" else ["ra-base-2.0-1.noarch"])


def test_what_a_removal_takes_along_is_in_the_plan(program: str) -> None:
    """Of several only with the one that it needs; what is declared present stays. zypper refuses by itself."""
    assert failures(program, {BIG: "present", "ra-other": "present"}) == []
    plan = planned(program, {"ra-other": "absent", "ra-base": "absent"})
    if program == "zypper":
        assert plan == {"ra-other": [], "ra-base": None}
        (failure,) = failures(program, {"ra-base": "absent"})
        assert "'zypper install' would fail: Problem: " in failure
    else:
        assert plan == {"ra-other": [], "ra-base": [("remove", BIG)]}
        for name in (BIG, f"{BIG}.noarch"):
            (failure,) = failures(program, {"ra-base": "absent", name: "present"})
            assert f"would also remove {BIG}, which Package[{name}] declares as present" in failure
    assert BIG in " ".join(installed())
    assert failures(program, {"ra-base": "absent", BIG: "absent"}) == []
    assert installed() == ["ra-other-2.0-1.noarch"]


def test_what_a_package_replaces_is_in_the_plan(program: str) -> None:
    """It goes at an installation, and stays where it is declared."""
    assert failures(program, {"ra-base": "1.0-1"}) == []
    assert planned(program, {"ra-successor": "present"}) == {"ra-successor": [("remove", "ra-base")]}
    (failure,) = failures(program, {"ra-base": "1.0-1", "ra-successor": "present"})
    assert "would also remove ra-base, which Package[ra-base] declares as present" in failure
    assert installed() == ["ra-base-1.0-1.noarch"]


def test_what_excludes_another_package_is_refused_before_anything_is_done(program: str) -> None:
    """What the program would solve by a replacement, the declaration of the other forbids."""
    assert failures(program, {"ra-base": "1.0-1"}) == []
    assert set(planned(program, {"ra-rival": "present"})["ra-rival"]) == {
        ("install", "ra-successor"),
        ("remove", "ra-base"),
    }
    (failure,) = failures(program, {"ra-base": "1.0-1", "ra-rival": "present"})
    assert "would also remove ra-base, which Package[ra-base] declares as present" in failure
    assert installed() == ["ra-base-1.0-1.noarch"]


def test_a_virtual_package_is_none(program: str) -> None:
    """Dnf would install one that provides it."""
    (failure,) = failures(program, {"ra-virtual": "present"})
    virtual = "'ra-virtual' is a virtual package, provided by ra-either, ra-successor; declare one of these"
    assert failure == (virtual if program == "dnf" else "'zypper install' would fail: Package 'ra-virtual' not found.")
    assert installed() == []
