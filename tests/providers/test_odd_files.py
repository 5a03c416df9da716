"""The corpus of odd files: a listing of each is a manifest that plans nothing, and an edit keeps every other byte."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import command
from tests.namespaces import bind, private_kernel, unmount
from tests.providers.applied import converge
from tests.providers.odd_files import (
    ALTERNATIVES,
    HOSTS,
    JOBS,
    KEYS,
    MOUNTS,
    ODD_FILES,
    PINS,
    RESOLVER,
    RULES,
    SETTINGS,
    SOURCES,
    OddFile,
    kind,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: crontab(1) of Debian writes it above a table.
HEADER = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes /etc")


@pytest.fixture(scope="module")
def _private_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let /etc be a copy, and crontabs be in memory, for this thread and its programs."""
    copy = tmp_path_factory.mktemp("odd") / "etc"
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    with private_kernel():
        subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
        for path in (Path(JOBS).parent, Path(ALTERNATIVES)):
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
        Path(JOBS).mkdir()
        Path(KEYS).parent.mkdir(mode=0o700, exist_ok=True)
        for directory in (SETTINGS, Path(KEYS).parent):
            subprocess.run(
                [
                    "mount",
                    "-t",
                    "tmpfs",
                    "-o",
                    "mode=700",
                    "none",
                    Path(directory).parent if directory == SETTINGS else directory,
                ],
                check=True,
            )
        Path(SETTINGS).mkdir()
        for location in (SOURCES, PINS):
            shutil.rmtree(location)
            Path(location).mkdir()
        yield


@contextmanager
def placed(odd: OddFile) -> Iterator[Path]:
    """Let an odd file be there, with the permissions that such files have, and then the former content."""
    path = Path(odd.path)
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(odd.text)
    path.chmod(0o440 if odd.path.startswith(RULES) else 0o600 if odd.path.startswith(JOBS) else 0o644)
    try:
        yield path
    finally:
        path.unlink() if before is None else path.write_bytes(before)


@pytest.mark.usefixtures("_private_directories")
@pytest.mark.parametrize("odd", ODD_FILES, ids=[f"{kind(odd)}-{number}" for number, odd in enumerate(ODD_FILES)])
class TestOddFile:
    """A file that nobody expects."""

    def test_a_listing_is_a_manifest_that_plans_nothing(self, odd: OddFile, tmp_path: Path) -> None:
        """Whatever the file holds, and a file that cannot be read fails no listing."""
        environment = command.environment_of(tmp_path)
        with placed(odd) as path:
            # Settings of all files cannot be listed.
            one = [odd.resource.partition("[")[2][:-1]] if kind(odd) == "ini_setting" else []
            listed = command.run(["resource", kind(odd), *one], cwd=tmp_path, env=environment, text=True, timeout=60)
            assert (listed.returncode, "Traceback" in listed.stderr) == (0, False), listed.stderr
            (tmp_path / "site.yaml").write_text(listed.stdout)
            planned = command.run(["plan", "site.yaml"], cwd=tmp_path, env=environment, text=True, timeout=60)
            assert planned.returncode == 0, (listed.stdout, planned.stdout, planned.stderr)
            assert path.read_bytes() == odd.text
            if odd.resource:
                assert odd.resource.rstrip("]") in listed.stdout

    def test_an_edit_keeps_every_other_byte(self, odd: OddFile) -> None:
        """Comments, order, line ends, and what the type does not know."""
        if not odd.resource:
            pytest.skip("nothing of it can be declared")
        quiet = {"update": False} if kind(odd) == "apt_source" else {}
        with placed(odd) as path:
            converge({odd.resource: {**odd.attributes, **quiet}})
            assert odd.text.count(odd.old) == 1
            assert HEADER.sub(b"", path.read_bytes()).rstrip(b"\n") == odd.text.replace(odd.old, odd.new).rstrip(b"\n")


CONTAINED = [odd for odd in ODD_FILES if odd.path in {HOSTS, RESOLVER, MOUNTS} and odd.resource]


@pytest.mark.usefixtures("_private_directories")
@pytest.mark.parametrize("odd", CONTAINED, ids=[f"{kind(odd)}-{number}" for number, odd in enumerate(CONTAINED)])
def test_an_odd_file_that_a_container_mounts_is_edited_too(odd: OddFile, tmp_path: Path) -> None:
    """The same edit, where the file cannot be replaced."""
    outside = tmp_path / "outside"
    outside.write_bytes(odd.text)
    Path(odd.path).touch()
    bind(outside, odd.path)
    try:
        converge({odd.resource: odd.attributes})
        assert Path(odd.path).read_bytes() == outside.read_bytes() == odd.text.replace(odd.old, odd.new)
    finally:
        unmount(odd.path)
        Path(odd.path).unlink()
