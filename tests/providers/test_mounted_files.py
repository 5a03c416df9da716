"""Each type that writes a file also writes one that is a mount point, as in a container, and the plan says how."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.namespaces import bind, private_kernel, unmount
from tests.providers.applied import converge, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"
#: The resource, with {} for the file, what it declares, the content before and the content after.
CASES: dict[str, tuple[str, dict[str, Any], bytes, bytes]] = {
    "block_in_file": (
        "Block_in_file[b]",
        {"path": "{}", "block": "x"},
        b"a\n",
        b"a\n# BEGIN b\nx\n# END b\n",
    ),
    "concat": ("Concat[{}]", {"source": []}, b"a\n", b"x\n"),
    "file": ("File[{}]", {"content": "x\n"}, b"a\n", b"x\n"),
    "file_line": ("File_line[l]", {"path": "{}", "line": "x"}, b"a\n", b"a\nx\n"),
    "host": ("Host[db {}]", {"ip": "10.0.0.1"}, b"127.0.0.1 a\n", b"127.0.0.1 a\n10.0.0.1\tdb\n"),
    "ini_setting": ("Ini_setting[{}:s:k]", {"value": "2"}, b"[s]\nk = 1\n", b"[s]\nk = 2\n"),
    "json_setting": ("Json_setting[{}:a]", {"value": 2}, b'{"a": 1}\n', b'{"a": 2}\n'),
    "known_host": (
        "Known_host[db@ssh-ed25519 {}]",
        {"key": KEY},
        b"# all\n",
        f"# all\ndb ssh-ed25519 {KEY}\n".encode(),
    ),
    "resolver": ("Resolver[{}]", {"nameservers": ["10.0.0.1"]}, b"# ours\n", b"# ours\nnameserver 10.0.0.1\n"),
    "ssh_authorized_key": (
        "Ssh_authorized_key[ann@home {}]",
        {"user": "root", "type": "ed25519", "key": KEY},
        b"# all\n",
        f"# all\nssh-ed25519 {KEY} ann@home\n".encode(),
    ),
    "toml_setting": ("Toml_setting[{}:a]", {"value": 2}, b"a = 1\n", b"a = 2\n"),
    "yaml_setting": ("Yaml_setting[{}:a]", {"value": 2}, b"a: 1\n", b"a: 2\n"),
}


@pytest.fixture
def machine() -> Iterator[None]:
    """Give this thread mounts and a host name of its own."""
    with private_kernel():
        yield


def mount_file(directory: Path, path: Path, content: bytes) -> None:
    """Mount a file with a content over ``path``."""
    source = directory / "outside"
    source.write_bytes(content)
    source.chmod(0o644)
    bind(source, str(path))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", CASES)
def test_a_mounted_file_is_written(kind: str, tmp_path: Path) -> None:
    """The content is as declared, the next plan is empty, and the plan before says that it is not atomic."""
    title, declared, before, after = CASES[kind]
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "mounted"
    path.touch()
    mount_file(tmp_path, path, before)
    Path(f"{path}.part").write_bytes(b"x\n")
    attributes = {
        name: str(path) if value == "{}" else [f"{path}.part"] if name == "source" else value
        for name, value in declared.items()
    }
    resources = {title.replace("{}", str(path)): attributes}
    assert [line for line in warned(resources) if "not atomic" in line] == [
        f"'{path}' is a mount point, so it is overwritten where it is, which is not atomic"
    ]
    converge(resources)
    assert path.read_bytes() == after
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["mounted", "mounted.part"]
    assert warned(resources) == []


@pytest.mark.usefixtures("machine")
def test_a_missing_user_hides_no_mounted_file_of_another(tmp_path: Path) -> None:
    """A plan names a user without an account, and warns of the mounted known hosts of root."""
    path = Path("~root/ra-test-known-hosts").expanduser()
    path.touch()
    try:
        mount_file(tmp_path, path, b"")
        keys = {"user": "~ra-none/.ssh/known_hosts", "mounted": f"~root/{path.name}"}
        warnings = warned({f"Known_host[{name}@ssh-ed25519 {target}]": {"key": KEY} for name, target in keys.items()})
        assert "there is no user 'ra-none'" in " ".join(warnings)
        assert f"'{path}' is a mount point, so it is overwritten where it is, which is not atomic" in warnings
    finally:
        unmount(str(path))
        path.unlink()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", CASES)
def test_a_mounted_file_that_cannot_be_written_is_named_in_plan_and_error(kind: str, tmp_path: Path) -> None:
    """Because other users could put another file there, or because the mount is read-only."""
    title, declared, before, _ = CASES[kind]
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "mounted"
    path.touch()
    Path(f"{path}.part").write_bytes(b"x\n")
    mount_file(tmp_path, path, before)
    attributes = {
        name: str(path) if value == "{}" else [f"{path}.part"] if name == "source" else value
        for name, value in declared.items()
    }
    resources = {title.replace("{}", str(path)): attributes}
    os.chown(path.parent, 65534, 65534)
    refusal = "and other users can write to a directory on its path, so it is not overwritten"
    assert f"'{path}' is a mount point, {refusal}" in warned(resources)
    assert reason(run(resources)[0])
    os.chown(path.parent, 0, 0)
    subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
    assert f"'{path}' is on a read-only file system" in warned(resources)
    assert "read-only file system" in reason(run(resources)[0])
    assert path.read_bytes() == before


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("kind", CASES)
def test_a_file_that_an_attribute_locks_is_named_in_plan_and_error(kind: str, *, locked: bool, tmp_path: Path) -> None:
    """Administrators keep other programs from resolv.conf by ``chattr +i``; in a locked directory it can be written."""
    title, declared, before, after = CASES[kind]
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "mounted"
    path.write_bytes(before)
    Path(f"{path}.part").write_bytes(b"x\n")
    resources = {
        title.replace("{}", str(path)): {
            name: str(path) if value == "{}" else [f"{path}.part"] if name == "source" else value
            for name, value in declared.items()
        }
    }
    attributed = path if locked else path.parent
    if subprocess.run(["chattr", "+i", attributed], check=False, capture_output=True).returncode:
        pytest.skip("this filesystem or this container has no such attribute")
    try:
        if not locked:
            assert any("where it is, which is not atomic" in line for line in warned(resources))
            converge(resources)
            assert path.read_bytes() == after
            return
        message = f"'{attributed}' is immutable: remove the attribute before, with chattr -i or -a"
        assert message in warned(resources)
        assert f"'{attributed}' is immutable, by an attribute of chattr(1)" in reason(run(resources)[0])
        assert path.read_bytes() == before
    finally:
        subprocess.run(["chattr", "-i", attributed], check=True)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("path", "resource", "declared", "line"),
    [
        ("/etc/hosts", "Host[db]", {"ip": "10.0.0.1"}, "10.0.0.1\tdb"),
        ("/etc/resolv.conf", "Resolver[/etc/resolv.conf]", {"nameservers": ["10.0.0.9"]}, "nameserver 10.0.0.9"),
        ("/etc/hostname", "Hostname[system]", {"hostname": "ra-web"}, "ra-web"),
        ("/etc/fstab", "Mount[/nonexistent]", {"ensure": "present", "device": "x"}, "x\t/nonexistent\tauto"),
    ],
)
def test_what_a_container_mounts_is_written(
    path: str, resource: str, declared: dict[str, Any], line: str, tmp_path: Path
) -> None:
    """The files of the machine itself, in a namespace of the test."""
    name = socket.gethostname()
    if not Path(path).exists():
        pytest.skip(f"this machine has no {path} to mount over")
    mount_file(tmp_path, Path(path).resolve(), b"# of the container\n")
    assert any("not atomic" in item for item in warned({resource: declared}))
    converge({resource: declared})
    content = Path(path).read_text(encoding="utf-8")
    assert content.startswith(f"# of the container\n{line}")
    assert socket.gethostname() in {name, "ra-web"}


#: Files whose place their types know: the resource, what it declares, its file, and a part of the content after.
PLACES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "apt_pin": (
        "Apt_pin[ra-mounted]",
        {"packages": ["ra-none"], "pin": "version 1.*", "priority": 100},
        "/etc/apt/preferences.d/ra-mounted.pref",
        "Pin-Priority: 100",
    ),
    "group": ("Group[ra-mounted]", {}, "/etc/group", "ra-mounted:"),
    "user": ("User[ra-mounted]", {"home": "/srv"}, "/etc/passwd", "ra-mounted:"),
    "logrotate_rule": (
        "Logrotate_rule[ra-mounted]",
        {"content": "/srv/a.log { weekly\n missingok\n }"},
        "/etc/logrotate.d/ra-mounted",
        "weekly",
    ),
    "sudo_rule": (
        "Sudo_rule[ra-mounted]",
        {"user": "root", "commands": ["/bin/true"]},
        "/etc/sudoers.d/ra-mounted",
        "/bin/true",
    ),
    "sysctl": (
        "Sysctl[kernel.domainname]",
        {"value": "odd", "apply": False, "target": "/etc/sysctl.d/ra-mounted.conf"},
        "/etc/sysctl.d/ra-mounted.conf",
        "kernel.domainname = odd",
    ),
    "systemd_unit": (
        "Systemd_unit[ra-mounted.service]",
        {"content": "[Service]\nExecStart=/bin/true\n", "verify": False},
        "/etc/systemd/system/ra-mounted.service",
        "ExecStart=/bin/true",
    ),
}


@pytest.mark.usefixtures("private_system")
@pytest.mark.parametrize("kind", PLACES)
def test_a_mounted_file_of_a_directory_is_written(kind: str, tmp_path: Path) -> None:
    """Of the account files only the mounted one is overwritten."""
    title, declared, location, part = PLACES[kind]
    path = Path(location)
    path.touch()
    mount_file(tmp_path, path, path.read_bytes())
    try:
        assert [line for line in warned({title: declared}) if "not atomic" in line] == [
            f"'{path}' is a mount point, so it is overwritten where it is, which is not atomic"
        ]
        converge({title: declared})
        assert part in path.read_text(encoding="utf-8")
        assert part in (tmp_path / "outside").read_text(encoding="utf-8")
    finally:
        unmount(location)


#: Further files whose place their types know: the resource, what it declares, and its file.
MORE_PLACES: dict[str, tuple[str, dict[str, Any], str]] = {
    **{kind: case[:3] for kind, case in PLACES.items()},
    "group": ("Group[ra-locked]", {}, "/etc/group"),
    "user": ("User[ra-locked]", {"home": "/srv"}, "/etc/passwd"),
    "host": ("Host[ra-mounted]", {"ip": "192.0.2.1"}, "/etc/hosts"),
    "hostname": ("Hostname[system]", {"hostname": "ra-mounted"}, "/etc/hostname"),
    "mount": ("Mount[/ra-mounted]", {"ensure": "present", "device": "x"}, "/etc/fstab"),
    "nft_ruleset": ("Nft_ruleset[/etc/ra.nft]", {"content": "table inet ra-test { }\n"}, "/etc/ra.nft"),
    "timezone": ("Timezone[system]", {"zone": "Europe/Berlin"}, "/etc/timezone"),
    "resolver": ("Resolver[/etc/ra-resolv.conf]", {"nameservers": ["192.0.2.1"]}, "/etc/ra-resolv.conf"),
    "resolver absent": ("Resolver[/etc/ra-resolv.conf]", {"ensure": "absent"}, "/etc/ra-resolv.conf"),
    "apt_source absent": ("Apt_source[ra]", {"ensure": "absent"}, "/etc/apt/sources.list.d/ra.sources"),
    "apt_pin absent": ("Apt_pin[ra]", {"ensure": "absent"}, "/etc/apt/preferences.d/ra"),
    "sudo_rule absent": ("Sudo_rule[ra]", {"ensure": "absent"}, "/etc/sudoers.d/ra"),
}


@pytest.mark.usefixtures("private_system")
@pytest.mark.parametrize("kind", MORE_PLACES)
def test_a_locked_file_of_the_machine_is_an_error_in_words(kind: str) -> None:
    """The error has neither an error number nor a line of the provider."""
    title, declared, location = MORE_PLACES[kind]
    path = Path(location)
    text = path.read_bytes() if path.exists() else b""
    path.write_bytes(text or b"# x\nTypes: deb\nURIs: http://a.example/\nSuites: ./\nPackage: a\nPin: version 1\n")
    if "ra.nft" in location:
        path.write_bytes(b"# x\n")
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode:
        pytest.skip("this filesystem or this container has no such attribute")
    try:
        error = reason(run({title: declared})[0])
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
        path.write_bytes(text) if text else path.unlink()
    assert f"'{path}' is immutable, by an attribute of chattr(1)" in error
    assert not re.search(r"Errno|\.py:", error)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", ["archive", "file_tree", "python_venv"])
def test_a_mounted_file_in_a_directory_is_said_in_the_plan(kind: str, tmp_path: Path) -> None:
    """A tree with a mount is refused; what other types overwrite in a directory is not atomic."""
    top, source = tmp_path / "top", tmp_path / "source"
    for path in (top, source):
        path.mkdir()
    name = "pyvenv.cfg" if kind == "python_venv" else "a"
    (source / "a").write_text("new")
    (top / name).write_text("home = /usr/bin\nversion = 3.11.2\n")
    mount_file(tmp_path, top / name, (top / name).read_bytes())
    declared = {
        "archive": {"source": {"archive": {"directory": str(source)}}, "force": True},
        "file_tree": {"source": str(source)},
        "python_venv": {"system_site_packages": True, "pip": False},
    }[kind]
    title = f"{kind.capitalize()}[{top}]"
    if kind == "file_tree":
        assert "mount" in reason(run({title: declared})[0])
        return
    assert [line for line in warned({title: declared}) if "not atomic" in line and f"'{top}/{name}'" in line]


#: What is removed as a whole: the resource, with {} for its path.
REMOVED = {
    "archive": ("Archive[{}]", {"source": {"archive": {"files": {"a": {"asset": {"text": "x"}}}}}}),
    "concat": ("Concat[{}]", {"source": ["/etc/hostname"]}),
    "file": ("File[{}]", {}),
    "file directory": ("File[{}]", {"force": True}),
    "file_tree": ("File_tree[{}]", {}),
    "nft_ruleset": ("Nft_ruleset[{}]", {}),
    "python_venv": ("Python_venv[{}]", {}),
    "resolver": ("Resolver[{}]", {}),
    "x509_certificate": ("X509_certificate[{}]", {}),
    "x509_key": ("X509_key[{}]", {}),
}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", REMOVED)
def test_a_plan_says_that_a_mount_point_cannot_be_removed(kind: str, tmp_path: Path) -> None:
    """Nor what has one in it; unless the run unmounts it before, and nothing is said of what is no mount point."""
    title, declared = REMOVED[kind]
    directory = kind in {"archive", "file directory", "file_tree", "python_venv"}
    path, inner = tmp_path / "it", tmp_path / "it" / "inner"
    if kind in {"x509_key", "x509_certificate"}:
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a"]
        key, certificate = (path, tmp_path / "other") if kind == "x509_key" else (tmp_path / "other", path)
        subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    elif kind == "archive":
        converge({title.replace("{}", str(path)): declared})
    elif directory:
        path.mkdir()
        (path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    else:
        path.write_bytes(b"nameserver 192.0.2.1\n" if kind == "resolver" else b"# x\n")
    absent = {title.replace("{}", str(path)): {**declared, "ensure": "absent"}}

    def said() -> list[str]:
        return [line for line in warned(absent) if "mount point" in line]

    assert said() == []
    if directory:
        inner.touch()
        mount_file(tmp_path, inner, b"x")
    else:
        mount_file(tmp_path, path, path.read_bytes())
    location = inner if directory else path
    assert said() == [f"'{location}' is a mount point, so it cannot be removed before it is unmounted"]
    unmounted = {f"Mount[{location}]": {"ensure": "unmounted"}}
    assert [line for line in warned({**unmounted, **absent}) if "cannot be removed" in line] == []
    report, _ = run(absent)
    assert report.exit_code == 1 or location.exists()


@pytest.mark.usefixtures("private_system")
@pytest.mark.parametrize("kind", ["apt_pin", "logrotate_rule", "sudo_rule", "systemd_unit"])
def test_a_plan_says_that_a_mounted_file_of_a_directory_cannot_be_removed(kind: str, tmp_path: Path) -> None:
    """As for files that are declared by their path."""
    title, declared, location, _ = PLACES[kind]
    path = Path(location)
    converge({title: declared})
    mount_file(tmp_path, path, path.read_bytes())
    (tmp_path / "outside").chmod(path.stat().st_mode & 0o777)
    try:
        message = warned({title: {**declared, "ensure": "absent"}})
        assert f"'{path}' is a mount point, so it cannot be removed before it is unmounted" in message
    finally:
        unmount(location)
        path.unlink()


@pytest.mark.usefixtures("private_system")
def test_a_plan_says_that_a_mounted_home_cannot_be_removed(tmp_path: Path) -> None:
    """Only where the home goes with the user, which ``managehome`` declares."""
    home, real = tmp_path / "home", tmp_path / "real"
    real.mkdir()
    converge({"User[ra-mounted-home]": {"home": str(home), "managehome": True}})
    bind(real, str(home))
    try:
        absent = {"User[ra-mounted-home]": {"ensure": "absent", "managehome": True}}
        assert warned(absent) == [f"'{home}' is a mount point, so it cannot be removed before it is unmounted"]
        assert warned({"User[ra-mounted-home]": {"ensure": "absent"}}) == []
    finally:
        unmount(str(home))
        converge({"User[ra-mounted-home]": {"ensure": "absent", "managehome": True}})


@pytest.mark.usefixtures("machine")
def test_a_mounted_file_that_is_declared_absent_fails(tmp_path: Path) -> None:
    """The message says that it is a mount point."""
    path = tmp_path / "mounted"
    path.touch()
    mount_file(tmp_path, path, b"x")
    report, _ = run({f"File[{path}]": {"ensure": "absent"}})
    assert "it is a mount point" in reason(report)
