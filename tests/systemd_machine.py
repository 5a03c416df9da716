"""A machine that was started by a real systemd: its own namespaces, and a root that is a copy of this one on demand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import command, type_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
#: A file that says that a program runs on the machine.
INSIDE: Final = Path("/run/ra-test-inside")
#: Seconds until systemd must have started.
_START: Final = 30.0
#: Attempts to download packages, two seconds apart.
_DOWNLOADS: Final = 30
#: Machines of one process may overlap: the kernel removes the processes of an earlier one later.
_NUMBERS: Final = count()
_CGROUPS: Final = Path("/sys/fs/cgroup")
#: The services of the distribution that stay; all others are about hardware, users or the network.
_KEPT: Final = ("systemd-journald", "cron", "emergency")
#: Mounts that a machine with namespaces cannot make.
_MASKED: Final = "sys-kernel-debug.mount sys-kernel-tracing.mount dev-mqueue.mount dev-hugepages.mount"
#: Arguments: a directory for mounts, what find(1) must not delete, then the directories beneath which other file
#: systems are needed.
_BOOT: Final = f"""
set -e
base=$1; kept=$2; shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$base"
mkdir "$base/up" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/up,workdir=$base/work" "$base/root"
for place in "$@"; do mkdir -p "$base/root/$place"; mount --rbind "$place" "$base/root/$place"; done
cd "$base/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
if [ -d /sys/fs/cgroup/systemd ]; then
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
else
    mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
rm -rf etc/systemd/system/*.wants
find lib/systemd/system-generators -type f $kept -delete
find lib/systemd/system etc/systemd/system -name '*.service' $kept -delete
for unit in {_MASKED}; do ln -sf /dev/null etc/systemd/system/$unit; done
printf '[Unit]\\nRequires=basic.target\\nAfter=basic.target\\n' >etc/systemd/system/ra-test.target
mkdir oldroot
pivot_root . oldroot
umount -l oldroot
exec env -i container=ra-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    /lib/systemd/systemd --system --unit=ra-test.target --log-target=null --show-status=false
"""


_ENVIRONMENT: Final = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "1",
}


#: Seconds for a test that runs a class of laws on the machine, also on a busy processor.
LAWS_TIMEOUT: Final = 240


class Machine:
    """Runs programs on the machine; ``pid`` is that of its systemd."""

    def __init__(self, pid: int) -> None:
        """Use a machine that has been started."""
        self.pid = pid

    def run(self, *arguments: str | Path, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program and return how it ended."""
        options["env"] = _ENVIRONMENT
        inside = ["nsenter", "--target", str(self.pid), "--all", "env", "--chdir=/", *map(str, arguments)]
        options = {"stdin": subprocess.DEVNULL, "timeout": 50, **options}
        process = subprocess.run(inside, check=False, capture_output=True, text=True, **options)
        assert not check or process.returncode == 0, f"{arguments}: {process.stdout}{process.stderr}"
        return process

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        self.run("sh", "-c", 'cat >"$0"', path, stdin=None, input=text)

    def read(self, path: str) -> str:
        """Return what a file of the machine holds; nothing if there is none."""
        return self.run("cat", path, check=False).stdout

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``resource-api``."""
        process = command.run(arguments, cwd=Path("/"), env=_ENVIRONMENT, text=True, within=self.pid)
        assert not check or process.returncode == 0, f"{arguments}: {process.stdout}{process.stderr}"
        return process

    def apply(self, manifest: str, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Apply a manifest that is given as text."""
        self.write("/root/site.yaml", manifest)
        return self.command("apply", "/root/site.yaml", *options, check=check)

    def run_tests(self, *arguments: str, **options: Any) -> int:
        """Run tests on the machine, which must pass; return their number."""
        path = ("--rootdir", str(ROOT), "-c", str(ROOT / "setup.cfg"))
        counts = os.environ.get("FAULTS_ALL_POINTS", "")
        variables = ["env", f"FAULTS_ALL_POINTS={counts and os.path.abspath(counts)}"]  # noqa: PTH100 - stays empty
        words = (*variables, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *path, *arguments)
        result = self.run(*words, check=False, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        return int(re.findall(r"(\d+) passed", result.stdout)[0])

    def run_laws(self, test: str, type_name: str, *laws: str) -> None:
        """Run a class of laws on the machine, or some of them, and leave its report for the table of types."""
        report = "/run/laws.xml"
        only = ("-k", " or ".join(laws)) if laws else ()
        assert self.run_tests(test, *only, f"--junitxml={report}", timeout=LAWS_TIMEOUT - 10) >= (len(laws) or 10)
        if directory := os.environ.get(type_table.DIRECTORY):
            Path(directory, f"{type_name}.xml").write_text(self.read(report), encoding="utf-8")

    def run_sweeps(self, type_name: str) -> None:
        """Kill runs of a type, and refuse them calls, on the machine; those that send systemd a message are points."""
        tests = ("test_a_run_may_be_killed_at_any_system_call", "test_any_system_call_may_be_refused")
        file = ROOT / "tests" / "faults" / "test_bundled_types.py"
        counts = Path(os.environ.get("FAULTS_ALL_POINTS") or "/nonexistent").absolute()
        self.run("mkdir", "-p", counts)
        assert self.run_tests(*(f"{file}::{test}[{type_name}]" for test in tests), timeout=3500) == len(tests)
        for name in self.run("ls", counts).stdout.split() if counts.is_dir() else ():
            (counts / name).write_text(self.read(str(counts / name)), encoding="utf-8")


@contextmanager
def started_machine(directory: Path, *, stored: Sequence[str] = (), network: bool = True) -> Iterator[Machine]:
    """Start a machine, and end all of it; ``directory`` is empty, and used for its mounts only.

    ``stored`` are further services, and generators of units, that it has of this one. Without ``network`` it has a
    loopback of its own, and nothing else.
    """
    groups = [hierarchy / f"ra-test-{os.getpid()}-{next(_NUMBERS)}" for hierarchy in _hierarchies()]
    here = os.stat("/").st_dev  # noqa: PTH116 - as below
    paths = {str(ROOT), sys.prefix, sys.base_prefix, *(item for item in sys.path if os.path.isdir(item))}  # noqa: PTH112
    rest = sorted(value for value in paths if os.stat(value).st_dev != here)  # noqa: PTH116 - a text
    namespaces = ["--cgroup", "--mount", "--pid", "--fork", "--uts", "--ipc", "--kill-child"]
    namespaces += [] if network else ["--net"]
    for group in groups:
        group.mkdir()
    # The shell moves itself into the control groups before they become the root of those that systemd sees.
    enter = "".join(f"echo $$ >{group}/cgroup.procs; " for group in groups)
    arguments = ["sh", "-c", f'{enter}exec unshare {" ".join(namespaces)} sh -c "$0" sh "$@"', _BOOT, str(directory)]
    services = [f"! -name {name}.service" for name in (*_KEPT, *stored)]
    arguments.append(" ".join([*services, *(f"! -name {name}-generator" for name in stored)]))
    with (directory.parent / "systemd.log").open("w+") as log:
        process = subprocess.Popen(
            [*arguments, *rest], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            machine = _wait_for(process, log.name)
            machine.write(str(INSIDE), "")
            machine.run("ip", "link", "set", "lo", "up")
            yield machine
        finally:
            process.kill()
            process.wait()
            for group in groups:
                _remove(group)


def download_packages(*names: str) -> None:
    """Put packages into the cache of apt, so that a machine without a network can install them.

    Another test may have the cache locked, which ``DPkg::Lock::Timeout`` does not wait for, or be replacing the lists.
    """
    options = ("-q", "-y", "--download-only", "-o", "DPkg::Lock::Timeout=120")
    for _ in range(_DOWNLOADS):
        process = subprocess.run(["apt-get", "install", *options, *names], check=False, capture_output=True, text=True)
        if process.returncode == 0:
            return
        time.sleep(2)
    raise AssertionError(process.stderr)


def _hierarchies() -> list[Path]:
    """Return the control groups that systemd uses: version 1 with its own hierarchy, or version 2 alone."""
    old = [_CGROUPS / "systemd", _CGROUPS / "unified"]
    return old if old[0].is_dir() else [_CGROUPS]


def _wait_for(process: subprocess.Popen[bytes], log: str) -> Machine:
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
        with suppress(OSError, IndexError):
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
            machine = Machine(int(children.split()[0]))
            answer = machine.run("systemctl", "is-system-running", check=False).stdout.strip()
            if answer in {"running", "degraded"}:
                return machine
    raise AssertionError(f"systemd has not started: {Path(log).read_text(encoding='utf-8')}")


def _remove(group: Path) -> None:
    """Remove a control group with those in it, once the kernel has removed their processes."""
    for directory, *_ in os.walk(group, topdown=False):
        for _ in range(100):
            with suppress(OSError):
                Path(directory).rmdir()
                break
            time.sleep(0.02)
