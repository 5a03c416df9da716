"""Types that write, remove, mount or give rights beneath a directory of a neighbour, who swaps it all the time."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings

from resource_api import ResourceAPIError, Runtime
from resource_api.plugins.registry import Registry
from resource_api.system.log import Log
from tests import namespaces
from tests.bundled import directory_of_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and a neighbour"),
    pytest.mark.skipif(not namespaces.may_mount(), reason="needs the right to mount"),
]
#: Seconds of each race: twenty where the whole is tried.
SECONDS: Final = 20.0 if settings.default.max_examples > 100 else 2.0
KEY: Final = "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"
PEOPLE: Final = {"owner": "nobody", "group": "nogroup", "mode": "0777"}

#: By type: states between which a resource changes; HOME is the swapped directory, OWN one of root.
RACES: Final[dict[str, list[dict[str, Any]]]] = {
    "file": [{"path": "HOME/made", "content": "x", **PEOPLE}, {"path": "HOME/made", "ensure": "absent"}],
    "file directory": [{"path": "HOME/new", "ensure": "directory", **PEOPLE}, {"path": "HOME/new", "ensure": "absent"}],
    "file precious": [{"path": "HOME/precious", **PEOPLE}, {"path": "HOME/precious", "ensure": "absent"}],
    "file recursive": [{"path": "HOME/inner", "ensure": "absent", "force": True}],
    "file_tree": [
        {"path": "HOME/inner", "source": "OWN/source", "purge": True, **PEOPLE},
        {"path": "HOME/inner", "ensure": "absent"},
    ],
    "file_tree owner": [{"path": "HOME/inner", **PEOPLE}],
    "tidy": [{"path": "HOME/inner", "age": "0s", "recurse": True, "rmdirs": True}],
    "archive": [
        {"path": "HOME/inner", "source": {"archive": {"directory": "OWN/source"}}, "force": True},
        {"path": "HOME/inner", "ensure": "absent"},
    ],
    "concat": [
        {"path": "HOME/precious", "source": "OWN/source", **PEOPLE},
        {"path": "HOME/precious", "ensure": "absent"},
    ],
    "file_line": [
        {"path": "HOME/precious", "line": "new"},
        {"path": "HOME/precious", "line": "precious", "ensure": "absent"},
    ],
    "block_in_file": [
        {"path": "HOME/precious", "name": "b", "block": "new"},
        {"path": "HOME/precious", "name": "b", "ensure": "absent"},
    ],
    "ini_setting": [
        {"path": "HOME/precious", "section": "s", "setting": "k", "value": "v"},
        {"path": "HOME/precious", "section": "s", "setting": "k", "ensure": "absent"},
    ],
    "json_setting": [
        {"path": "HOME/x.json", "key": "k", "value": 1},
        {"path": "HOME/x.json", "key": "k", "ensure": "absent"},
    ],
    "yaml_setting": [
        {"path": "HOME/x.yaml", "key": "k", "value": 1},
        {"path": "HOME/x.yaml", "key": "k", "ensure": "absent"},
    ],
    "toml_setting": [
        {"path": "HOME/x.toml", "key": "k", "value": 1},
        {"path": "HOME/x.toml", "key": "k", "ensure": "absent"},
    ],
    "acl": [
        {"path": "HOME/precious", "permission": ["user:nobody:rwx"]},
        {"path": "HOME/precious", "permission": ["user:nobody:r-x"]},
    ],
    "x509_key": [{"path": "HOME/key", "owner": "nobody"}, {"path": "HOME/key", "ensure": "absent"}],
    "x509_certificate": [
        {"path": "HOME/cert", "private_key": "OWN/key", "subject": {"CN": "a"}, "owner": "nobody"},
        {"path": "HOME/cert", "ensure": "absent", "private_key": "OWN/key"},
    ],
    "capability": [
        {"path": "HOME/precious", "capability": "cap_net_raw=ep"},
        {"path": "HOME/precious", "ensure": "absent"},
    ],
    "host": [
        {"name": "db", "target": "HOME/precious", "ip": "192.0.2.1"},
        {"name": "db", "target": "HOME/precious", "ensure": "absent"},
    ],
    "resolver": [
        {"path": "HOME/precious", "nameservers": ["192.0.2.1"]},
        {"path": "HOME/precious", "ensure": "absent"},
    ],
    "sysctl": [
        {"name": "kernel.domainname", "target": "HOME/precious", "value": "x", "apply": False},
        {"name": "kernel.domainname", "target": "HOME/precious", "ensure": "absent", "apply": False},
    ],
    "ssh_authorized_key": [
        {"name": "a", "user": "nobody", "target": "HOME/precious", "type": "ssh-ed25519", "key": KEY},
        {"name": "a", "user": "nobody", "target": "HOME/precious", "type": "ssh-ed25519", "ensure": "absent"},
    ],
    "known_host": [
        {"name": "a", "target": "HOME/precious", "type": "ssh-ed25519", "key": KEY},
        {"name": "a", "target": "HOME/precious", "type": "ssh-ed25519", "ensure": "absent"},
    ],
    "nft_ruleset": [
        {"path": "HOME/precious", "content": "table ip ra {}\n"},
        {"path": "HOME/precious", "ensure": "absent"},
    ],
    "alternatives": [
        {"name": "ra-race", "link": "HOME/link", "choices": {"/bin/true": {"priority": 1}}},
        {"name": "ra-race", "ensure": "absent"},
    ],
    "user": [
        {"name": "ra-race", "home": "HOME/home", "managehome": True},
        {"name": "ra-race", "home": "HOME/moved", "managehome": True},
        {"name": "ra-race", "ensure": "absent", "managehome": True},
    ],
    "python_venv": [{"path": "HOME/venv", "ensure": "absent"}],
    "python_venv new": [
        {"path": "HOME/made", "owner": "nobody", "pip": False},
        {"path": "HOME/made", "ensure": "absent"},
    ],
    "git_checkout": [{"path": "HOME/inner", "ensure": "absent", "source": "/none", "force": True}],
    "git_checkout new": [
        {"path": "HOME/made", "source": "OWN/repository"},
        {"path": "HOME/made", "ensure": "absent", "source": "OWN/repository", "force": True},
    ],
    "mount": [
        {"name": "HOME/inner", "device": "tmpfs", "fstype": "tmpfs", "ensure": "mounted"},
        {"name": "HOME/inner", "device": "tmpfs", "fstype": "tmpfs", "ensure": "unmounted"},
    ],
}


@contextmanager
def _swapping(home: Path, victim: Path) -> Iterator[None]:
    """Let a process of the neighbour swap ``home/d`` for a link to ``victim``, and back, all the time."""
    pid = os.fork()
    if pid == 0:
        try:
            nobody = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setresgid(*[nobody.pw_gid] * 3)
            os.setresuid(*[nobody.pw_uid] * 3)
            os.chdir(home)
            os.symlink(victim, "link")  # noqa: PTH211 - of the working directory
            while True:
                for one, second in (("d", "aside"), ("link", "d"), ("d", "link"), ("aside", "d")):
                    with suppress(OSError):
                        os.rename(one, second)  # noqa: PTH104 - the same
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _state(path: Path) -> list[tuple[Any, ...]]:
    """Return all that could have been changed in the victim."""
    entries = []
    for item in (path, *sorted(path.rglob("*"))):
        status = item.lstat()
        content = item.read_bytes() if item.is_file() else b""
        attributes = sorted(os.listxattr(item, follow_symlinks=False))
        entries.append((item.name, status.st_mode, status.st_uid, status.st_gid, status.st_ino, content, attributes))
    return entries


def _filled(directory: Path) -> None:
    (directory / "inner").mkdir(parents=True)
    (directory / "precious").write_text("precious\n")
    (directory / "inner" / "file").write_text("precious\n")
    for name, text in (("x.json", "{}\n"), ("x.yaml", "a: 1\n"), ("x.toml", "a = 1\n")):
        (directory / name).write_text(text)
    (directory / "venv").mkdir()
    (directory / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")


@contextmanager
def _private_machine(directory: Path) -> Iterator[None]:
    """Let /etc be a copy, and the alternatives be empty, for this thread and its programs."""
    with namespaces.private_kernel():
        subprocess.run(["cp", "-a", "/etc", directory / "etc"], check=True)
        namespaces.bind(directory / "etc", "/etc")
        namespaces.mount_memory("/var/lib/dpkg/alternatives")
        (directory / "etc" / "fstab").write_text("")
        yield


@pytest.mark.parametrize("case", RACES)
def test_a_neighbour_who_swaps_his_directory(tmp_path: Path, case: str) -> None:
    """Nothing of root's is changed by it, removed, covered or given away, whatever moment is hit."""
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    home, victim, file = directory_of_nobody(tmp_path), tmp_path / "victim", tmp_path / "own"
    _filled(victim)
    _filled(home / "d")
    for path in (home / "d", *(home / "d").rglob("*")):
        os.chown(path, 65534, 65534)
    (file / "source").mkdir(parents=True)
    (file / "source" / "a").write_text("new\n")
    subprocess.run(["openssl", "genrsa", "-out", file / "key", "2048"], check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", file / "repository"], check=True)
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "a"]
    subprocess.run(["git", "-C", file / "repository", *commit], check=True)
    names = {"HOME": f"{home}/d", "OWN": str(file)}

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        if isinstance(value, str):
            for name, path in names.items():
                value = value.replace(name, path)
        return value

    kind = case.split(" ", maxsplit=1)[0]
    stages = [{f"{kind.capitalize()}[it]": named(stage)} for stage in RACES[case]]
    for stage in stages:
        Runtime(Registry.from_path()).validate({"project": "p", "resources": stage})
    registry, before, result = Registry.from_path(), _state(victim), 0
    with _private_machine(tmp_path), _swapping(home, victim):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for stage in stages:
                with suppress(ResourceAPIError):
                    Runtime(registry, state="memory:", log=Log("off")).apply({"project": "p", "resources": stage})
                result += 1
                assert not os.path.ismount(victim / "inner")
    assert _state(victim) == before
    assert result > 1
