"""A small private system: directories that a test mounts over those of the machine, with accounts and packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final

from tests import wheels
from tests.namespaces import bind, unmount

#: The directories of the machine that are replaced, each by the one of its name in the world.
PLACES: Final = (
    *("/etc", "/srv", "/usr/lib/locale", "/usr/local/share", "/var/cache/apt", "/var/lib/apt", "/var/lib/dpkg"),
    *("/var/log", "/var/mail", "/var/spool/cron"),
)
#: Those whose changes are points; how often a log is written depends on the time.
WATCHED: Final = tuple(path for path in PLACES if path != "/var/log")
#: What programs need of /etc.
_ETC: Final = """
    passwd group shadow gshadow subuid subgid login.defs nsswitch.conf hosts shells localtime ld.so.cache ld.so.conf
    default pam.d security
""".split()  # noqa: SIM905 - shorter
_DIRECTORIES: Final = """
    etc/alternatives var/lib/dpkg/alternatives
    etc/apt/apt.conf.d etc/apt/preferences.d etc/apt/sources.list.d etc/apt/trusted.gpg.d etc/dpkg/dpkg.cfg.d etc/skel
    etc/logrotate.d etc/ssh etc/sudoers.d etc/sysctl.d etc/systemd/system srv/home srv/repository
    var/lib/dpkg/info var/lib/dpkg/updates var/lib/dpkg/triggers var/log/apt
""".split()  # noqa: SIM905 - shorter
_PACKAGES: Final = {"ra-test-new": ("1.0",), "ra-test-kept": ("1.0", "1.1"), "ra-test-gone": ("1.0",)}


def run(*argv: str | Path) -> str:
    """Run a program that must succeed and return its output."""
    process = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert process.returncode == 0, (argv, process.stderr)
    return process.stdout


def furnish(world: Path) -> None:
    """Make the directories of the system in ``world``, cover the machine's with them, and fill the repository."""
    for path in PLACES:
        _twin(Path(path), world / path[1:])
    _twin(Path("/var/spool/cron/crontabs"), world / "var/spool/cron/crontabs")
    for name in _ETC:
        if Path("/etc", name).exists():
            run("cp", "-a", f"/etc/{name}", world / "etc")
    run("cp", "-a", "/usr/lib/locale/C.utf8", world / "usr/lib/locale")
    for name in _DIRECTORIES:
        (world / name).mkdir(parents=True, exist_ok=True)
    architecture = run("dpkg", "--print-architecture")
    (world / "var/lib/dpkg/status").write_text(
        f"Package: dpkg\nStatus: install ok installed\nMaintainer: nobody\nArchitecture: {architecture}"
        "Version: 1.21\nDescription: test\n\n"
    )
    (world / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/repository ./\n")
    # apt compares the age of its cache in whole seconds, and tests are faster.
    (world / "etc/apt/apt.conf").write_text('Dir::Cache { pkgcache ""; srcpkgcache ""; };\n')
    repository = world / "srv/repository"
    index = [_build(repository, name, version) for name, versions in _PACKAGES.items() for version in versions]
    (repository / "Packages").write_text("\n".join(index))
    for name in ("ra_changed", "ra_created", "ra_deleted"):
        for version in ("1.0", "2.0"):
            wheels.build(repository, name, version)
    cover(world)
    run("apt-get", "update")
    for name in ("ra-owner", "ra-second"):
        run("useradd", "--create-home", "--home-dir", f"/srv/home/{name}", name)


def cover(world: Path) -> None:
    """Mount the directories of ``world`` over those of the machine, instead of what covers them now."""
    uncover()
    for path in PLACES:
        bind(world / path[1:], path)


def uncover() -> None:
    """Show the machine's own directories again."""
    mounted = {line.split()[4] for line in Path("/proc/thread-self/mountinfo").read_text().splitlines()}
    for path in reversed(PLACES):
        if path in mounted:
            unmount(path)


def _twin(location: Path, path: Path) -> None:
    """Create an empty directory with the owner and permissions of ``location``."""
    path.mkdir(parents=True, exist_ok=True)
    status = location.stat()
    os.chown(path, status.st_uid, status.st_gid)
    path.chmod(stat.S_IMODE(status.st_mode))


def _build(repository: Path, name: str, version: str) -> str:
    """Build a package with two files and a configuration file; return its paragraph of the repository's index."""
    tree = repository / "tree"
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\nDescription: test\n"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(fields)
    (tree / "DEBIAN/conffiles").write_text(f"/srv/{name}/config\n")
    (tree / "srv" / name).mkdir(parents=True)
    for file in ("README", "config", "program"):
        (tree / "srv" / name / file).write_text(f"{file} of {name} {version}\n")
    file = repository / f"{name}_{version}.deb"
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, file)
    shutil.rmtree(tree)
    data = file.read_bytes()
    return f"{fields}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
