"""Releases of the present commit, built twice, and installed where nothing else of this repository is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from release import debian
from tests.fleet.bare_debian import tree

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.process, pytest.mark.whole, pytest.mark.timeout(900)]
#: A manifest of the program's first screen, and the variable that leads its state away from this machine's.
MANIFEST: Final = ROOT / "examples" / "first.yaml"
VERSION: Final = r"resource-api, version [\d.]+ \(commit [0-9a-f]{10}, \d{4}-\d\d-\d\d\)\n"
#: Argument: a script that is run in a bare Debian with the directory ``/srv/dist``; what it writes is discarded.
ENTER: Final = """
set -e
mount -t tmpfs tmpfs "$2"
mkdir "$2/up" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir -p srv/dist
mount --bind "$3" srv/dist
exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec "$4"
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean clone of the present commit: a release is made of no other files."""
    directory = tmp_path_factory.mktemp("clone") / "project"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(directory)], check=True)
    return directory


@pytest.fixture(scope="module")
def dist(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the wheel and the source archive."""
    return build(clone, "dist", tmp_path_factory.mktemp("dist"))


def build(clone: Path, kind: str, directory: Path, umask: int = 0o022) -> Path:
    """Build a release of a clone into a directory, and return the directory."""
    command = [sys.executable, "-m", "release", kind, str(directory)]
    subprocess.run(command, cwd=clone, check=True, umask=umask, capture_output=True)
    return directory


def test_two_builds_of_a_commit_have_the_same_bytes(clone: Path, dist: Path, tmp_path: Path) -> None:
    """Whatever the time and the umask; and nothing of the builder is in the archive."""
    again = build(clone, "dist", tmp_path, umask=0o077)
    first, second = ({path.name: path.read_bytes() for path in location.iterdir()} for location in (dist, again))
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert first == second
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert {member.mode for member in members} == {0o644, 0o755}


def test_a_changed_file_is_no_release(clone: Path, tmp_path: Path) -> None:
    """The command names the file and builds nothing."""
    readme = clone / "README.md"
    text = readme.read_text()
    readme.write_text(text + "\n")
    try:
        command = [sys.executable, "-m", "release", "dist", str(tmp_path / "dist")]
        refused = subprocess.run(command, cwd=clone, check=False, capture_output=True, text=True)
    finally:
        readme.write_text(text)
    assert refused.returncode == 1
    assert refused.stderr == "a release has exactly one commit; commit these changes first:\n M README.md\n\n"
    assert not list((tmp_path / "dist").iterdir())


def test_the_wheel_alone_gives_the_first_screen(dist: Path, tmp_path: Path) -> None:
    """In an environment with nothing but the wheel: noop, apply, and a second apply without a change."""
    venv.create(tmp_path / "venv", with_pip=True)
    program = str(tmp_path / "venv" / "bin" / "resource-api")
    pip = [str(tmp_path / "venv" / "bin" / "pip"), "--disable-pip-version-check", "install", "-qq"]
    subprocess.run([*pip, str(next(dist.glob("*.whl")))], check=True, capture_output=True)
    environment = {"HOME": str(tmp_path), "PATH": os.defpath, "RESOURCE_API_STATE": f"sqlite:{tmp_path}/state.db"}

    def run(*arguments: str) -> tuple[int, str]:
        ended = subprocess.run(
            [program, *arguments], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return ended.returncode, ended.stdout

    assert re.fullmatch(VERSION, run("--version")[1])
    (tmp_path / "site").mkdir()
    apply = ("apply", str(MANIFEST), "-i", f"directory={tmp_path}/site", "--detailed-exitcodes")
    assert [run(*apply, "--noop")[0], run(*apply)[0], run(*apply)[0]] == [2, 2, 0]
    code, types = run("types", "--json")
    assert code == 0
    assert types.count('"name"') >= len(list((ROOT / "types").glob("*.py")))


def in_bare_debian(directory: Path, dist: Path, script: Sequence[str]) -> str:
    """Run the lines of a script as root of a bare Debian, and return its output."""
    directory.mkdir()
    namespaces = shlex.split("unshare --mount --pid --fork --uts --ipc --net --kill-child --propagation private")
    command = ["sh", "-c", ENTER, "sh", str(tree("bookworm")), str(directory), str(dist), "\n".join(script)]
    ended = subprocess.run([*namespaces, *command], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_the_debian_package_is_installed_and_removed_without_rests(clone: Path, tmp_path: Path) -> None:
    """In a bare Debian: the command, its workers, its pages and completions, the unit; after the purge, nothing."""
    dist = build(clone, "deb", tmp_path / "dist")
    (dist / "first.yaml").write_bytes(MANIFEST.read_bytes())
    lists = "find / -xdev -not -path '/var/*' -not -path '/root/*' -not -path '/tmp/*' -not -path '/proc/*' | sort"
    apply = "resource-api apply /srv/dist/first.yaml -i directory=/tmp --detailed-exitcodes --isolate"
    text = in_bare_debian(
        tmp_path / "mounts",
        dist,
        [
            f"{lists} > /tmp/before",
            "dpkg -i /srv/dist/resource-api_*.deb > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }",
            "resource-api --version",
            f"{apply} > /tmp/log 2>&1 || echo apply $?",
            f"{apply} > /tmp/log 2>&1 && echo apply again $?",
            "resource-api resource package dpkg | head -n 1",
            "zcat /usr/share/man/man1/resource-api.1.gz | grep -c 'describe and change machines'",
            *(f"test -s /{path}" for path in debian.COMPLETIONS.values()),
            "grep ExecStart /lib/systemd/system/resource-api-agent.service",
            "stat -c %a:%U /etc/resource-api/agent",
            "dpkg -V resource-api | grep -v /usr/share/doc || true",  # the tree leaves out all documentation
            "dpkg -r resource-api > /tmp/log && test -e /etc/resource-api/agent && test ! -e /usr/lib/resource-api",
            "dpkg -P resource-api > /tmp/log",
            f"{lists} | diff /tmp/before - && echo nothing is left",
        ],
    )
    version, *lines = text.splitlines(keepends=True)
    assert re.fullmatch(VERSION, version)
    assert "".join(lines) == (
        "apply 2\napply again 0\nresources:\n1\n"
        "ExecStart=/usr/lib/resource-api/bin/resource-api agent run $OPTIONS\n644:root\nnothing is left\n"
    )
