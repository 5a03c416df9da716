"""Calls of gRPC: their time limits, and connections that the other side ends."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from resource_api.terraform.channel import UNAVAILABLE, CallError, Channel, PluginAddress, grpc_timeout

if TYPE_CHECKING:
    from pathlib import Path


@given(seconds=st.floats(0, 1e10))
def test_agrpc_timeout_has_at_most_eight_digits(seconds: float) -> None:
    """More are refused by the libraries of Go, as for a limit of two days in milliseconds."""
    assert re.fullmatch(r"[1-9][0-9]{0,7}[mS]", grpc_timeout(seconds))


def _end_at_the_first_request(listener: socket.socket) -> None:
    """Answer the first request of one connection by the end of the connection (GOAWAY)."""
    connection, _ = listener.accept()
    http = H2Connection(H2Configuration(client_side=False))
    http.initiate_connection()
    with connection:
        connection.sendall(http.data_to_send())
        while not any(isinstance(event, StreamEnded) for event in http.receive_data(connection.recv(65_536))):
            connection.sendall(http.data_to_send())
        http.close_connection()
        connection.sendall(http.data_to_send())


def test_each_call_on_an_ended_connection_is_unavailable(tmp_path: Path) -> None:
    """The one that sees the end, and those after it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        thread = threading.Thread(target=_end_at_the_first_request, args=(listener,))
        thread.start()
        with closing(Channel(PluginAddress("unix", str(tmp_path / "s")))) as channel:
            for _ in range(2):
                with pytest.raises(CallError) as raised:
                    channel.call("/a/b", b"", 10)
                assert raised.value.code == UNAVAILABLE
        thread.join()
