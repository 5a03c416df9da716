"""What a file system refuses is told in words, with the path that an administrator knows."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.namespaces import private_mounts
from tests.providers.applied import reason, run

if TYPE_CHECKING:
    from pathlib import Path

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIEn4yLhvJ5wlrUxLbBVFG2GmBJp0mRPd8Z5S4e3nHj9K"


def parts(path: Path) -> dict[str, dict[str, Any]]:
    """Return parts of a file by their references."""
    return {
        "File_line[a]": {"path": str(path), "line": "a"},
        "Block_in_file[a]": {"path": str(path), "block": "a"},
        "Ini_setting[a]": {"path": str(path), "setting": "a", "value": 1},
        "Json_setting[a]": {"path": str(path), "key": "a", "value": 1},
        "Yaml_setting[a]": {"path": str(path), "key": "a", "value": 1},
        "Toml_setting[a]": {"path": str(path), "key": "a", "value": 1},
        "Host[a]": {"target": str(path), "ip": "192.0.2.1"},
        "Sysctl[a.b]": {"target": str(path), "value": 1, "apply": False},
        "Known_host[a]": {"target": str(path), "type": "ed25519", "key": KEY},
        "Ssh_authorized_key[a]": {"target": str(path), "user": "root", "type": "ed25519", "key": KEY},
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes keys of root")
def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """Not the number of an error, nor a line of code."""
    for reference, attributes in parts(tmp_path / "none" / "file").items():
        assert reason(run({reference: attributes})[0]) == f"no such file or directory: {tmp_path}/none"
    venv = f"{tmp_path}/none/venv"
    error = reason(run({f"Python_venv[{venv}]": {"owner": "root"}})[0])
    assert error == f"no such file or directory: {tmp_path}/none"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_file_that_cannot_be_replaced_is_named(tmp_path: Path) -> None:
    """Not the temporary file that was to get its name."""
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=0755", "ra-test", tmp_path], check=True)
        for reference, attributes in parts(tmp_path / "file").items():
            assert reason(run({reference: attributes})[0]) == f"read-only file system: {tmp_path}/file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_file_of_the_system_that_cannot_be_replaced_is_named(tmp_path: Path) -> None:
    """In a container /etc/resolv.conf may be mounted for reading alone."""
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 192.0.2.1\n")
    with private_mounts():
        subprocess.run(["mount", "--bind", path, path], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
        error = reason(run({f"Resolver[{path}]": {"nameservers": ["192.0.2.2"]}})[0])
        assert error == f"{path}: read-only file system"
