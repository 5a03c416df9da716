"""A worker's connection to the runtime belongs to one process."""

import os
from collections.abc import Iterator

import pytest

from resource_api.plugins.worker.protocol import encode
from resource_api.plugins.worker.server import Connection, Disconnected


@pytest.fixture
def connection() -> Iterator[Connection]:
    """Return a connection on which one frame has arrived."""
    (source, arriving), (leaving, target) = os.pipe(), os.pipe()
    os.write(arriving, encode("call", {"method": "get"}))
    connection = Connection(source, target)
    yield connection
    for descriptor in (arriving, leaving, connection._source, connection._target):
        os.close(descriptor)


def _read(connection: Connection) -> int:
    """Return 0 if the connection offers nothing and reading from it raises ``Disconnected``."""
    if connection.has_input():
        return 1
    try:
        connection.receive()
    except Disconnected:
        return 0
    return 2


def test_a_forked_child_reads_nothing_of_what_arrives_for_its_parent(connection: Connection) -> None:
    """A provider that forks in ``set`` does not take the runtime's next call away from the worker."""
    if (child := os.fork()) == 0:
        code = 3
        try:
            code = _read(connection)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connection.has_input()
    assert connection.receive().body == {"method": "get"}
