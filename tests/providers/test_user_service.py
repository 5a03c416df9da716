"""Services of users, on a machine that was started by a real systemd with a real login manager."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.testing import ProviderCompliance
from tests.faults.bench import WHOLE
from tests.faults.bundled import AS_USER
from tests.systemd_machine import INSIDE, LAWS_TIMEOUT, Machine, started_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a machine")

UNIT: Final = "[Service]\nType=exec\nExecStart=/bin/sleep 1000\n\n[Install]\nWantedBy=default.target\n"
UNITS: Final = {
    "ra-a.service": UNIT,
    "ra-b.service": UNIT.replace("1000", "1001"),
    "ra-bad.service": "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo the disk is on fire; exit 3'\n",
    "ra-many@.service": UNIT,
}
#: What the login manager and the manager of a user need of the distribution.
LOGIN: Final = ("dbus", "dbus-org.freedesktop.login1", "systemd-logind", "user@", "user-runtime-dir@")
USER: Final = "ra-user"
#: Those of no other account: elsewhere ``userdel`` would refuse one whose number has processes here.
NUMBERS: Final = {USER: 54811, "ra-other": 54812}
LAWS: Final = (
    "test_side_effects_are_reported_without_a_change",
    "test_update_changes_only_what_differs",
    "test_noop_changes_nothing",
    "test_a_listing_is_a_manifest_without_changes",
)


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield a machine with two users; one of them has units of their own."""
    with started_machine(tmp_path_factory.mktemp("machine"), stored=LOGIN) as machine:
        for name, number in NUMBERS.items():
            machine.run("useradd", "--uid", str(number), "--create-home", "--shell", "/bin/sh", name)
        machine.run("mkdir", "-p", f"/home/{USER}/.config/systemd/user")
        for name, text in UNITS.items():
            machine.write(f"/home/{USER}/.config/systemd/user/{name}", text)
        machine.run("chown", "-R", f"{USER}:", f"/home/{USER}")
        yield machine


@pytest.fixture
def machine(booted: Machine) -> Machine:
    """Return the machine with the manager of the user running, all units stopped and disabled, nothing recorded."""
    booted.run("loginctl", "enable-linger", USER)
    booted.run("sh", "-c", f"systemctl start user@$(id -u {USER}) && {AS_USER} -q disable --now ra-a ra-b")
    booted.run("sh", "-c", f"{AS_USER} daemon-reload; rm -rf /var/lib/resource-api")
    return booted


def state(machine: Machine, unit: str) -> list[str]:
    """Return whether a unit of the user is active, and the state of its file."""
    return machine.run("sh", "-c", f"{AS_USER} show --value -pActiveState,UnitFileState {unit}").stdout.split()


def manifest(**services: dict[str, Any]) -> str:
    """Return a manifest of services of the user whose names have ``_`` for ``-``."""
    resources = {f"User_service[{name.replace('_', '-')} {USER}]": body for name, body in services.items()}
    return json.dumps({"project": "p", "resources": resources})


def test_a_service_of_a_user_runs_as_the_user(machine: Machine) -> None:
    """It is started and enabled for the user; the second run changes nothing; it is stopped and disabled."""
    on = manifest(ra_a={"ensure": "running", "enable": True}, ra_b={"ensure": "stopped"})
    assert "ensure: stopped → running" in machine.apply(on, "--noop").stdout
    assert state(machine, "ra-a") == ["inactive", "disabled"]
    assert "1 updated" in machine.apply(on).stdout
    assert state(machine, "ra-a") == ["active", "enabled"]
    assert machine.run("sh", "-c", "ps -o user= -C sleep").stdout.split() == [USER]
    assert "2 unchanged" in machine.apply(on).stdout
    machine.apply(manifest(ra_a={"ensure": "stopped", "enable": False}))
    assert state(machine, "ra-a") == ["inactive", "disabled"]


def test_lingering_starts_the_manager_and_its_end_stops_it(machine: Machine) -> None:
    """Without a manager a service can be enabled, and not started."""
    assert "1 updated" in machine.apply(manifest(ra_a={"linger": False})).stdout
    machine.run("sh", "-c", f"while [ -e /run/user/$(id -u {USER}) ]; do sleep 0.02; done")
    enabled = manifest(ra_a={"enable": True, "ensure": "stopped", "linger": False})
    assert "1 updated" in machine.apply(enabled).stdout
    assert "1 unchanged" in machine.apply(enabled).stdout
    refused = machine.apply(manifest(ra_a={"ensure": "running"}), check=False).stderr
    assert f"the service manager of '{USER}' does not run: declare 'linger: true', or log in" in refused
    machine.apply(manifest(ra_b={"ensure": "running", "linger": True}))
    assert state(machine, "ra-a") == ["active", "enabled"]  # the manager has started what is enabled
    assert state(machine, "ra-b") == ["active", "disabled"]


def test_a_state_that_a_unit_of_a_user_cannot_have_is_reported_by_the_plan(machine: Machine) -> None:
    """With the reason, as for the units of the machine."""
    path = f"/home/{USER}/.config/systemd/user/ra-once.service"
    machine.write(path, "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    try:
        for should, reason in (
            ({"ensure": "running"}, "does not stay running: it has Type=oneshot without RemainAfterExit=yes"),
            ({"enable": True}, "cannot be enabled: it is static: its unit file has no section [Install]"),
            ({"enable": "mask"}, f"cannot be masked: its file is {path}, where the mask would be"),
        ):
            planned = machine.apply(manifest(ra_once=should), "--noop").stderr
            assert f"Warning: User_service[ra-once {USER}]: ra-once {reason}" in planned
    finally:
        machine.run("rm", path)


def test_what_does_not_exist_is_stopped_and_cannot_be_started(machine: Machine) -> None:
    """A unit, and a user."""
    nobody = json.dumps({"resources": {"User_service[x ra-none]": {"ensure": "stopped", "enable": False}}})
    assert "1 unchanged" in machine.apply(nobody).stdout
    expected = {
        "User_service[ra-none]": {"user": USER},
        "User_service[ra-a ra-none]": {},
        "User_service[ra-a root]": {},
    }
    resources = {title: {**body, "ensure": "running"} for title, body in expected.items()}
    refused = machine.apply(json.dumps({"resources": resources}), check=False).stderr
    assert "ra-none.service not found" in refused
    assert "there is no user 'ra-none'" in refused
    assert "the service manager of 'root' does not run" in refused


def test_a_change_of_its_file_restarts_a_service_and_a_failed_start_shows_the_log(machine: Machine) -> None:
    """The manager of the user reads the file again."""
    file = "File[/etc/systemd/user/ra-late.service]"
    service = {"ensure": "running", "subscribe": file}
    for count, number in enumerate(("2000", "2001")):
        resources = {file: {"content": UNIT.replace("1000", number)}, f"User_service[ra-late {USER}]": service}
        outcome = machine.apply(json.dumps({"project": "late", "resources": resources}))
        assert ("1 refreshed" in outcome.stdout) is bool(count)
        assert machine.run("sh", "-c", "ps -o args= -C sleep").stdout == f"/bin/sleep {number}\n"
    machine.run("sh", "-c", f"{AS_USER} stop ra-late")
    outcome = machine.apply(manifest(ra_bad={"ensure": "running"}, ra_a={"ensure": "running"}), check=False)
    assert "the disk is on fire" in outcome.stderr
    assert state(machine, "ra-a")[0] == "active"


def test_a_manager_that_does_not_answer_fails_the_services_of_its_user(machine: Machine) -> None:
    """The user can put what they want in its place; the services of others are read and changed."""
    machine.run("loginctl", "enable-linger", "ra-other")
    machine.run("sh", "-c", "systemctl start user@$(id -u ra-other)")
    path = machine.run("sh", "-c", "echo /run/user/$(id -u ra-other)").stdout.strip()
    hostile = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); s.close()"
    machine.run("sh", "-c", f"rm {path}/systemd/private {path}/bus; python3 -c '{hostile}' {path}/systemd/private")
    resources = {f"User_service[ra-a {user}]": {"ensure": "running"} for user in ("ra-other", USER)}
    outcome = machine.apply(json.dumps({"resources": resources}), check=False)
    assert "the service manager of 'ra-other' cannot be asked" in outcome.stderr
    assert state(machine, "ra-a")[0] == "active"
    assert f"User_service[ra-a {USER}]" in machine.command("resource", "user_service").stdout


@pytest.mark.timeout(LAWS_TIMEOUT)
def test_the_laws_hold_on_the_machine(machine: Machine) -> None:
    """The class below, run there; in ``make test`` those that tell most."""
    machine.run_laws(f"{__file__}::TestUserService", "user_service", *(() if WHOLE else LAWS))


@pytest.mark.skipif(not WHOLE, reason="in `make test-all`; `make test` samples the same code with the type service")
@pytest.mark.timeout(3600)
def test_a_run_may_be_killed_or_refused_at_any_system_call(machine: Machine) -> None:
    """The sweeps of all bundled types, on the machine."""
    machine.run_sweeps("user_service")


class TestUserService(ProviderCompliance):
    """A service that runs and is enabled; it is collected on the machine only."""

    __test__ = INSIDE.exists()
    type_name = "user_service"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-a.service", "user": USER, "ensure": "running", "enable": True, "linger": True}

    @pytest.fixture
    def updated(self) -> Resource:
        return {"name": "ra-a", "user": USER, "ensure": "stopped", "enable": False, "linger": True}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": "ra-b", "user": USER, "ensure": "running", "enable": True}]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: sorted(map(str, Path(f"/home/{USER}/.config/systemd/user").rglob("*")))

    @pytest.fixture
    def neighbours(self) -> str:
        return "the files of a user are read by that user's own programs, never by root"
