"""Services of a machine that was started by a real systemd, in namespaces of its own."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.plugins.registry import Registry
from resource_api.testing import ProviderCompliance
from tests.faults.bench import WHOLE
from tests.systemd_machine import INSIDE, LAWS_TIMEOUT, ROOT, Machine, started_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a machine")

UNIT = "[Service]\nExecStart=/bin/sleep 1000\n\n[Install]\nWantedBy=ra-test.target\n"
UNITS = {
    "ra-a.service": UNIT,
    "ra-b.service": UNIT.replace("sleep 1000", "sleep 1001"),
    "ra-static.service": "[Service]\nExecStart=/bin/sleep 1000\n",
    "ra-reload.service": UNIT.replace("[Install]", "ExecReload=/bin/touch /run/reloaded\n\n[Install]"),
    "ra-bad.service": "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo the disk is on fire; exit 3'\n",
    "ra-loop.service": "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=100\n",
    "ra-many@.service": UNIT,
    "ra-alias.service": UNIT.replace("WantedBy=", "Alias=ra-other.service\nWantedBy="),
    "ra-bound.service": UNIT.replace("[Service]", "[Unit]\nBindsTo=ra-a.service\n\n[Service]"),
    "ra-part.service": UNIT.replace("[Service]", "[Unit]\nPartOf=ra-bound.service\n\n[Service]"),
    "ra-rival.service": UNIT.replace("[Service]", "[Unit]\nConflicts=ra-a.service\nWants=ra-b.service\n\n[Service]"),
    "ra-tick.timer": "[Timer]\nOnCalendar=yearly\n\n[Install]\nWantedBy=timers.target\n",
    "ra-with.service": UNIT.replace(
        "[Install]", "[Install]\nAlso=ra-tick.timer \\\n  ra-loop.service\nAlso=ra-many@%N.service"
    ),
    "ra-tick.service": "[Service]\nExecStart=/bin/true\n",
}
#: Counts the calls of systemctl; its caller is killed before or after the one whose number is in the file ``kill``.
COUNTING = """#!/bin/sh
[ -e /run/counted ] || exec /usr/bin/systemctl.real "$@"
echo "$*" >>/run/calls
number=$(grep -c -v '^show' /run/calls)
case "$*" in show*) number=0;; esac
if [ "$(cat /run/kill 2>/dev/null)" = "before $number" ]; then kill -9 $PPID; sleep 5; fi
/usr/bin/systemctl.real "$@"
code=$?
if [ "$(cat /run/kill 2>/dev/null)" = "after $number" ]; then kill -9 $PPID; fi
exit $code
"""
#: Has apt offer a package of the name nginx, which holds what the example needs of it.
PACKAGE = r"""
set -e
tree=/srv/ra-test-tree
mkdir -p $tree/DEBIAN $tree/etc/nginx/conf.d $tree/lib/systemd/system /srv/repository
cp /etc/systemd/system/ra-a.service $tree/lib/systemd/system/nginx.service
printf 'Package: nginx\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: test\n' >$tree/DEBIAN/control
file=/srv/repository/nginx_1.0.deb
dpkg-deb -Znone --root-owner-group --build $tree $file
{ cat $tree/DEBIAN/control; printf 'Filename: ./nginx_1.0.deb\nSize: %s\nSHA256: %s\n' \
    "$(stat -c %s $file)" "$(sha256sum $file | cut -d' ' -f1)"; } >/srv/repository/Packages
rm -rf /etc/apt/sources.list.d /etc/apt/preferences.d /var/lib/apt/lists
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"""


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield the machine, with the units of these tests."""
    with started_machine(tmp_path_factory.mktemp("machine")) as machine:
        for name, text in UNITS.items():
            machine.write(f"/etc/systemd/system/{name}", text)
        machine.run("systemctl", "daemon-reload")
        machine.run("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
        machine.write("/usr/bin/systemctl", COUNTING)
        machine.run("chmod", "755", "/usr/bin/systemctl")
        yield machine


@pytest.fixture
def machine(booted: Machine) -> Machine:
    """Return the machine with all units stopped and disabled, and nothing recorded."""
    booted.run("sh", "-c", "systemctl stop 'ra-*'; systemctl reset-failed; rm -rf /run/calls /run/kill /run/reloaded")
    booted.run("sh", "-c", "rm -rf /var/lib/resource-api")
    names = [name for name in UNITS if "static" not in name]
    booted.run("systemctl.real", "--quiet", "unmask", *names)
    booted.run("systemctl.real", "--quiet", "disable", *names, check=False)
    booted.run("rm", "-f", "/run/calls")
    booted.write("/run/counted", "")
    return booted


def state(machine: Machine, unit: str) -> tuple[str, str]:
    """Return whether a unit is active, and the state of its file."""
    output = machine.run("systemctl.real", "show", "-pActiveState,UnitFileState", unit).stdout
    values = dict(line.split("=", 1) for line in output.splitlines())
    return values["ActiveState"], values["UnitFileState"]


def calls(machine: Machine) -> list[str]:
    """Return the calls of systemctl since the last question, those that only read in one word."""
    result = [line.split() for line in machine.read("/run/calls").splitlines()]
    machine.run("rm", "-f", "/run/calls")
    return [" ".join(word for word in words if word[:1] != "-") if words[0] != "show" else "show" for words in result]


def manifest(**services: dict[str, Any]) -> str:
    """Return a manifest of services whose names have ``_`` for ``-``."""
    resources = {f"Service[{name.replace('_', '-')}]": body for name, body in services.items()}
    return json.dumps({"project": "p", "resources": resources})


def test_a_service_is_started_and_enabled_and_then_left_alone(machine: Machine) -> None:
    """The second run changes nothing and only reads."""
    text = manifest(ra_a={"ensure": "running", "enable": True})
    assert "1 updated" in machine.apply(text).stdout
    assert state(machine, "ra-a") == ("active", "enabled")
    calls(machine)
    assert "1 unchanged" in machine.apply(text).stdout
    assert calls(machine) == ["show"]


def test_a_service_is_stopped_disabled_and_masked(machine: Machine) -> None:
    """Each attribute by itself: the other one keeps its value."""
    machine.apply(manifest(ra_a={"ensure": "running", "enable": True}))
    machine.apply(manifest(ra_a={"ensure": "stopped"}))
    assert state(machine, "ra-a") == ("inactive", "enabled")
    machine.apply(manifest(ra_a={"enable": False}))
    assert state(machine, "ra-a") == ("inactive", "disabled")
    failed = machine.apply(manifest(ra_a={"enable": "mask"}), check=False)
    assert failed.returncode == 1
    assert "already exists" in failed.stderr


def test_a_masked_service_is_unmasked_and_started(machine: Machine) -> None:
    """A unit of a package can be masked, because its file is elsewhere."""
    machine.apply(manifest(cron={"ensure": "stopped", "enable": "mask"}))
    assert state(machine, "cron") == ("inactive", "masked")
    refused = machine.apply(manifest(cron={"ensure": "running"}), check=False)
    assert "is masked" in refused.stderr
    machine.apply(manifest(cron={"ensure": "running", "enable": True}))
    assert state(machine, "cron") == ("active", "enabled")
    machine.apply(manifest(cron={"ensure": "stopped", "enable": False}))


def test_noop_shows_the_changes_and_makes_none(machine: Machine) -> None:
    """Also a plan."""
    text = manifest(ra_a={"ensure": "running", "enable": True})
    output = machine.apply(text, "--noop")
    assert "ensure: stopped → running" in output.stdout
    assert "enable: false → true" in output.stdout
    assert set(calls(machine)) == {"show"}
    assert state(machine, "ra-a") == ("inactive", "disabled")


def test_drift_is_shown_and_undone(machine: Machine) -> None:
    """A service that somebody has stopped is started again."""
    text = manifest(ra_a={"ensure": "running"})
    machine.apply(text)
    machine.run("systemctl.real", "stop", "ra-a")
    planned = machine.command("plan", "/root/site.yaml")
    assert "ra-a] (drift)\n    ensure: stopped → running" in planned.stdout
    machine.apply(text)
    assert state(machine, "ra-a")[0] == "active"


def test_destroy_forgets_services_and_leaves_them(machine: Machine) -> None:
    """They are not ours to delete."""
    machine.apply(manifest(ra_a={"ensure": "running"}))
    assert machine.command("destroy", "--yes", "/root/site.yaml").returncode == 0
    assert state(machine, "ra-a")[0] == "active"


def test_the_list_is_a_manifest_that_changes_nothing(machine: Machine) -> None:
    """All services of the machine, in three calls: two for the names, and one for their states."""
    machine.apply(manifest(ra_a={"ensure": "running", "enable": True}))
    calls(machine)
    listed = machine.command("resource", "service").stdout
    assert calls(machine) == ["list-unit-files", "list-units", "show"]
    assert {"ra-a", "ra-static", "cron", "systemd-journald"} <= set(re.findall(r"Service\[(.*?)\]", listed))
    assert not {"ra-many@", "dbus-org.freedesktop.hostname1"} & set(re.findall(r"Service\[(.*?)\]", listed))
    again = machine.apply(listed)
    assert re.fullmatch(r"Applied in .* s: \d+ unchanged\.\n", again.stdout)


def test_fifty_services_are_read_by_one_program(machine: Machine) -> None:
    """Whether they exist or not."""
    machine.apply(manifest(**{f"ra_many@{number}": {"ensure": "stopped", "enable": False} for number in range(50)}))
    assert calls(machine) == ["show"]


def test_fifty_services_of_a_changed_file_need_one_reload(machine: Machine) -> None:
    """Each query is one call for all of them, and ``daemon-reload`` comes once before those that run are restarted."""
    file = "File[/etc/systemd/system/ra-many@.service]"
    resources: dict[str, Any] = {file: {"content": UNIT.replace("[Service]", "[Service]\nEnvironment=NEW=1")}}
    running = [f"ra-many@{number}" for number in range(3)]
    for name in (f"ra-many@{number}" for number in range(50)):
        resources[f"Service[{name}]"] = {"ensure": "running" if name in running else "stopped", "subscribe": file}
    machine.run("systemctl.real", "start", *running)
    try:
        calls(machine)
        outcome = machine.apply(json.dumps({"project": "p", "resources": resources}))
        created = calls(machine)
    finally:
        machine.run("systemctl.real", "stop", "ra-many@*")
    assert "1 updated, 3 refreshed, 47 unchanged" in outcome.stdout
    assert created.count("daemon-reload") == 1
    # To plan, before the change, at the refresh, and after what systemd has read; then each one that was restarted.
    assert created.count("show") == 4 + len(running)
    assert [item for item in created if "restart" in item] == [f"try-restart {name}.service" for name in running]
    assert len(created) == 1 + 4 + 2 * len(running)


def test_units_are_read_again_once_after_their_files_have_changed(machine: Machine) -> None:
    """Three services that are restarted because of three changed files need one ``daemon-reload``."""
    resources: dict[str, Any] = {}
    for name in ("ra-a", "ra-b", "ra-reload"):
        file = f"File[/etc/systemd/system/{name}.service]"
        resources[file] = {"content": UNITS[f"{name}.service"]}
        resources[f"Service[{name}]"] = {"ensure": "running", "subscribe": file}
    # The order in the file is the order of execution.
    ordered = dict(sorted(resources.items()))
    machine.apply(json.dumps({"project": "p", "resources": ordered}))
    for file in [item for item in ordered if item.startswith("File")]:
        ordered[file] = {"content": ordered[file]["content"].replace("[Service]", "[Service]\nEnvironment=NEW=1")}
    calls(machine)
    outcome = machine.apply(json.dumps({"project": "p", "resources": ordered}))
    assert "3 updated" in outcome.stdout
    created = calls(machine)
    assert created.count("daemon-reload") == 1
    assert [value for value in created if "restart" in value] == [
        f"try-restart {name}.service" for name in ("ra-a", "ra-b", "ra-reload")
    ]
    pid = machine.run("systemctl.real", "show", "-pMainPID", "--value", "ra-a").stdout.strip()
    assert "NEW=1" in machine.read(f"/proc/{pid}/environ")


def effects(machine: Machine, text: str) -> dict[str, list[tuple[str, str]]]:
    """Return what is started and stopped besides, by the service that a plan changes."""
    machine.write("/root/site.yaml", text)
    steps = json.loads(machine.command("plan", "/root/site.yaml", "--json", check=False).stdout)["steps"]
    entries = {step["reference"][8:-1]: step["side_effects"] for step in steps if step["action"] != "same"}
    return {name: [(item["action"], item["name"]) for item in some] for name, some in entries.items()}


def test_what_is_stopped_and_started_besides_is_in_the_plan(machine: Machine) -> None:
    """What is bound to a unit or a part of it stops with it; a rival stops it, and starts what it wants."""
    machine.apply(manifest(ra_part={"ensure": "running"}, ra_bound={"ensure": "running"}))
    stopped = {"ra-a": [("stop", "ra-bound"), ("stop", "ra-part")]}
    assert effects(machine, manifest(ra_a={"ensure": "stopped"})) == stopped
    rival = manifest(ra_rival={"ensure": "running"})
    expected = [("start", "ra-b"), ("stop", "ra-a"), ("stop", "ra-bound"), ("stop", "ra-part")]
    assert {name: sorted(some) for name, some in effects(machine, rival).items()} == {"ra-rival": expected}
    for text in (
        manifest(ra_a={"ensure": "stopped"}, ra_part={"ensure": "running"}),
        manifest(ra_rival={"ensure": "running"}, ra_part={"ensure": "running"}),
    ):
        failed = machine.apply(text, check=False)
        assert failed.returncode == 1
        assert "would also stop ra-part, which Service[ra-part] declares otherwise" in failed.stderr
    running = [state(machine, unit)[0] for unit in ("ra-a", "ra-bound", "ra-part", "ra-rival")]
    assert running == [*["active"] * 3, "inactive"]
    refused = manifest(ra_b={"ensure": "stopped"}, ra_rival={"ensure": "running"})
    assert "would also start ra-b, which Service[ra-b] declares otherwise" in machine.apply(refused, check=False).stderr
    assert "also stops ra-a, ra-bound, ra-part" in machine.apply(rival).stderr
    assert [state(machine, unit)[0] for unit in ("ra-a", "ra-bound", "ra-part")] == ["inactive"] * 3


def test_what_is_enabled_and_disabled_besides_is_in_the_plan(machine: Machine) -> None:
    """What ``Also=`` names, unless it is so already or declared otherwise; a mask does nothing besides."""
    besides = ["ra-many@ra-with", "ra-tick.timer"]
    enable = manifest(ra_with={"enable": True})
    assert effects(machine, enable) == {"ra-with": [("enable", name) for name in besides]}
    refused = json.loads(enable)
    refused["resources"] |= {"Service[ra-tick.timer]": {"enable": False}}
    reason = "would also enable ra-tick.timer, which Service[ra-tick.timer] declares otherwise"
    assert reason in machine.apply(json.dumps(refused), check=False).stderr
    assert state(machine, "ra-with")[1] == state(machine, "ra-tick.timer")[1] == "disabled"
    assert "also enables ra-many@ra-with, ra-tick.timer" in machine.apply(enable).stderr
    assert [state(machine, unit)[1] for unit in ("ra-with", *besides)] == ["enabled"] * 3
    machine.run("systemctl.real", "disable", "ra-many@ra-with")
    disable = manifest(ra_with={"enable": False})
    assert effects(machine, disable) == {"ra-with": [("disable", "ra-tick.timer")]}
    machine.apply(disable)
    assert [state(machine, unit)[1] for unit in ("ra-with", *besides)] == ["disabled"] * 3
    assert effects(machine, manifest(cron={"enable": "mask"})) == {"cron": []}


def test_a_unit_that_is_unmasked_and_enabled_names_its_companions(machine: Machine) -> None:
    """The file behind the mask has ``Also=``; the plan names the unit, and the apply enables it."""
    machine.run("mv", "/etc/systemd/system/ra-with.service", "/usr/lib/systemd/system/ra-with.service")
    try:
        machine.apply(manifest(ra_with={"enable": "mask"}))
        enable = manifest(ra_with={"enable": True})
        companions = ["ra-many@ra-with", "ra-tick.timer"]
        assert effects(machine, enable) == {"ra-with": [("enable", name) for name in companions]}
        machine.apply(enable)
        assert [state(machine, unit)[1] for unit in ("ra-with", *companions)] == ["enabled"] * 3
    finally:
        machine.apply(manifest(ra_with={"enable": False}))
        machine.run("mv", "/usr/lib/systemd/system/ra-with.service", "/etc/systemd/system/ra-with.service")
        machine.run("systemctl.real", "daemon-reload")


def test_a_refresh_reloads_where_that_is_declared(machine: Machine) -> None:
    """The process stays the same; a unit that cannot be reloaded is restarted."""
    body = {"ensure": "running", "refresh": "reload", "subscribe": "File[/run/conf]"}
    services = {f"Service[{name}]": body for name in ("ra-a", "ra-reload")}

    def apply(content: str) -> dict[str, str]:
        resources = {"File[/run/conf]": {"content": content}, **services}
        machine.apply(json.dumps({"project": "p", "resources": resources}))
        show = ("systemctl.real", "show", "-pMainPID", "--value")
        return {name: machine.run(*show, name).stdout for name in ("ra-a", "ra-reload")}

    before, after = apply("1"), apply("2")
    assert machine.run("ls", "/run/reloaded").returncode == 0
    assert before["ra-reload"] == after["ra-reload"]
    assert before["ra-a"] != after["ra-a"]


def test_a_refresh_does_not_start_what_is_stopped(machine: Machine) -> None:
    """A notification restarts only what runs; the log says what starts it."""
    resources = {
        "File[/run/conf2]": {"content": "x"},
        "Service[ra-a]": {"ensure": "stopped", "subscribe": "File[/run/conf2]"},
    }
    outcome = machine.apply(json.dumps({"resources": resources}))
    assert "Does not run: a refresh starts no service, 'ensure: running' does" in outcome.stderr
    assert state(machine, "ra-a")[0] == "inactive"


def test_a_failed_start_shows_the_end_of_the_log(machine: Machine) -> None:
    """The run fails, and the other services are changed."""
    text = manifest(ra_bad={"ensure": "running"}, ra_a={"ensure": "running"})
    outcome = machine.apply(text, check=False)
    assert outcome.returncode == 1
    assert re.search(
        r"'systemctl start -- \S+' returned 1; the end of its log: [^\\]*the disk is on fire", outcome.stderr
    )
    assert state(machine, "ra-a")[0] == "active"


def test_a_service_that_waits_for_its_next_attempt_does_not_run_and_can_be_stopped(machine: Machine) -> None:
    """It is neither running nor stopped; one that has logged nothing is looked at with systemctl."""
    outcome = machine.apply(manifest(ra_loop={"ensure": "running"}), check=False)
    assert outcome.returncode == 1
    assert "written nothing into its log, 'systemctl status ra-loop.service' shows how it ended" in outcome.stderr
    assert state(machine, "ra-loop")[0] == "activating"
    assert "1 updated" in machine.apply(manifest(ra_loop={"ensure": "stopped"})).stdout
    assert state(machine, "ra-loop")[0] == "inactive"


def test_a_static_unit_can_be_started_and_not_enabled(machine: Machine) -> None:
    """The message says why."""
    machine.apply(manifest(ra_static={"ensure": "running", "enable": False}))
    outcome = machine.apply(manifest(ra_static={"enable": True}), check=False)
    assert outcome.returncode == 1
    assert "ra-static cannot be enabled: it is static: its unit file has no section [Install]" in outcome.stderr


def test_templates_timers_and_second_names_are_units(machine: Machine) -> None:
    """``.service`` may be written or left out."""
    services = {"ra_many@x": {"enable": True}, "ra_tick.timer": {"ensure": "running"}, "ra_alias": {"enable": True}}
    machine.apply(manifest(**services))
    assert state(machine, "ra-many@x.service") == ("inactive", "enabled")
    assert state(machine, "ra-tick.timer")[0] == "active"
    again = manifest(**{f"{name}.service" if name[-1] != "r" else name: body for name, body in services.items()})
    assert "3 unchanged" in machine.apply(again).stdout
    assert "1 unchanged" in machine.apply(manifest(ra_other={"enable": True})).stdout
    machine.run("systemctl.real", "disable", "ra-many@x", "ra-alias")


def test_a_state_that_a_unit_cannot_have_is_reported_by_the_plan(machine: Machine) -> None:
    """With the reason; a state that it can have is not."""
    directory = "/etc/systemd/system"
    machine.write(f"{directory}/ra-once.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    try:
        for should, reason in (
            ({"ensure": "running"}, "does not stay running: it has Type=oneshot without RemainAfterExit=yes"),
            ({"enable": True}, "cannot be enabled: it is static: its unit file has no section [Install]"),
            ({"enable": "mask"}, f"cannot be masked: its file is {directory}/ra-once.service, where the mask would be"),
        ):
            planned = machine.apply(manifest(ra_once=should), "--noop").stderr
            assert f"Warning: Service[ra-once]: ra-once {reason}" in planned
        assert "Warning" not in machine.apply(manifest(ra_once={"ensure": "stopped"}), "--noop").stderr
    finally:
        machine.run("rm", f"{directory}/ra-once.service")


def test_a_unit_that_does_not_exist_is_stopped_and_cannot_be_started(machine: Machine) -> None:
    """To declare it stopped is fine; a unit that an earlier resource brings is started."""
    assert "1 unchanged" in machine.apply(manifest(ra_none={"ensure": "stopped", "enable": False})).stdout
    warning = "Warning: Service[ra-none]: there is no service 'ra-none'\n"
    assert machine.apply(manifest(ra_none={"ensure": "running"}), "--noop").stderr.count(warning) == 1
    outcome = machine.apply(manifest(ra_none={"ensure": "running"}), check=False)
    assert outcome.returncode == 1
    assert "ra-none.service not found" in outcome.stderr
    file = "File[/etc/systemd/system/ra-none.service]"
    resources = {file: {"content": UNIT}, "Service[ra-none]": {"ensure": "running", "enable": True, "require": file}}
    assert "there is no service" not in machine.apply(json.dumps({"resources": resources}), "--noop").stderr
    machine.apply(json.dumps({"resources": resources}))
    assert state(machine, "ra-none") == ("active", "enabled")
    machine.run("sh", "-c", "systemctl.real disable --now ra-none; rm /etc/systemd/system/ra-none.service")


@pytest.mark.parametrize(
    "bad", ["-x", "--force", "a b", "a\nb", "../x", "/etc/x", "a*", "x@", "x@.service", "", "a" * 300]
)
def test_a_hostile_name_is_refused(bad: str) -> None:
    """It is no option, path, pattern or template."""
    with pytest.raises(ManifestError):
        Runtime(Registry.from_path(), state="memory:").validate({"resources": {"Service[x]": {"name": bad}}})


def test_killed_at_any_change_the_next_run_converges(machine: Machine) -> None:
    """Before and after calls of systemctl that change something; the sweep kills systemctl too."""
    text = manifest(ra_a={"ensure": "running", "enable": True}, ra_b={"ensure": "running"})
    machine.apply(text)
    changing = [call for call in calls(machine) if call != "show"]
    assert changing == ["enable ra-a.service", "start ra-a.service", "start ra-b.service", "daemon-reload"]
    for number, when in [(1, "after"), (3, "before"), (4, "before")]:
        machine.run("sh", "-c", "systemctl.real -q disable --now ra-a ra-b; rm -f /run/calls")
        machine.write("/run/kill", f"{when} {number}")
        assert machine.apply(text, check=False).returncode != 0
        machine.run("rm", "/run/kill", "/run/calls")
        machine.apply(text)
        assert (state(machine, "ra-a"), state(machine, "ra-b")[0]) == (("active", "enabled"), "active")


@pytest.mark.parametrize(
    ("implementation", "reason"),
    [
        ("systemd", "systemd does not manage this machine (there is no /run/systemd/system)"),
        ("openrc", "OpenRC does not manage this machine (there is no /run/openrc/softlevel)"),
    ],
)
def test_another_init_system_is_refused(implementation: str, reason: str) -> None:
    """Where these tests run there is none; the scripts can be used there."""
    body = {"ensure": "stopped", "implementation": implementation}
    report = Runtime(Registry.from_path(), state="memory:").apply({"resources": {"Service[x]": body}})
    assert report.exit_code == 1
    assert report.steps[0].error == f"the implementation '{implementation}' of Service is not suitable: {reason}"


def test_the_example_of_a_package_its_file_and_its_service(machine: Machine) -> None:
    """The file needs the package, and restarts the service."""
    machine.run("sh", "-c", PACKAGE)
    example = str(ROOT / "examples" / "nginx.yaml")
    assert "2 created, 1 updated, 0 unchanged" in machine.command("apply", example).stdout
    assert state(machine, "nginx") == ("active", "enabled")
    calls(machine)
    assert (
        "1 updated, 1 refreshed, 1 unchanged"
        in machine.command("apply", example, "-i", "domain=www.example.org").stdout
    )
    assert [call for call in calls(machine) if call != "show"] == ["try-restart nginx.service"]
    assert "server_name www.example.org;" in machine.read("/etc/nginx/conf.d/site.conf")
    assert "3 unchanged" in machine.command("apply", example, "-i", "domain=www.example.org").stdout


#: Runs a manifest; a stop is a signal to the run alone, and after a second all of it is killed.
RUN = f"""[Service]
Type=oneshot
Environment=PYTHONPATH={ROOT} PYTHONDONTWRITEBYTECODE=1
ExecStart={sys.executable} -m resource_api apply /root/site.yaml
KillMode=mixed
TimeoutStopSec=SECONDS
"""
WAITING = "touch /run/began; until [ -e /run/go ]; do sleep 0.05; done; touch /run/one"
STEPS = {
    "Exec[one]": {"command": WAITING, "shell": True, "creates": "/run/one"},
    "Exec[two]": {"command": "touch /run/two", "creates": "/run/two", "require": "Exec[one]"},
}


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_that_systemd_stops_is_consistent(machine: Machine, *, killed: bool) -> None:
    """The running step is finished and nothing else begins; after the unit's time limit everything is killed."""
    machine.run("rm", "-f", *(f"/run/{name}" for name in ("began", "go", "one", "two")))
    machine.write("/root/site.yaml", json.dumps({"project": "p", "resources": STEPS}))
    machine.write("/run/systemd/system/ra-run.service", RUN.replace("SECONDS", "1" if killed else "40"))
    machine.run("systemctl.real", "daemon-reload")
    machine.run("systemctl.real", "start", "--no-block", "ra-run")
    machine.run("sh", "-c", "until [ -e /run/began ]; do sleep 0.05; done")
    machine.run("systemctl.real", "stop", "--no-block", "ra-run")
    if not killed:
        machine.run("sh", "-c", "until systemctl.real show -pActiveState ra-run | grep deact; do sleep 0.05; done")
        machine.write("/run/go", "")
    over = "until systemctl.real show -pActiveState ra-run | grep -E '=(inactive|failed)'; do sleep 0.05; done"
    machine.run("sh", "-c", over)
    ended = machine.run("systemctl.real", "show", "-pResult,ExecMainStatus", "ra-run").stdout.split()
    assert ended == (["Result=timeout", "ExecMainStatus=9"] if killed else ["Result=exit-code", "ExecMainStatus=143"])
    assert machine.run("pgrep", "-f", "resource_api|run/began", check=False).stdout == ""
    machine.write("/run/go", "")
    again = machine.command("apply", "/root/site.yaml")
    assert ("in doubt" in again.stderr) is killed
    assert ("2 run" if killed else "1 run, 1 unchanged") in again.stdout, again.stdout + again.stderr


@pytest.mark.timeout(LAWS_TIMEOUT)
def test_the_laws_hold_on_the_machine(machine: Machine) -> None:
    """The class below, run there."""
    machine.run("rm", "/run/counted")
    machine.run_laws(f"{__file__}::TestService", "service")


@pytest.mark.timeout(3600 if WHOLE else 300)
def test_a_run_may_be_killed_or_refused_at_any_system_call(machine: Machine) -> None:
    """The sweeps of all bundled types, on the machine."""
    machine.run("rm", "/run/counted")
    machine.run_sweeps("service")


class TestService(ProviderCompliance):
    """A service that runs and is enabled; it is collected on the machine only."""

    __test__ = INSIDE.exists()
    type_name = "service"
    implementation = "systemd"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-a.service", "ensure": "running", "enable": True}

    @pytest.fixture
    def updated(self) -> Resource:
        return {"name": "ra-a", "ensure": "stopped", "enable": False}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": "ra-b", "ensure": "running", "enable": True}, {"name": "ra-tick.timer", "ensure": "running"}]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: sorted(map(str, Path("/etc/systemd/system").rglob("*")))

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes unit files, and systemd is asked for their states"
