"""Calls of gRPC: their time limits, and connections that the other side ends."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from resource_api.terraform.channel import UNAVAILABLE, CallError, Channel, PluginAddress, grpc_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@given(seconds=st.floats(0, 1e10))
def test_agrpc_timeout_has_at_most_eight_digits(seconds: float) -> None:
    """More are refused by the libraries of Go, as for a limit of two days in milliseconds."""
    assert re.fullmatch(r"[1-9][0-9]{0,7}[mS]", grpc_timeout(seconds))


def _serve(listener: socket.socket, answer: Callable[[socket.socket, H2Connection, int], bool]) -> None:
    """Answer the requests of one connection as they begin, until ``answer`` returns False."""
    connection, _ = listener.accept()
    http = H2Connection(H2Configuration(client_side=False))
    http.initiate_connection()
    going_on = True
    with connection:
        while going_on:
            connection.sendall(http.data_to_send())
            if not (data := connection.recv(65_536)):
                return
            for event in http.receive_data(data):
                if isinstance(event, RequestReceived):
                    going_on = answer(connection, http, event.stream_id)


@contextmanager
def _channel(directory: Path, answer: Callable[[socket.socket, H2Connection, int], bool]) -> Iterator[Channel]:
    """Yield a channel to a program that answers as ``answer`` says."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "s"))
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, answer))
        thread.start()
        with closing(Channel(PluginAddress("unix", str(directory / "s")))) as channel:
            yield channel
        thread.join()


def _status(number: str, message: str = "") -> list[tuple[str, str]]:
    """Return the headers of a response with this status."""
    return [(":status", "200"), ("grpc-status", number), ("grpc-message", message)]


def test_an_answer_counts_though_the_program_reads_no_further(tmp_path: Path) -> None:
    """One that refuses a large request answers before its end and then resets the stream, as the library of Go does."""

    def refuse(_connection: socket.socket, http: H2Connection, stream: int) -> bool:
        http.send_headers(stream, _status("8", "too large"), end_stream=True)
        http.reset_stream(stream, 0)
        return True

    with _channel(tmp_path, refuse) as channel:
        for _ in range(2):
            with pytest.raises(CallError, match=r"^RESOURCE_EXHAUSTED: too large$"):
                channel.call("/a/b", bytes(3_000_000), 10)
        assert not channel.is_closed


def test_a_whole_answer_counts_though_the_program_ends_after_it(tmp_path: Path) -> None:
    """What it has made exists."""

    def end(connection: socket.socket, http: H2Connection, stream: int) -> bool:
        http.send_headers(stream, [(":status", "200")])
        http.send_data(stream, b"\0\0\0\0\2ok")
        http.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        http.close_connection()
        connection.sendall(http.data_to_send())
        return False

    with _channel(tmp_path, end) as channel:
        assert channel.call("/a/b", b"", 10) == b"ok"


def test_a_limit_holds_for_a_program_that_does_not_read(tmp_path: Path) -> None:
    """It has granted a large window, and then reads nothing of it."""
    done = threading.Event()

    def wait(connection: socket.socket, http: H2Connection, stream: int) -> bool:
        for number in (0, stream):
            http.increment_flow_control_window(1 << 24, number or None)
        connection.sendall(http.data_to_send())
        return not done.wait(20)

    with _channel(tmp_path, wait) as channel:
        with pytest.raises(CallError, match=r"^DEADLINE_EXCEEDED: "):
            channel.call("/a/b", bytes(1 << 24), 0.5)
        assert channel.is_closed
        done.set()


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
