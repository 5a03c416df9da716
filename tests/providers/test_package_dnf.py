"""Packages built for the tests and installed by the real dnf, in a mount namespace with a private database of rpm."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Registry, Runtime
from resource_api.system.log import Log
from tests import bundled

if TYPE_CHECKING:
    from resource_api.model.report import RunReport

rpm = bundled.execute("lib", "rpm")
#: What rpm says of a Fedora 40: several kernels, two architectures of one package, an epoch, a key.
RECORDED: Final = """\
1713900000|kernel-core|0:6.8.5-301.fc40|x86_64
1715900000|kernel-core|0:6.8.9-300.fc40|x86_64
1713900001|glibc|0:2.39-8.fc40|x86_64
1715900001|glibc|0:2.39-8.fc40|i686
1713900002|vim-minimal|2:9.1.309-1.fc40|x86_64
1713900003|gpg-pubkey|0:a15b79cc-63d04c2c|(none)
1713900004|tzdata|0:2024a-5.fc40|noarch
""".splitlines()


@pytest.fixture
def _machine(rpm_packages: Path) -> None:
    """Have dnf use the repository of the tests alone."""
    text = f"[main]\nreposdir={rpm_packages}\n[ra-test]\nname=x\nbaseurl=file://{rpm_packages}/repository\ngpgcheck=0\n"
    Path("/etc/dnf/dnf.conf").write_text(text)


def apply(**expected: Any) -> RunReport:
    """Apply a manifest of packages that dnf manages."""
    resources = {f"Package[{name}]": {"ensure": ensure, "implementation": "dnf"} for name, ensure in expected.items()}
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": resources})


@pytest.mark.usefixtures("_machine")
def test_dnf_installs_changes_and_removes() -> None:
    """A version, an older one, the newest and none, two packages at once; a second run changes nothing."""
    observed = []
    for ensure in ("1.1-1", "1.0-1", "latest", "absent"):
        report = apply(**{"ra-Test": ensure, "ra-other": "present" if ensure != "absent" else "absent"})
        assert report.exit_code == 0, [step.error for step in report.steps]
        assert apply(**{"ra-Test": ensure}).summary.unchanged == 1
        observed.append(subprocess.run(["rpm", "-qa"], check=True, capture_output=True, text=True).stdout.split())
    second = "ra-other-2.0-1.noarch"
    versions = ["ra-Test-1.1-1.noarch", "ra-Test-1.0-1.noarch", "ra-Test-1.1-1.noarch"]
    assert [sorted(item) for item in observed] == [*([version, second] for version in versions), []]
    assert "ra-missing" in str(apply(**{"ra-missing": "present"}).steps[0].error)


def test_what_rpm_lists_is_read() -> None:
    """The newest of several versions, each architecture, an epoch; no keys."""
    result = rpm.by_name(RECORDED)
    assert {name: row["version"] for name, row in result.items() if "." not in name} == {
        "kernel-core": "6.8.9-300.fc40",
        "glibc": "2.39-8.fc40",
        "vim-minimal": "2:9.1.309-1.fc40",
        "tzdata": "2024a-5.fc40",
    }
    assert {"glibc.i686", "glibc.x86_64", "tzdata.noarch"} <= result.keys()
