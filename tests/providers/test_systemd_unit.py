"""Unit files that the real systemd-analyze verifies, and a machine with systemd that reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import reason, run, warned
from tests.systemd_machine import Machine, started_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes units")

PLACE = Path("/etc/systemd/system")
SLEEP: dict[str, Any] = {"Service": {"ExecStart": "/bin/sleep 1000"}}


@pytest.mark.usefixtures("private_system")
class TestFiles:
    """In a copy of /etc, without a systemd that runs."""

    def test_sections_are_written_as_text(self) -> None:
        """Lists are repeated settings; text and sections that mean the same do not differ."""
        content = {
            "Unit": {"Description": "é"},
            "Service": {"ExecStart": ["", "/bin/true"], "PrivateTmp": True, "Nice": 5},
        }
        run(
            {
                "Systemd_unit[ra-test.service]": {
                    "content": {**content, "Service": {"Type": "oneshot", **content["Service"]}}
                }
            }
        )
        settings = "Type=oneshot\nExecStart=\nExecStart=/bin/true\nPrivateTmp=true\nNice=5\n"
        text = f"[Unit]\nDescription=é\n\n[Service]\n{settings}"
        assert (PLACE / "ra-test.service").read_text() == text
        assert run({"Systemd_unit[ra-test.service]": {"content": text.rstrip()}})[0].summary.unchanged == 1
        assert run({"Systemd_unit[ra-test.service]": {"ensure": "absent"}})[0].summary.deleted == 1

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            (
                "ra-test.service",
                "[Service]\nExecStart=/bin/true\nFoo=1",
                "/etc/systemd/system/ra-test.service:3: Unknown key 'Foo'",
            ),
            ("ra-test.service", {"Service": {"ExecStart": "/no/such"}}, "Command /no/such is not executable"),
            ("ra-test.timer", {"Timer": {"OnCalendar": "whenever"}}, "Failed to parse calendar specification"),
            ("ra-test.mount", {"Mount": {"What": "tmpfs", "Where": "/a/b"}}, "Where= setting doesn't match unit name"),
            ("systemd-journald.service.d/ra.conf", {"Service": {"Restart": "perhaps"}}, "ra.conf:2: Failed to parse"),
            ("ra-test-none.service.d/ra.conf", {"Service": {"Nice": 1}}, "ra-test-none.service"),
        ],
    )
    def test_what_systemd_would_not_accept_is_not_written(self, name: str, content: Any, reason: str) -> None:
        """The reason is what systemd-analyze says, and a warning in the plan; other units of the call are written."""
        resources = {f"Systemd_unit[{name}]": {"content": content}, "Systemd_unit[ra-good.service]": {"content": SLEEP}}
        [warning] = warned(resources)
        assert reason in warning
        report, lines = run(resources)
        assert [line for line in lines if line.startswith("warning")] == []
        [error] = [step.error for step in report.steps if step.error]
        assert reason in error
        assert "/run" not in error
        assert not (PLACE / name).exists()
        assert (PLACE / "ra-good.service").exists()
        (PLACE / "ra-good.service").unlink()
        if name.startswith("ra-test."):
            assert run({f"Systemd_unit[{name}]": {"content": content, "verify": False}})[0].exit_code == 0
            (PLACE / name).unlink()

    def test_a_drop_in_that_does_not_go_with_another_one_is_refused_with_its_name(self) -> None:
        """What is wrong with the unit already is not held against a new one."""
        directory = PLACE / "ra-test.service.d"
        directory.mkdir()
        (PLACE / "ra-test.service").write_text("[Service]\n")
        (directory / "z.conf").write_text("[Service]\nExecStart=/bin/true\n")
        more = {"content": {"Service": {"ExecStart": "/bin/false"}}}
        error = reason(run({"Systemd_unit[ra-test.service.d/a.conf]": more})[0])
        assert "Service has more than one ExecStart= setting" in error
        assert error.endswith(f"(together with {directory}/z.conf)")
        assert not (directory / "a.conf").exists()
        (directory / "y.conf").write_text("[Service]\nExecStart=/bin/false\n")
        nice = {"content": {"Service": {"Nice": 5}}}
        assert run({"Systemd_unit[ra-test.service.d/b.conf]": nice})[0].summary.created == 1
        for path in (*directory.iterdir(), PLACE / "ra-test.service"):
            path.unlink()

    def test_a_later_drop_in_that_counts_is_named_in_the_plan(self) -> None:
        """The last value of a setting counts, and commands are added, unless an empty one clears those before."""
        directory = PLACE / "ra-test.service.d"
        directory.mkdir(exist_ok=True)
        (directory / "override.conf").write_text("[Service]\nNice=5\nExecStartPre=/bin/b\n# Type=x\n")
        (directory / "z.conf").write_text("[Service]\nExecStart=\nExecStart=/bin/sleep 5\nLimitNOFILE=\\\n 7\n")
        content = {
            "Service": {"Nice": 3, "ExecStartPre": "/bin/true", "LimitNOFILE": 8, "Type": "simple", **SLEEP["Service"]}
        }
        for name in ("ra-test.service", "ra-test.service.d/10-a.conf"):
            assert [item for item in warned({f"Systemd_unit[{name}]": {"content": content}}) if "counts" in item] == [
                f"{directory}/override.conf comes after it and sets Nice to '5', which counts",
                f"{directory}/z.conf comes after it and sets ExecStart to '', which counts",
                f"{directory}/z.conf comes after it and sets LimitNOFILE to '7', which counts",
            ]
        last = {"Systemd_unit[ra-test.service.d/zz.conf]": {"content": content, "verify": False}}
        assert warned(last) == []
        for path in directory.iterdir():
            path.unlink()

    def test_a_drop_in_for_units_of_one_beginning_is_verified_with_each(self) -> None:
        """There is no unit of that name itself."""
        for name in ("ra-test-a.service", "ra-test-b.service"):
            (PLACE / name).write_text("[Service]\nExecStart=/bin/true\n")
        name = "Systemd_unit[ra-test-.service.d/more.conf]"
        assert "more.conf:2: Failed to parse" in reason(run({name: {"content": "[Service]\nNice=x\n"}})[0])
        assert run({name: {"content": "[Service]\nNice=5\n"}})[0].summary.created == 1
        for path in PLACE.rglob("ra-test-*.service*/*"):
            path.unlink()
        for path in PLACE.glob("ra-test-*.service"):
            path.unlink()

    def test_units_are_verified_together(self) -> None:
        """A timer with the service that it starts, in either order, and the drop-in of a unit that is new."""
        resources = {
            "Systemd_unit[ra-a.timer]": {"content": {"Timer": {"OnCalendar": "daily"}}},
            "Systemd_unit[ra-a.service]": {"content": SLEEP},
            "Systemd_unit[ra-a.service.d/more.conf]": {"content": {"Service": {"Nice": 5}}},
            "Systemd_unit[ra-b.service]": {"content": {"Unit": {"Requires": "ra-c.service"}, **SLEEP}},
            "Systemd_unit[ra-c.service]": {"content": SLEEP},
        }
        report, _ = run(resources)
        assert report.exit_code == 0, [step.error for step in report.steps]
        for name in resources:
            (PLACE / name[13:-1]).unlink()

    def test_a_link_is_left_alone(self) -> None:
        """A masked unit is not unmasked by the way."""
        link = PLACE / "ra-masked.service"
        link.symlink_to("/dev/null")
        declared = {"Systemd_unit[ra-masked.service]": {"content": SLEEP}}
        assert reason(run(declared)[0]) == "it is a link to /dev/null"
        assert link.is_symlink()
        link.unlink()

    @pytest.mark.parametrize(
        "bad",
        [
            *("x", "../x.service", "-x.service", ".x.service", "a b.service", "a/b.service", "x.device", "x.service\n"),
            *("x.service.d/../../y.conf", "x.service.d/y", "x.service.d/.y.conf"),
        ],
    )
    def test_a_hostile_name_is_refused(self, bad: str) -> None:
        """It is no option, and no path out of the directory."""
        with pytest.raises(ManifestError):
            run({"Systemd_unit[x.service]": {"name": bad, "content": SLEEP}})

    def test_a_setting_is_one_line(self) -> None:
        """A value cannot add a setting."""
        with pytest.raises(ManifestError):
            run({"Systemd_unit[x.service]": {"content": {"Service": {"User": "a\nExecStart=/bin/sh"}}}})


@pytest.mark.usefixtures("private_system")
class TestSystemdUnit(ProviderCompliance):
    """A service in its two forms."""

    type_name = "systemd_unit"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-a.service", "content": SLEEP}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "content": "[Service]\nExecStart=/bin/sleep 1\n"}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [
            {"name": "ra-test-b@.service", "content": SLEEP},
            {"name": "cron.service.d/ra-test.conf", "content": {"Service": {"Nice": 5}}, "verify": False},
        ]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: sorted(path.name for path in PLACE.rglob("*"))

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes /etc/systemd/system"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield a machine on which calls of ``systemctl daemon-reload`` are counted."""
    with started_machine(tmp_path_factory.mktemp("machine")) as machine:
        machine.run("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
        machine.write("/usr/bin/systemctl", '#!/bin/sh\necho "$*" >>/run/calls\nexec /usr/bin/systemctl.real "$@"\n')
        machine.run("chmod", "755", "/usr/bin/systemctl")
        yield machine


def test_systemd_reads_all_units_once_and_starts_them(machine: Machine) -> None:
    """One ``daemon-reload``; the timer runs; a file that was changed by hand and not read is drift."""
    resources: dict[str, Any] = {
        "Service[ra-a.timer]": {"ensure": "running"},
        "Systemd_unit[ra-a.service]": {"content": SLEEP},
        "Systemd_unit[ra-a.service.d/more.conf]": {"content": {"Service": {"Nice": 7}}},
        "Systemd_unit[ra-a.timer]": {
            "content": {"Timer": {"OnCalendar": "yearly"}, "Install": {"WantedBy": "timers.target"}}
        },
    }
    text = json.dumps({"project": "p", "resources": resources})
    assert "3 created, 1 updated" in machine.apply(text).stdout
    assert machine.read("/run/calls").count("daemon-reload") == 1
    show = ("systemctl.real", "show", "-pActiveState,UnitFileState", "--value", "ra-a.timer")
    assert machine.run(*show).stdout.split() == ["active", "disabled"]
    assert machine.run("systemctl.real", "show", "-pNice", "--value", "ra-a.service").stdout == "7\n"
    machine.run("rm", "/run/calls")
    assert "4 unchanged" in machine.apply(text).stdout
    assert [line.split()[0] for line in machine.read("/run/calls").splitlines()] == ["show", "show"]
    machine.run("systemctl.real", "start", "ra-a.service")
    machine.run("touch", "/etc/systemd/system/ra-a.service")
    outcome = machine.apply(text)
    assert "content: changed, and systemd has not read it" in outcome.stderr
    assert "4 unchanged" in machine.apply(text).stdout


def test_a_unit_that_is_removed_is_stopped_and_disabled(machine: Machine) -> None:
    """So are the instances of a template; a drop-in, and a file in place of one of the distribution, stop nothing."""
    enabled = {"Service": SLEEP["Service"], "Install": {"WantedBy": "multi-user.target"}}
    contents = {"ra-b.service": enabled, "ra-c@.service": enabled, "ra-d.service": enabled}
    resources: dict[str, Any] = {f"Systemd_unit[{name}]": {"content": content} for name, content in contents.items()}
    resources["Systemd_unit[ra-d.service.d/more.conf]"] = {"content": {"Service": {"Nice": 7}}}
    machine.apply(json.dumps({"project": "p", "resources": resources}))
    machine.run("systemctl.real", "enable", "--now", "ra-b", "ra-c@one", "ra-d")
    machine.run("mkdir", "-p", "/usr/local/lib/systemd/system")
    machine.run("cp", "/etc/systemd/system/ra-d.service", "/usr/local/lib/systemd/system/")
    absent = {reference: {"ensure": "absent"} for reference in resources}
    assert "4 deleted" in machine.apply(json.dumps({"project": "p", "resources": absent})).stdout
    states = machine.run("systemctl.real", "is-active", "ra-b", "ra-c@one", "ra-d", check=False).stdout.split()
    assert states == ["inactive", "inactive", "active"]
    links = machine.run("ls", "/etc/systemd/system/multi-user.target.wants").stdout.split()
    assert [name for name in links if name.startswith("ra-")] == ["ra-d.service"]


def test_a_unit_that_is_removed_says_which_services_stop(machine: Machine) -> None:
    """Its own and what is bound to it; one that is declared to run keeps it."""
    service = "[Service]\nExecStart=/bin/sleep 1000\n"
    bound = f"[Unit]\nRequires=ra-e.service\nAfter=ra-e.service\n{service}"
    resources: dict[str, Any] = {
        "Systemd_unit[ra-e.service]": {"content": service},
        "Systemd_unit[ra-f.service]": {"content": bound},
        "Service[ra-f]": {"ensure": "running"},
    }
    machine.apply(json.dumps({"project": "p", "resources": resources}))
    absent = {"Systemd_unit[ra-e.service]": {"ensure": "absent"}}
    plan = machine.apply(json.dumps({"project": "p", "resources": absent}), "--noop").stdout
    assert "also stops Service[ra-e], Service[ra-f]" in plan, plan
    text = json.dumps({"project": "p", "resources": {**absent, "Service[ra-f]": {"ensure": "running"}}})
    assert (
        "would also stop Service[ra-f], which Service[ra-f] declares otherwise"
        in machine.apply(text, check=False).stderr
    )
    assert machine.run("systemctl.real", "is-active", "ra-e", "ra-f").stdout.split() == ["active", "active"]


def test_a_unit_that_is_removed_says_what_is_disabled(machine: Machine) -> None:
    """Its own and what ``Also=`` names; one that is declared enabled keeps it."""
    timer = {"Timer": {"OnCalendar": "yearly"}, "Install": {"WantedBy": "timers.target"}}
    service = {"Service": {"ExecStart": "/bin/sleep 1000"}, "Install": {"WantedBy": "multi-user.target"}}
    service["Install"]["Also"] = "ra-h.timer"
    resources: dict[str, Any] = {
        "Systemd_unit[ra-h.service]": {"content": {"Service": {"ExecStart": "/bin/true"}}},
        "Systemd_unit[ra-h.timer]": {"content": timer},
        "Systemd_unit[ra-g.service]": {"content": service},
        "Service[ra-g]": {"enable": True},
    }
    machine.apply(json.dumps({"project": "p", "resources": resources}))
    show = ("systemctl.real", "is-enabled", "ra-g", "ra-h.timer")
    assert machine.run(*show).stdout.split() == ["enabled"] * 2
    absent = {"Systemd_unit[ra-g.service]": {"ensure": "absent"}}
    plan = machine.apply(json.dumps({"project": "p", "resources": absent}), "--noop").stdout
    assert "also disables Service[ra-g], Service[ra-h.timer]" in plan, plan
    text = json.dumps({"project": "p", "resources": {**absent, "Service[ra-h.timer]": {"enable": True}}})
    reason = "would also disable Service[ra-h.timer], which Service[ra-h.timer] declares otherwise"
    assert reason in machine.apply(text, check=False).stderr
    assert machine.run(*show).stdout.split() == ["enabled"] * 2
    machine.apply(json.dumps({"project": "p", "resources": absent}))
    assert machine.run("systemctl.real", "is-enabled", "ra-h.timer", check=False).stdout.split() == ["disabled"]
