"""Services of OpenRC and of scripts: the real programs of both, in a mount namespace with scripts of these tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from resource_api import Runtime
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.faults.bench import WHOLE
from tests.providers.applied import REGISTRY, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts services")

HEAD: Final = """#!/bin/sh
### BEGIN INIT INFO
# Provides: {0}
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
# Short-Description: of a test
### END INIT INFO
"""
DAEMON: Final = (
    HEAD
    + """file=/run/{0}.pid
case $1 in
start) start-stop-daemon --start --background --make-pidfile --pidfile $file --exec /bin/sleep -- 1000;;
stop) start-stop-daemon --stop --remove-pidfile --pidfile $file;;
restart) $0 stop; $0 start;;
{1}
*) echo "Usage: $0 {{start|stop}}" >&2; exit 3;;
esac
"""
)
STATUS: Final = """status) start-stop-daemon --status --pidfile $file;;
force-reload) touch /run/reloaded;;"""
OPENRC: Final = """#!/sbin/openrc-run
command=/bin/sleep
command_args=1000
command_background=yes
pidfile=/run/{0}.pid
"""
SCRIPTS: Final = {
    "sysvinit": {
        "ra-a": DAEMON.format("ra-a", STATUS),
        "ra-b": DAEMON.format("ra-b", STATUS),
        "ra-silent": DAEMON.format("ra-silent", ""),
        "ra-bad": HEAD.format("ra-bad") + "[ $1 = status ] && exit 3\necho the disk is on fire >&2; exit 1\n",
        "ra-never": "#!/bin/sh\nexit 3\n",
    },
    "openrc": {
        "ra-a": OPENRC.format("ra-a") + 'extra_started_commands="reload"\nreload() { touch /run/reloaded; }\n',
        "ra-b": OPENRC.format("ra-b"),
        "ra-needy": OPENRC.format("ra-needy") + "depend() { need ra-b; }\n",
        "ra-lsb": DAEMON.format("ra-lsb", STATUS),
        "ra-bad": "#!/sbin/openrc-run\nstart() { eerror the disk is on fire; return 1; }\n",
    },
}
#: Takes the place of a program, logs its arguments, and kills its caller before or after one call.
COUNTING: Final = """#!/bin/sh
case "$*" in *status*) exec {0}.real "$@";; esac
[ -e /run/calls ] || exec {0}.real "$@"
echo "$*" >>/run/calls
number=$(wc -l </run/calls)
[ "$(cat /run/kill 2>/dev/null)" = "before $number" ] && kill -9 $PPID && exit
{0}.real "$@"
code=$?
[ "$(cat /run/kill 2>/dev/null)" = "after $number" ] && kill -9 $PPID
exit $code
"""
NAMES: Final = {"sysvinit": "sysvinit", "openrc": "OpenRC"}
PROGRAMS: Final = {
    "sysvinit": ("/usr/sbin/service", "/usr/sbin/update-rc.d"),
    "openrc": ("/usr/sbin/rc-service", "/usr/sbin/rc-update"),
}
#: Before or after which of these calls a run is killed, and whether it is one that starts or stops.
KILLED: Final = {"sysvinit": (("on", "after 1"), ("off", "before 2")), "openrc": (("on", "before 2"),)}


@contextmanager
def started(system: str) -> Iterator[None]:
    """Have the services of these tests, and no others, with the directories of their init system."""
    path = Path("/etc/init.d")
    for covered in (Path("/run"), path):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", covered], check=True)
    for link in (*Path("/etc").glob("rc?.d/*"), *Path("/etc/runlevels").glob("*/*")):
        link.unlink()
    for name, text in SCRIPTS[system].items():
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    try:
        if system == "openrc":
            for level in ("sysinit", "default"):
                subprocess.run(["openrc", level], check=True, capture_output=True)
        yield
    finally:
        for file in Path("/run").glob("ra-*.pid"):
            end(file)
        subprocess.run(["umount", path, "/run"], check=True)


def end(file: Path) -> None:
    """End the process whose number is in a file."""
    with suppress(ProcessLookupError):
        os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture(params=["sysvinit", "openrc"])
def system(request: pytest.FixtureRequest, private_etc: None) -> Iterator[str]:  # noqa: ARG001 - /etc is a copy
    """Yield the name of an init system that has the services of these tests."""
    with started(request.param):
        yield request.param


@pytest.fixture(scope="class")
def openrc(private_etc: None) -> Iterator[None]:  # noqa: ARG001 - as above
    """Have the services of OpenRC."""
    with started("openrc"):
        yield


@pytest.fixture(scope="class")
def sysvinit(private_etc: None) -> Iterator[None]:  # noqa: ARG001 - as above
    """Have the services of scripts."""
    with started("sysvinit"):
        yield


def links(name: str) -> list[str]:
    """Return the links of a service in all runlevels."""
    result = [*Path("/etc").glob(f"rc?.d/*{name}"), *Path("/etc/runlevels").glob(f"*/{name}")]
    return sorted("/".join(item.parts[2:]) for item in result if item.is_symlink())


def process(name: str) -> int:
    """Return the number of the process of a service; 0 if it has none."""
    with suppress(OSError):
        number = int(Path(f"/run/{name}.pid").read_text())
        if ") Z" not in Path(f"/proc/{number}/stat").read_text():
            return number
    return 0


def test_a_service_is_started_and_enabled_and_then_stopped_and_disabled(system: str) -> None:
    """A second run changes nothing, and noop does not either; what is listed is as it is."""
    on = {"Service[ra-a]": {"ensure": "running", "enable": True}}
    off = {"Service[ra-a.service]": {"ensure": "stopped", "enable": False}}
    for expected, runs in ((on, True), (off, False), (on, True)):
        assert run(expected, noop=True)[0].summary.updated == 1
        assert bool(process("ra-a")) is not runs
        assert run(expected)[0].summary.updated == 1
        assert bool(process("ra-a")) is runs
        assert run(expected)[0].summary.unchanged == 1
    words = (sys.executable, "-m", "resource_api", "resource", "service")
    listed = yaml.safe_load(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert {title[8:-1] for title in listed["resources"]} == SCRIPTS[system].keys()
    assert run(listed["resources"])[0].summary.unchanged == len(SCRIPTS[system])
    starts = [f"rc{level}.d/S01ra-a" for level in "2345"] if system == "sysvinit" else ["runlevels/default/ra-a"]
    assert set(starts) <= set(links("ra-a"))


def test_what_openrc_starts_and_stops_besides_is_in_the_plan(openrc: None) -> None:  # noqa: ARG001 - the machine
    """The requirements of a service and its dependents; what is declared otherwise is left as it is."""

    def effects(name: str, ensure: str) -> list[tuple[str, str]]:
        plan = Runtime(REGISTRY, log=Log("off")).plan({"resources": {f"Service[{name}]": {"ensure": ensure}}})
        return [
            (side_effect.action, side_effect.name) for step in plan.steps for side_effect in step.side_effects or ()
        ]

    assert effects("ra-needy", "running") == [("start", "ra-b")]
    for name in ("ra-b", "ra-needy"):
        assert run({f"Service[{name}]": {"ensure": "running"}})[0].exit_code == 0
    assert effects("ra-b", "stopped") == [("stop", "ra-needy")]
    expected = {"Service[ra-b]": {"ensure": "stopped"}, "Service[ra-needy]": {"ensure": "running"}}
    assert "would also stop ra-needy, which Service[ra-needy] declares otherwise" in reason(run(expected)[0])
    assert process("ra-b") != 0
    assert run({"Service[ra-b]": {"ensure": "stopped"}})[0].exit_code == 0
    assert process("ra-needy") == 0


def test_a_refresh_restarts_or_reloads_what_runs(system: str) -> None:
    """A script that cannot be reloaded is restarted; what is stopped stays so."""
    resources: dict[str, Any] = {
        "File[/run/conf]": {"content": "1"},
        "Service[ra-a]": {"ensure": "running", "refresh": "reload", "subscribe": "File[/run/conf]"},
        "Service[ra-b]": {"ensure": "running", "subscribe": "File[/run/conf]"},
    }
    assert run(resources)[0].exit_code == 0
    before = [process("ra-a"), process("ra-b")]
    resources["File[/run/conf]"] = {"content": "2"}
    assert run(resources)[0].exit_code == 0
    assert Path("/run/reloaded").exists()
    assert process("ra-a") == before[0] != 0
    assert process("ra-b") not in {before[1], 0}
    if system == "openrc":
        resources["Service[ra-b]"]["refresh"] = "reload"
    resources["File[/run/conf]"] = {"content": "3"}
    resources["Service[ra-a]"]["ensure"] = "stopped"
    before = [process("ra-a"), process("ra-b")]
    assert run(resources)[0].exit_code == 0
    assert process("ra-a") == 0
    assert process("ra-b") not in {before[1], 0}


def test_what_cannot_be_done_is_said(system: str) -> None:
    """A script that fails, a service that does not exist, and a mask."""
    assert "the disk is on fire" in reason(run({"Service[ra-bad]": {"ensure": "running"}})[0])
    missing = "there is no service ra-none: /etc/init.d/ra-none is missing or not executable"
    assert missing in reason(run({"Service[ra-none]": {"ensure": "running"}})[0])
    assert warned({"Service[ra-none]": {"enable": True}}) == ["there is no service 'ra-none'"]
    assert run({"Service[ra-none]": {"ensure": "stopped", "enable": False}})[0].summary.unchanged == 1
    masked = f"ra-a cannot be masked: {NAMES[system]} does not know that; declare 'enable: false'"
    assert masked in reason(run({"Service[ra-a]": {"enable": "mask"}})[0])


@pytest.mark.usefixtures("sysvinit")
def test_a_script_without_status_needs_the_file_of_its_process() -> None:
    """Then it is started and stopped as the others are; a stale file counts as stopped."""
    unknown = {"Service[ra-silent]": {"ensure": "running"}}
    message = "whether ra-silent runs is not known: its script has no action 'status'; declare its 'pidfile'"
    assert message in reason(run(unknown)[0])
    for ensure in ("running", "stopped"):
        body = {"ensure": ensure, "pidfile": "/run/ra-silent.pid"}
        assert run({"Service[ra-silent]": body})[0].summary.updated == 1
        assert run({"Service[ra-silent]": body})[0].summary.unchanged == 1
    for stale in ("999999999\n", "", "-1", "x" * 100):
        Path("/run/ra-silent.pid").write_text(stale)
        assert run({"Service[ra-silent]": body})[0].summary.unchanged == 1
    Path("/run/ra-silent.pid").unlink()


@pytest.mark.usefixtures("sysvinit")
def test_links_in_a_part_of_the_runlevels_are_completed_or_removed() -> None:
    """A service is enabled in all runlevels that its script names, or in none."""
    never = reason(run({"Service[ra-never]": {"enable": True}})[0])
    assert "ra-never cannot be enabled: the head of its script names no runlevel in 'Default-Start'" in never
    run({"Service[ra-a]": {"enable": True}})
    whole = links("ra-a")
    for enable in (True, False):
        Path("/etc/rc3.d/S01ra-a").unlink()
        report = run({"Service[ra-a]": {"enable": enable}})[0]
        assert report.exit_code == 0
        if enable:
            assert links("ra-a") == whole
    assert not [link for link in links("ra-a") if "/S" in link]


@pytest.mark.usefixtures("openrc")
def test_a_crashed_service_and_one_of_another_init_system_are_started() -> None:
    """For OpenRC a crashed one counts as started; of scripts that are not its own it knows no state."""
    expected = {f"Service[{name}]": {"ensure": "running"} for name in ("ra-a", "ra-lsb")}
    assert run(expected)[0].summary.updated == len(expected)
    end(Path("/run/ra-a.pid"))
    # Where Debian's start-stop-daemon does not replace that of OpenRC, it writes this file.
    record = Path("/run/openrc/daemons/ra-a/001")
    record.parent.mkdir()
    record.write_text("exec=/bin/sleep\nargv_0=/bin/sleep\nargv_1=1000\npidfile=/run/ra-a.pid\n")
    Path("/run/ra-a.pid").write_text("999999999\n")
    report, _ = run({"Service[ra-a]": {"ensure": "running"}})
    assert report.summary.updated == 1
    assert process("ra-a")
    assert run(expected)[0].summary.unchanged == len(expected)


@pytest.mark.usefixtures("openrc")
def test_a_service_is_added_to_its_runlevel_and_removed_from_all() -> None:
    """One that is in a runlevel stays there."""
    run({"Service[ra-b]": {"enable": True, "runlevel": "boot"}})
    assert links("ra-b") == ["runlevels/boot/ra-b"]
    assert run({"Service[ra-b]": {"enable": True}})[0].summary.unchanged == 1
    subprocess.run(["rc-update", "add", "ra-b", "default"], check=True, capture_output=True)
    run({"Service[ra-b]": {"enable": False}})
    assert links("ra-b") == []


def test_killed_at_any_change_the_next_run_converges(system: str, tmp_path: Path) -> None:
    """The next run starts and enables, or stops and disables, what is left."""
    programs = PROGRAMS[system]
    counters = [tmp_path / Path(program).name for program in programs]
    for program, counter in zip(programs, counters, strict=True):
        shutil.copy(program, f"{counter}.real")
        counter.write_text(COUNTING.format(counter))
        counter.chmod(0o755)
        subprocess.run(["mount", "--bind", counter, program], check=True)
    site = tmp_path / "site.yaml"
    states = {
        "on": {f"Service[{name}]": {"ensure": "running", "enable": True} for name in ("ra-a", "ra-b")},
        "off": {f"Service[{name}]": {"ensure": "stopped", "enable": False} for name in ("ra-a", "ra-b")},
    }
    command = [sys.executable, "-m", "resource_api", "apply", "--state", f"sqlite:{tmp_path}/state", str(site)]
    try:
        for goal, point in KILLED[system]:
            expected, before = states[goal], states["off" if goal == "on" else "on"]
            assert run(before)[0].exit_code == 0
            site.write_text(json.dumps({"resources": expected}))
            Path("/run/calls").write_text("")
            Path("/run/kill").write_text(point)
            assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
            Path("/run/kill").write_text("")
            assert run(expected)[0].exit_code == 0
            assert [bool(process(name)) for name in ("ra-a", "ra-b")] == [goal == "on"] * 2
            assert run(expected)[0].summary.unchanged == len(expected)
    finally:
        subprocess.run(["umount", *programs], check=True)


class ScriptLaws(ProviderCompliance):
    """The laws, for services with scripts; in ``make test-all``, as each starts and stops services many times."""

    __test__ = False
    type_name = "service"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-a", "ensure": "running", "enable": True}

    @pytest.fixture
    def updated(self) -> Resource:
        return {"name": "ra-a", "ensure": "stopped", "enable": False}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": "ra-b", "ensure": "running", "enable": True}]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [*links("ra-a"), *links("ra-b"), process("ra-a"), process("ra-b")]

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes scripts of services, their links, and what they say of themselves"


@pytest.mark.usefixtures("sysvinit")
class TestSysvinit(ScriptLaws):
    """Scripts that ``service`` runs."""

    __test__ = WHOLE
    implementation = "sysvinit"


@pytest.mark.usefixtures("openrc")
class TestOpenrc(ScriptLaws):
    """Scripts that OpenRC runs."""

    __test__ = WHOLE
    implementation = "openrc"
