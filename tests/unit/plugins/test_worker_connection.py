"""A worker's connection to the runtime belongs to one process."""

import os
from collections.abc import Iterator

import pytest

from resource_api.plugins.worker.protocol import encode
from resource_api.plugins.worker.runtime_connection import Channel, Disconnected


@pytest.fixture
def channel() -> Iterator[Channel]:
    """Return a channel on which one frame has arrived."""
    (source, arriving), (leaving, target) = os.pipe(), os.pipe()
    os.write(arriving, encode("call", {"method": "get"}))
    channel = Channel(source, target)
    yield channel
    for descriptor in (arriving, leaving, channel._source, channel._target):
        os.close(descriptor)


def _read(channel: Channel) -> int:
    """Return 0 if the channel offers nothing and reading from it raises ``Disconnected``."""
    if channel.has_input():
        return 1
    try:
        channel.receive()
    except Disconnected:
        return 0
    return 2


def test_a_forked_child_reads_nothing_of_what_arrives_for_its_parent(channel: Channel) -> None:
    """A provider that forks in ``set`` does not take the runtime's next call away from the worker."""
    if (child := os.fork()) == 0:
        code = 3
        try:
            code = _read(channel)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert channel.has_input()
    assert channel.receive().body == {"method": "get"}
