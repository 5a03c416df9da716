"""``rehearse``: the manifest really runs, what it does is reported, and the machine is as before."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click
import pytest

from resource_api.testing import rehearse
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.scenarios.conftest import Bench

#: How often a rehearsal is killed.
KILLS: Final = 50 if os.environ.get("FAULTS_ALL_POINTS") else 4

#: A user without a name; a number of these tests alone: ``userdel`` refuses to remove an account with processes.
USER: Final = 54821

#: Stopped long before it has started all that it wants to start.
BOMB: Final = """python3 -c '
import os, signal
children = []
try:
    while len(children) < 30000:
        if not (child := os.fork()):
            signal.pause()
        children.append(child)
except OSError:
    pass
print("possible: a fork bomb" if len(children) > 5000 else "refused: a fork bomb")
'
"""

#: The same with threads, which count as processes and are started sooner.
THREADS: Final = """python3 -c '
import os, threading
threading.stack_size(65536)
count = 0
try:
    for count in range(5000):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
except RuntimeError:
    pass
print("possible: endless threads" if count > 4000 else "refused: endless threads", flush=True)
os._exit(0)
'
"""

#: A line is printed for what should be impossible; the last commands end everything that they can reach.
HOSTILE: Final = """
try() { if sh -c "$1" >/dev/null 2>&1; then echo "possible: $1"; else echo "refused: $1"; fi; }
try 'echo 5 >/proc/sys/vm/dirty_ratio'
try 'echo x >/proc/sys/kernel/domainname'
try 'echo 3 >/proc/sysrq-trigger'
try 'echo 1 >/sys/kernel/mm/ksm/run'
try 'mkdir /sys/fs/cgroup/hostile /sys/fs/cgroup/unified/hostile'
try 'chmod 600 /proc/meminfo'
try 'mknod /tmp/disk b 254 0'
try 'mount -t tmpfs tmpfs /mnt'
try 'mount -o remount,rw /sys'
try 'umount /proc/sys'
try 'unshare --mount true'
try 'nsenter --target 1 --mount true'
try 'unshare --user --map-root-user --mount sh -c "mount -o remount,rw,bind /sys"'
try 'unshare --user --map-root-user --mount --pid --fork mount -t proc proc /mnt'
try 'hostname hostile'
try 'date --set 2001-01-01'
try 'dmesg'
try 'ls /dev/vd* /dev/sd* /dev/nvme* /dev/mem /dev/kmsg | grep .'
try 'cat /proc/kcore | head -c 1 | grep .'
try 'kill -0 PROCESS'
try 'python3 -c "import socket; socket.socket(socket.AF_UNIX).connect(\\"SOCKET\\")"'
try 'python3 -c "import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + \\"ABSTRACT\\")"'
try 'python3 -c "import ctypes; exit(ctypes.CDLL(None).reboot(0x89abcdef) != 0)"'
try 'python3 -c "import os; os.setns(os.open(chr(47) + \\"proc/1/ns/net\\", 0), 0)"'
try 'python3 -c "import socket; socket.create_connection((\\"127.0.0.1\\", PORT), 2)"'
try 'python3 -c "import ctypes; exit(ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0)"'
try 'head -c 10G /dev/zero >/var/tmp/big'
rm -f /var/tmp/big
BOMB
echo hostile >/etc/hostname; rm -rf /home /srv /opt
kill -9 -1
""".replace("BOMB", BOMB.strip())


def mounts() -> list[str]:
    """Return the mounts of this machine but those of other tests, which come and go."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "/ra-test-" not in line]


def test_the_machine_is_as_before_and_the_report_says_what_was_done(bench: Bench) -> None:
    """Files are made, changed and deleted inside only; each is named with the step that did it."""
    file, changed, directory = bench.home / "kept", bench.home / "changed", bench.home / "made"
    for path in (file, changed):
        path.write_text("before\n")
    before = mounts()
    result = bench.run(
        "rehearse",
        bench.write(
            "site.yaml",
            f"""
            resources:
              File[{changed}]: {{ensure: file, content: "after\\n"}}
              Exec[side effect]:
                command: rm {file}; mkdir -p {directory}/deep; echo 1 >{directory}/deep/1; echo more >>{changed}
                shell: true
            """,
        ),
        "--test",
        f"test -e {directory}/deep/1 -a ! -e {file}",
        "--test",
        "exit 7",
    )
    assert result.code == 2, result
    assert (file.read_text(), changed.read_text(), directory.exists()) == ("before\n", "before\n", False)
    assert mounts() == before
    assert "Applied in" in result.out
    listed = result.out.partition("Beyond what is declared:\n")[2].partition("\n\n")[0].splitlines()
    assert listed == [
        f"  Exec[side effect]: changed {changed} ({bench.home}/site.yaml:3)",
        f"  Exec[side effect]: deleted {file}",
        f"  Exec[side effect]: made {directory} with 2 files",
    ]
    table = result.out.partition("Verdicts:\n")[2].splitlines()
    assert [line.split("  ")[1] for line in table if not line.startswith("   ")] == [
        "run",
        "silent twice",
        f"test test -e {directory}/deep/1 -a ! -e {file}",
        "test exit 7",
    ]
    again = [line.strip() for line in table if " again" in line]
    assert any(f"File[{changed}]: content changed" in line and line.endswith("site.yaml:2)") for line in again), table
    assert any("Exec[side effect]: runs again; say by" in line for line in again), table


def test_a_sound_manifest_has_only_good_verdicts(bench: Bench) -> None:
    """Exit code 0, as text and as JSON; users are made and gone again."""
    manifest = bench.write(
        "site.yaml",
        f"""
        resources:
          Group[rehearsed]: {{ensure: present}}
          User[rehearsed]: {{ensure: present, gid: rehearsed}}
          File[{bench.home}/made]: {{ensure: file, content: hi, owner: rehearsed}}
        """,
    )
    result = bench.run("rehearse", manifest, "--destroy", "--json")
    assert result.code == 0, result
    verdicts = {verdict["question"]: verdict["ok"] for verdict in result.document["verdicts"]}
    assert verdicts == {"run": True, "silent twice": True, "clean after destroy": True}
    assert "rehearsed" not in Path("/etc/passwd").read_text(encoding="utf-8")


def test_what_is_left_after_destroy_is_named(bench: Bench) -> None:
    """What a step makes beside what it declares is left when what it declares is gone."""
    (bench.home / "old").touch()
    result = bench.run(
        "rehearse",
        bench.write(
            "site.yaml",
            f"""
            resources:
              File[{bench.home}/made]: {{ensure: file, content: hi}}
              File[{bench.home}/old]: {{ensure: absent}}
              Exec[once]: {{command: touch {bench.home}/left, creates: {bench.home}/left}}
            """,
        ),
        "--destroy",
    )
    assert result.code == 2
    assert f"clean after destroy  no  Exec[once]: leaves {bench.home}/left made" in result.out


def test_a_missing_relationship_is_named_with_its_line(bench: Bench) -> None:
    """What fails, or ends differently, in another order is reduced to the relationship that is missing."""
    manifest = bench.write(
        "site.yaml",
        f"""
        resources:
          File[{bench.home}/directory]: {{ensure: directory}}
          File[{bench.home}/source]: {{ensure: file, content: hi}}
          Exec[copy]: {{command: cp {bench.home}/source {bench.home}/copy, creates: {bench.home}/copy}}
          File[{bench.home}/directory/in]: {{ensure: file, content: hi}}
          Exec[one]: {{command: echo 1 >>{bench.home}/both, shell: true, unless: grep 1 {bench.home}/both}}
          Exec[two]: {{command: echo 2 >>{bench.home}/both, shell: true, unless: grep 2 {bench.home}/both}}
        """,
    )
    result = bench.run("rehearse", manifest, "--orders", "2", "--json")
    assert result.code == 2, result
    outcome = {verdict["question"]: verdict["findings"] for verdict in result.document["verdicts"]}["free in order"]
    assert [(item["reference"], item["text"], item["place"].rpartition(":")[2]) for item in outcome] == [
        ("Exec[copy]", f"needs 'require: File[{bench.home}/source]'", "4"),
        ("Exec[two]", f"writes {bench.home}/both, as Exec[one] does: needs 'require: Exec[one]'", "7"),
    ]
    text = manifest.read_text().replace("copy}", f"copy, require: 'File[{bench.home}/source]'}}", 1)
    two = f"grep 2 {bench.home}/both"
    manifest.write_text(text.replace(two, f"{two}, require: 'Exec[one]'"))
    assert bench.run("rehearse", manifest, "--orders", "3").code == 0


def test_a_test_gets_the_verdicts_as_values(tmp_path: Path) -> None:
    """What the library returns says the same as the command."""
    path = tmp_path / "made"
    manifest = tmp_path / "site.yaml"
    manifest.write_text(
        f"inputs: {{text: {{type: String}}}}\nresources:\n  File[{path}]: {{content: '${{inputs.text}}'}}\n"
        f"  Exec[side effect]: {{command: touch {tmp_path}/other}}\n"
    )
    result = rehearse(manifest, {"text": "hi"}, tests=[f"grep hi {path}"], destroy=True)
    assert not path.exists()
    assert [(verdict.question, verdict.ok) for verdict in result.verdicts] == [
        ("run", True),
        ("silent twice", False),
        (f"test grep hi {path}", True),
        ("clean after destroy", False),
    ]
    assert [(side_effect.verb, side_effect.path) for side_effect in result.side_effects] == [
        ("made", f"{tmp_path}/other")
    ]
    assert (result.ok, result.exit_code) == (False, 2)


def test_a_fixture_shows_the_result_of_a_test_that_fails(bench: Bench) -> None:
    """It takes manifests from beside the test, and what was found is in the report."""
    bench.write("site.yaml", "resources: {'Exec[again]': {command: 'true'}}")
    bench.write("conftest.py", "from resource_api.testing.fixtures import rehearse\n__all__ = ['rehearse']\n")
    bench.write("test_site.py", "def test_site(rehearse):\n    assert rehearse('site.yaml').ok\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", bench.home]
    result = subprocess.run(words, env=bench.environment, cwd="/", capture_output=True, text=True, check=False)
    report = result.stdout.partition("Captured rehearsal call")[2].splitlines()
    assert any(line.startswith("  silent twice  no  Exec[again]: runs again") for line in report), result


def test_the_run_decides_before_the_other_verdicts(bench: Bench) -> None:
    """A failed run is exit code 1, and is not run a second time."""
    result = bench.run("rehearse", bench.write("site.yaml", "resources: {'Exec[false]': {}}"), "--json")
    assert result.code == result.document["exit_code"] == 1
    [verdict] = result.document["verdicts"]
    assert (verdict["question"], verdict["ok"]) == ("run", False)
    assert verdict["findings"][0]["reference"] == "Exec[false]"


def test_what_acts_outside_of_files_is_planned_and_counts_as_done(bench: Bench) -> None:
    """It is left out, with what a run would change of it; what requires it is done."""
    bench.put("probe", b={"name": "b", "ensure": "present", "size": 1, "colour": "red"})
    bench.probe(
        """
        def get(self, context, names=None):
            if "broken" in (names or ()): raise OSError("no answer")
            return list(self._rows().values())
        def set(self, context, changes): self._done(changes)
        """,
        features=("not_rehearsable", "simple_get_filter"),
    )
    manifest = f"""
        resources:
          Probe[a]: {{size: 1}}
          Probe[b]: {{size: 2, colour: blue}}
          Probe[c]: {{ensure: absent}}
          File[{bench.home}/after]: {{ensure: file, content: hi, require: 'Probe[a]'}}
        """
    path = bench.write("site.yaml", manifest)
    result = bench.run("rehearse", path, "--json")
    assert result.code == 0, result
    assert [(item["reference"], item["text"], item["place"]) for item in result.document["not_rehearsed"]] == [
        ("Probe[a]", "would be created", f"{path}:2"),
        ("Probe[b]", "would change: size changed from 1 to 2, colour changed from red to blue", f"{path}:3"),
        ("Probe[c]", "would not change", f"{path}:4"),
    ]
    assert "1 created" in result.document["verdicts"][0]["text"]
    assert bench.things("probe").keys() == {"b"}
    result = bench.run("rehearse", bench.write("site.yaml", "resources: {'Probe[broken]': {}}"), "--json")
    [row] = result.document["not_rehearsed"]
    assert row["text"].startswith("cannot be planned: ")
    assert "no answer" in row["text"]


def test_state_inside_is_a_copy_and_the_real_one_is_not_locked(bench: Bench) -> None:
    """What is recorded is known inside; somebody else may hold the lock, and nothing is recorded."""
    state = bench.home / "state" / "state.db"
    environment = {"RESOURCE_API_STATE": f"sqlite:{state}"}
    first = f"resources: {{'File[{bench.home}/made]': {{ensure: file, content: hi}}}}"
    manifest = bench.write("site.yaml", first)
    assert bench.run("apply", manifest, **environment).code == 0
    before = {path: path.read_bytes() for path in sorted(state.parent.rglob("*")) if path.is_file()}
    with Path(f"{state}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bench.write("site.yaml", first.replace("hi", "ho"))
        result = bench.run("rehearse", manifest, "--destroy", **environment)
    assert result.code == 0, result
    assert "1 updated" in result.out
    assert {path: path.read_bytes() for path in sorted(state.parent.rglob("*")) if path.is_file()} == before
    assert (bench.home / "made").read_text() == "hi"


@pytest.mark.parametrize("key", ["none", "own", "other"])
def test_stacks_with_other_keys_are_left_alone(bench: Bench, key: str) -> None:
    """Only the stack of the manifest and those whose outputs it uses are read: the others may have any key, or none."""
    environment = {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state/state.db"}
    for name in ("near.key", "far.key"):
        assert bench.run("new", "key", bench.home / name).code == 0
    far = bench.write(
        "far.yaml", f"{{project: far, resources: {{'File[{bench.home}/far]': {{content: x}}}}, outputs: {{x: y}}}}"
    )
    assert bench.run("apply", far, "--key", f"file:{bench.home}/far.key", **environment).code == 0
    near = bench.write("near.yaml", f"{{project: near, resources: {{'File[{bench.home}/near]': {{content: y}}}}}}")
    keys = {"none": [], "own": ["--key", f"file:{bench.home}/near.key"], "other": []}[key]
    if key != "other":
        assert bench.run("apply", near, *keys, **environment).code == 0
    result = bench.run("rehearse", near, *keys, **environment)
    assert result.code == 0, result
    assert "state recover" not in result.err
    user = bench.write("user.yaml", "{project: user, outputs: {found: '${stacks.far/default.outputs.x}'}}")
    refused = bench.run("rehearse", user, **environment)
    assert refused.code == 64, refused
    assert "--key" in refused.err
    assert "state recover" not in refused.err


def test_a_hostile_manifest_harms_nothing(bench: Bench) -> None:
    """Neither the kernel nor processes, sockets, devices, mounts and files outside can be reached."""
    path = bench.home / "socket"
    with (
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.create_server(("127.0.0.1", 0)) as port,
    ):
        listening.bind(str(path))
        listening.listen()
        abstract.bind(f"\0{path}")
        abstract.listen()
        script = HOSTILE.replace("SOCKET", str(path)).replace("PORT", str(port.getsockname()[1]))
        script = script.replace("ABSTRACT", str(path))
        hostile = bench.write("hostile.sh", script.replace("PROCESS", str(os.getpid())))
        before = mounts(), os.uname(), Path("/etc/hostname").read_bytes()
        manifest = bench.write("site.yaml", "resources: {}")
        result = bench.run("rehearse", manifest, "--size", "30m", "--test", f"sh {hostile}")
    assert (mounts(), os.uname(), Path("/etc/hostname").read_bytes()) == before
    lines = [line for line in result.err.splitlines() if line.startswith(("possible", "refused"))]
    assert len(lines) == HOSTILE.count("\ntry ") + 1, result
    assert [line for line in lines if line.startswith("possible")] == []


#: Calls of x86-64, with arguments that the kernel takes: a key of root that stays, and the rest of the refused ones.
CALLS: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
attributes = (ctypes.c_uint32 * 30)(1, 120)
calls = {
    "add_key": (248, b"user", b"NAME", b"x", 1, -4),
    "request_key": (249, b"user", b"NAME", None, -4),
    "keyctl": (250, 0, -4, 1),
    "bpf": (321, 0, ctypes.byref((ctypes.c_uint32 * 16)(2, 4, 4, 1)), 64),
    "perf_event_open": (298, ctypes.byref(attributes), 0, -1, -1, 0),
    "userfaultfd": (323, 1),
    "init_module": (175, None, 0, b""),
    "finit_module": (313, -1, b"", 0),
    "delete_module": (176, b"NAME", 0),
    "kexec_load": (246, 0, 0, None, 0),
    "kexec_file_load": (320, -1, -1, 0, None, 0),
    "add_key of x32": (0x40000000 + 248, b"user", b"NAME", b"x", 1, -4),
}
for name, (number, *arguments) in calls.items():
    answer = libc.syscall(number, *arguments)
    print("refused" if answer < 0 and ctypes.get_errno() == 1 else "possible", name, file=sys.stderr)
os.kill(os.getpid(), 0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are those of x86-64")
@pytest.mark.parametrize("more", [(), ("--network", "host"), ("--kills", "1")], ids=["alone", "network", "kills"])
def test_keys_and_programs_of_the_kernel_cannot_be_reached(bench: Bench, more: tuple[str, ...]) -> None:
    """Keys belong to a user and no namespace: inside, none is made, read or left, and other calls work."""
    name = f"ra-{os.getpid()}-{bench.home.name}"
    script = bench.write("calls.py", CALLS.replace("NAME", name))
    manifest = bench.write("site.yaml", f"resources: {{'File[{bench.home}/made]': {{content: hi}}}}")
    result = bench.run("rehearse", manifest, *more, "--test", f"{sys.executable} -I {script}")
    lines = [line for line in result.err.splitlines() if line.startswith(("possible", "refused"))]
    assert len(lines) == 12, result
    assert [line for line in lines if line.startswith("possible")] == []
    assert name not in Path("/proc/keys").read_text(encoding="utf-8")
    assert result.code == 0


#: Done in mounts of its own: the limit of processes looks like that of a kernel where it is one of the whole machine.
OLD_KERNEL: Final = "mount -t tmpfs tmpfs /proc/sys/kernel && echo 32768 >/proc/sys/kernel/pid_max"


@contextmanager
def running(bench: Bench, *words: str | Path, within: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run the command with ``words``, started by the program ``within``; it is killed at the end."""
    with subprocess.Popen(
        [*within, sys.executable, "-P", "-m", "resource_api", *map(str, words)],
        env=bench.environment,
        cwd=bench.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def on_an_old_kernel(
    bench: Bench, *words: str | Path, more: str = "true"
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the command with ``words`` where a process table has no limit of its own; it is killed at the end."""
    script = f'{OLD_KERNEL} && {more} && exec "$@"'
    return running(bench, *words, within=["unshare", "--mount", "sh", "-c", script, "sh"])


def control_groups(manifest: Path) -> list[Path]:
    """Return the control groups of running rehearsals of a manifest."""
    groups = Path("/sys/fs/cgroup").rglob("resource-api-rehearsal.*")
    return [group for group in groups if group.name.split(".")[1] in processes_about(str(manifest))]


def assert_removed(groups: list[Path]) -> None:
    """Wait until control groups are gone."""
    until = time.monotonic() + 20
    while any(group.exists() for group in groups) and time.monotonic() < until:
        time.sleep(0.01)
    assert [group for group in groups if group.exists()] == []


def test_an_older_kernel_limits_processes_by_a_control_group(bench: Bench) -> None:
    """The group is removed, after SIGKILL too."""
    manifest = bench.write("site.yaml", "resources: {}")
    for test, kills in ((f"echo begun; {THREADS.strip()}", False), ("echo begun; sleep 300", True)):
        with on_an_old_kernel(bench, "rehearse", manifest, "--test", test) as process:
            assert process.stderr is not None
            begun = any("begun" in line for line in process.stderr)
            groups = control_groups(manifest)
            if kills:
                process.kill()
            text = process.stderr.read()
        assert begun
        assert len(groups) == 1
        assert_removed(groups)
        assert kills or "refused: endless threads" in text


def test_a_control_group_that_was_left_is_removed_by_the_next_rehearsal(bench: Bench) -> None:
    """When all processes are killed at once, none is left to remove it."""
    manifest = bench.write("site.yaml", "resources: {}")
    with on_an_old_kernel(bench, "rehearse", manifest, "--test", "echo begun; sleep 300") as process:
        assert process.stderr is not None
        begun = any("begun" in line for line in process.stderr)
        groups = control_groups(manifest)
        for group in groups:
            os.kill(int(group.name.split(".")[1]), signal.SIGKILL)
        process.kill()
    assert begun
    assert len(groups) == 1
    with on_an_old_kernel(bench, "rehearse", manifest) as process:
        process.communicate(timeout=50)
    assert_removed(groups)


def test_a_failed_run_without_a_network_names_the_option_for_one(bench: Bench) -> None:
    """A package that cannot be fetched fails for that reason alone."""
    manifest = bench.write("site.yaml", "resources: {'Exec[false]': {}}")
    line = "Network: none; --network host gives the rehearsal that of this machine.\n"
    assert bench.run("rehearse", manifest).out.endswith(line)
    assert line not in bench.run("rehearse", manifest, "--network", "host").out
    assert line not in bench.run("rehearse", bench.write("site.yaml", "resources: {'Exec[true]': {}}")).out


def test_where_processes_cannot_be_limited_nothing_runs(bench: Bench) -> None:
    """The refusal names what is missing."""
    manifest = bench.write("site.yaml", "resources: {}")
    with on_an_old_kernel(bench, "rehearse", manifest, more="mount -t tmpfs tmpfs /sys/fs/cgroup") as process:
        _, messages = process.communicate(timeout=50)
    assert process.returncode == 1
    assert messages == (
        "Error: this machine cannot be isolated: the number of processes cannot be limited: "
        "/proc/sys/kernel/pid_max is that of the whole machine (Linux before 6.14), "
        "and no control group with pids.max can be made in /sys/fs/cgroup\n"
    )


def test_every_mount_has_an_overlay_of_its_own_or_is_read_only(bench: Bench) -> None:
    """What is written on another file system is discarded too; a single file that is a mount cannot be written."""
    location, bound, fixed, single = (bench.home / name for name in ("a, b", "bound", "fixed", "single"))
    for directory in (location, fixed):
        directory.mkdir()
    for file in (bound, single):
        file.write_text("bound")
    steps = f"rm '{location}/old' && touch '{location}/new' && ! echo more >>{bound}"
    steps += f" && ! touch {fixed}/new && test -S {fixed}/s"
    connect = bench.write("connect.py", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])")
    refused = " && ".join(f"! {sys.executable} {connect} {path}" for path in (f"{fixed}/s", single))
    manifest = bench.write("site.yaml", "resources: {}")
    script = f"""
        mount --bind {fixed}/s {single} && mount -o remount,ro {fixed} && {sys.executable} {connect} {single} &&
        mount -t tmpfs tmpfs '{location}' && echo old >'{location}/old' && mount --bind {bound} {bound} &&
        {sys.executable} -P -m resource_api rehearse {manifest} --test "$0" --test "$1" && ls '{location}'
    """
    with private_mounts(), socket.socket(socket.AF_UNIX) as listening:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", fixed], check=True)
        listening.bind(f"{fixed}/s")
        listening.listen()
        words = ["sh", "-c", script, steps, refused]
        result = subprocess.run(words, env=bench.environment, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1:] == ["old"], result
    assert bound.read_text() == "bound"


def processes_about(marker: str) -> list[str]:
    """Return the processes that were started with ``marker`` as an argument."""
    entries = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (directory / "cmdline").read_bytes():
                entries.append(directory.name)
        except OSError:
            continue
    return entries


def assert_ended(text: str) -> None:
    """Wait until no process is about ``text``."""
    until = time.monotonic() + 20
    while processes_about(text) and time.monotonic() < until:
        time.sleep(0.01)
    assert processes_about(text) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_rehearsal_leaves_nothing(bench: Bench, number: int) -> None:
    """Whatever ends it, no process, no mount and no file of it is left."""
    marker = f"infinity-{os.getpid()}-{number}"
    manifest = bench.write(
        "site.yaml",
        f"""
        resources:
          Exec[begin]:
            command: [sh, -c, "touch {bench.home}/made; echo begun; sleep 300 # {marker}"]
            logoutput: always
        """,
    )
    before = mounts()
    with running(bench, "rehearse", manifest) as process:
        assert process.stderr is not None
        assert any("begun" in line for line in process.stderr)
        assert processes_about(marker)
        process.send_signal(number)
        if number == signal.SIGTERM:  # the first one lets the running call end
            assert any("interrupted: finishing" in line for line in process.stderr)
            process.send_signal(number)
        process.wait(timeout=20)
    assert_ended(marker)
    assert mounts() == before
    assert not (bench.home / "made").exists()
    if number == signal.SIGTERM:
        assert process.returncode == 143


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_rehearsal_between_its_runs_at_once(bench: Bench, number: int) -> None:
    """The exit code is that of the signal, and nothing is said of what is not known."""
    manifest = bench.write("site.yaml", "resources: {}")
    with running(bench, "rehearse", manifest, "--test", "echo begun; sleep 300") as process:
        assert process.stderr is not None
        assert any("begun" in line for line in process.stderr)
        process.send_signal(number)
        output, messages = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert output.splitlines()[-1] == "Interrupted before anything was known; nothing of the rehearsal is left."
    assert messages == ""


def test_a_rehearsal_is_killed_at_any_moment_and_leaves_nothing(bench: Bench) -> None:
    """By SIGKILL and by SIGTERM, from its start to its end."""
    manifest = bench.write(
        "site.yaml",
        f"""
        resources:
          File[{bench.home}/made]: {{ensure: file, content: hi}}
          Exec[effect]: {{command: touch {bench.home}/other}}
        """,
    )
    words = [sys.executable, "-P", "-m", "resource_api", "rehearse", str(manifest)]
    before, began = mounts(), time.monotonic()
    subprocess.run(words, env=bench.environment, capture_output=True, check=False)
    lasted, moments = time.monotonic() - began, random.Random(18)  # noqa: S311 - any will do
    for number in range(KILLS):
        with subprocess.Popen(
            words, env=bench.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as one:
            try:
                one.wait(moments.uniform(0, lasted))
            except subprocess.TimeoutExpired:
                one.send_signal(signal.SIGTERM if number % 2 else signal.SIGKILL)
            one.wait(timeout=20)
    assert_ended(str(manifest))
    assert mounts() == before
    assert sorted(path.name for path in bench.home.iterdir()) == ["modules", "site.yaml", "things"]


def test_nothing_of_a_rehearsal_is_seen_on_the_machine(bench: Bench) -> None:
    """Neither files nor mounts, processes, sockets and settings, while the same without a rehearsal is seen."""
    effects = (
        "touch /leak /dev/shm/leak; rm /etc/hostname; rm -r /opt; ipcmk -Q; echo 7 >/proc/sys/net/ipv4/tcp_fin_timeout"
    )
    manifest = bench.write("site.yaml", "resources: {}")
    words = [sys.executable, "-P", "-m", "tests.watched_machine", "--but", str(bench.home)]
    rehearsal = [sys.executable, "-P", "-m", "resource_api", "rehearse", str(manifest), "--test"]
    orphan = "setsid sleep 300 & sleep 300 | cat & true"
    observed = [
        subprocess.run([*words, *more], env=bench.environment, cwd="/", capture_output=True, text=True, check=False)
        for more in ([*rehearsal, f"{effects}; {orphan}"], ["sh", "-c", f"{effects}; mount -t tmpfs tmpfs /mnt"])
    ]
    assert not [line for line in observed[0].stdout.splitlines() if line.startswith(("new", "changed", "gone"))], (
        observed[0]
    )
    assert observed[0].returncode == 0, observed[0]
    kinds = {line.partition(": ")[2].split(" ")[0] for line in observed[1].stdout.splitlines() if ": " in line}
    assert {"file", "mount", "setting", "sysvipc/msg"} <= kinds, observed[1]


@pytest.fixture
def user_bench(bench: Bench) -> Iterator[Bench]:
    """Return a bench whose home belongs to a user who is nobody else, with an interpreter that everybody may read.

    That may be another Python than the one of the tests, which has no module in C of theirs: manifests are in JSON.
    """
    libraries = Path(click.__file__).parent.parent
    with TemporaryDirectory(prefix="resource-api-user-", dir="/tmp") as home:
        os.chown(home, USER, USER)
        bench.home = Path(home)
        bench.environment |= {"HOME": home, "PYTHONPATH": f"{bench.environment['PYTHONPATH']}:{libraries}"}
        del bench.environment["RESOURCE_API_MODULE_PATH"]
        yield bench


def as_user(
    bench: Bench, *words: str | Path, prefix: Sequence[str] = (), before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command as ``USER``, by ``prefix`` and its arguments; ``before`` is a program that root runs."""
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *prefix]
    return subprocess.run(
        [*before, *become, "/usr/bin/python3", "-P", "-m", "resource_api", *map(str, words)],
        env=bench.environment,
        cwd=bench.home,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_user_rehearses_what_he_may_do(user_bench: Bench) -> None:
    """Files of the user change inside only, files of others cannot be changed, and processes are limited."""
    home = user_bench.home
    for path in (home / "kept", home / "directory/old"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("before")
    for path in (home / "kept", home / "directory", home / "directory/old"):
        os.chown(path, USER, USER)
    effect = "rm -r kept directory; mkdir directory; touch directory/new"
    resources = {
        f"File[{home}/made]": {"ensure": "file", "content": "hi", "mode": "0600"},
        f"File[/var/tmp/{home.name}]": {"ensure": "file", "content": "hi"},
        "Exec[side effect]": {"command": effect, "shell": True, "cwd": str(home), "creates": f"{home}/directory/new"},
    }
    manifest = user_bench.write("site.json", json.dumps({"resources": resources}))
    tests = (
        f"test $(id -u) = {USER} -a ! -e {home}/directory/old",
        "! touch /etc/made",
        "! touch /made /run/made",
        "! ls /root",
        THREADS,
    )
    file = home / "layer"
    more = ("--orders=1", "--kills=1", "--damage", f"--keep={file}")
    result = as_user(user_bench, "rehearse", manifest, "--json", *more, *(f"--test={test}" for test in tests))
    assert result.returncode == 0, result
    assert (file / str(home).lstrip("/") / "made").read_text() == "hi"
    shutil.rmtree(file)
    document = json.loads(result.stdout)
    assert [verdict["question"] for verdict in document["verdicts"]] == [
        *("run", "silent twice"),
        *(f"test {item}" for item in tests),
        *("free in order", "survives cuts", "mended"),
    ]
    [effect] = document["side_effects"]
    assert (effect["verb"], effect["path"]) == ("deleted", f"{home}/kept")
    assert "refused: endless threads" in result.stderr
    assert sorted(path.name for path in home.rglob("*")) == ["directory", "kept", "old", "site.json"]
    assert not Path("/var/tmp", home.name).exists()  # noqa: S108 - nothing is there


def test_a_user_rehearses_in_a_directory_beneath_those_of_others(user_bench: Bench) -> None:
    """An overlay of a user cannot copy what belongs to somebody else, so that it begins beneath."""
    with TemporaryDirectory(prefix="resource-api-user-", dir="/opt") as temporary_directory:
        user_bench.home = Path(temporary_directory, "a/b/site")
        user_bench.home.mkdir(parents=True)
        Path(temporary_directory).chmod(0o755)
        os.chown(user_bench.home, USER, USER)
        text = f"{user_bench.home}/made"
        inside = {"content": "hi", "require": f"File[{text}]"}
        resources = {f"File[{text}/in]": inside, f"File[{text}]": {"ensure": "directory"}}
        manifest = user_bench.write("site.json", json.dumps({"resources": resources}))
        user_bench.environment["HOME"] = "/nonexistent"
        result = as_user(
            user_bench,
            "rehearse",
            manifest,
            "--test",
            f"! touch {temporary_directory}/a/new",
            "--test",
            "! touch /opt/new",
        )
    assert result.returncode == 0, result


def test_a_user_who_may_not_make_namespaces_is_told_why(user_bench: Bench) -> None:
    """The refusal names the setting of the machine, and has exit code 1."""
    manifest = user_bench.write("site.json", '{"resources": {}}')
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    users = [f"--map-user={USER}", f"--map-group={USER}", "--keep-caps"]
    result = as_user(user_bench, "rehearse", manifest, prefix=["unshare", "--user", *users, "sh", "-c", forbid, "sh"])
    assert result.returncode == 1
    assert result.stderr == (
        "Error: this machine cannot be isolated: a user who is not root may not make namespaces: "
        "/proc/sys/user/max_user_namespaces is 0\n"
    )


def test_a_user_in_a_container_is_told_what_is_missing(user_bench: Bench) -> None:
    """Where parts of ``/proc`` are hidden, the kernel lets no user mount another one."""
    manifest = user_bench.write("site.json", '{"resources": {}}')
    hide = f'{OLD_KERNEL} && exec "$@"'
    result = as_user(user_bench, "rehearse", manifest, before=["unshare", "--mount", "sh", "-c", hide, "sh"])
    assert result.returncode == 1
    assert result.stderr == (
        "Error: this machine cannot be isolated: /proc: parts of it are hidden, as in a container; "
        "only root can mount another one\n"
    )
