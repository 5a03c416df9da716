"""One manifest for machines like Debian and like Fedora: what each of them declares, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from resource_api import Registry
from resource_api.runtime.runtime import Runtime
from resource_api.system.facts import Facts

SITE: Final = Path(__file__).resolve().parents[1] / "site.yaml"


class OtherFacts(Facts):
    """The facts of this machine, as if it had another operating system."""

    def __init__(self, family: str, name: str, major: str) -> None:
        """Have this operating system."""
        super().__init__()
        self._values["os"] = {"family": family, "name": name, "release": {"major": major, "full": major}}


def _declared(facts: Facts, **inputs: Any) -> tuple[set[str], dict[str, str]]:
    """Return the references that a machine declares, and the reasons of what it leaves out."""
    catalog = Runtime(Registry.from_path(), state="memory:", facts=facts).compile(str(SITE), inputs)
    return {str(entry.reference) for entry in catalog.entries}, {
        part.name: part.reason for part in catalog.left_out.all
    }


_COMMON: Final = {"Package[curl]", "User[alice]", "User[bob]", "File[/etc/sudoers.d/alice]"}
_WEB: Final = {"Package[nginx]", "File[/srv/www]", "Service[nginx]"}
_DEBIAN: Final = {"File[/etc/apt/apt.conf.d/60no-recommends]"}


@pytest.mark.parametrize(
    ("facts", "web", "expected"),
    [
        (("Debian", "Debian", "12"), True, _COMMON | _WEB | _DEBIAN | {"Package[unattended-upgrades]"}),
        (("Debian", "Ubuntu", "24.04"), False, _COMMON | _DEBIAN | {"Package[unattended-upgrades]"}),
        (("Debian", "Debian", "8"), False, _COMMON | _DEBIAN),
        (("RedHat", "Fedora", "41"), True, _COMMON | _WEB | {"Package[dnf-automatic]", "Package[firewalld]"}),
        (("RedHat", "Fedora", "41"), False, _COMMON | {"Package[dnf-automatic]"}),
        (("Suse", "openSUSE", "15"), False, _COMMON),
    ],
    ids=str,
)
def test_a_machine_declares_what_is_for_it(facts: tuple[str, str, str], web: bool, expected: set[str]) -> None:  # noqa: FBT001 - a case
    """The file of its family, and what its inputs and its version ask for."""
    assert _declared(OtherFacts(*facts), web=web)[0] == expected


def test_the_rest_is_left_out_with_its_reason() -> None:
    """Files, resources, elements and outputs."""
    assert _declared(OtherFacts("Debian", "Debian", "8"), web=False)[1] == {
        str(SITE.parent / "fedora.yaml"): "facts.os.family is Debian, not RedHat",
        "Package[nginx]": "${inputs.web} is false",
        "File[/srv/www]": "${inputs.web} is false",
        "Service[nginx]": "${inputs.web} is false",
        "File[/etc/sudoers.d/bob]": "each.value.sudo is null, not true",
        "Package[unattended-upgrades]": "facts.os.name is Debian; facts.os.release.major is 8, not at least 9",
        "output firewall": "facts.os.family is Debian, not RedHat",
    }
