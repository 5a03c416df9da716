"""A real sshd for all tests of a process, and a home directory whose configuration of ssh is that of one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fleet.sshd import started_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.sshd import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests of the process share; each takes addresses of its own."""
    with started_server(tmp_path_factory.mktemp("sshd"), tmp_path_factory.getbasetemp()) as result:
        yield result


@pytest.fixture
def home(tmp_path: Path, server: Server) -> Path:
    """A home directory in which the keys of all hosts of the server are known."""
    directory = tmp_path / "home"
    (directory / ".ssh").mkdir(parents=True, mode=0o700)
    server.known_hosts(directory / ".ssh" / "known_hosts")
    return directory
