"""Namespaces with a copy of /etc, for tests that change it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.namespaces import private_kernel, private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mariadb_server import Server


#: What the repository for rpm has: name, version, and what a package needs, excludes and replaces.
RPMS: Final = [
    *[("ra-Test", "1.0"), ("ra-Test", "1.1"), ("ra-other", "2.0"), ("ra-base", "1.0"), ("ra-base", "2.0")],
    ("ra-big-with-a-name-that-is-longer-than-a-column-of-a-table-is-wide", "1.0", "Requires: ra-base"),
    ("ra-rival", "1.0", "Conflicts: ra-base"),
    ("ra-successor", "1.0", "Obsoletes: ra-base < 3", "Provides: ra-virtual"),
    ("ra-either", "1.0", "Provides: ra-virtual"),
]


@pytest.fixture(scope="module")
def private_etc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Mount a copy over /etc and an empty directory over /home, visible to this thread and its programs only."""
    copy = tmp_path_factory.mktemp("accounts") / "etc"
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    with private_mounts():
        subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
        for name in ("/home", "/var/mail"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", name], check=True)
        yield


@pytest.fixture(scope="module")
def private_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let this thread and its programs have a copy of /etc, and parameters, mounts and a name of their own."""
    copy = tmp_path_factory.mktemp("system") / "etc"
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    with private_kernel():
        subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
        yield


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """Yield a server of MariaDB for all tests of a process."""
    from tests.mariadb_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def private_apt() -> Iterator[Path]:
    """Enter a mount namespace with empty directories of apt; return another empty directory, outside of /tmp."""
    stage = Path("/srv")
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", stage], check=True)
        for name in ("/etc/apt", "/var/lib/apt", "/var/cache/apt"):
            path = stage / name.replace("/", "-")
            path.mkdir()
            subprocess.run(["mount", "--bind", path, name], check=True)
        for part in ("apt.conf.d", "preferences.d", "sources.list.d", "trusted.gpg.d"):
            Path("/etc/apt", part).mkdir()
        yield stage


@pytest.fixture
def rpm_packages(private_etc: None) -> Iterator[Path]:  # noqa: ARG001 - /etc is a copy
    """Enter a mount namespace with an empty database of rpm; return a directory with a repository of packages."""
    stage = Path("/srv")
    spec = "Name: {}\nVersion: {}\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n{}\n%description\nx\n%files\n"
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", stage], check=True)
        for word in ("/var/cache/dnf", "/var/lib/dnf", "/var/cache/zypp", "/var/lib/zypp", "/var/lib/rpm", "/var/log"):
            path = stage / word.replace("/", "-")
            path.mkdir()
            Path(word).mkdir(exist_ok=True)
            subprocess.run(["mount", "--bind", path, word], check=True)
        Path("/etc/rpm").mkdir(exist_ok=True)
        Path("/etc/rpm/macros").write_text("%_dbpath /var/lib/rpm\n")
        for name, version, *more in RPMS:
            (stage / "x.spec").write_text(spec.format(name, version, "\n".join(more)))
            paths = ["--define", f"_topdir {stage}/top", "--define", f"_rpmdir {stage}/repository"]
            subprocess.run(["rpmbuild", "-bb", "--quiet", *paths, stage / "x.spec"], check=True, capture_output=True)
        subprocess.run(["createrepo_c", "-q", stage / "repository"], check=True)
        yield stage
