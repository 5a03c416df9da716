"""What a host says is data: whatever bytes come, a channel has events of that host, and one end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api.fleet import job as jobs
from resource_api.fleet.channel import TYPES, HostChannel
from resource_api.fleet.connections import LOST, UNREACHABLE, Host
from resource_api.fleet.host.execute import Sender
from resource_api.fleet.job import HostJob, with_id
from resource_api.fleet.merge import Merge
from resource_api.model.values.errors import ResourceAPIError
from resource_api.plugins.worker import protocol
from tests.sampling import times

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

JOB: Final = with_id(HostJob("apply", "1", payload="a" * 64, modules="b" * 64))
#: The size of a full pipe, as the kernel reports it.
_FULL: Final = struct.pack("i", 1 << 16)
HAVE: Final = b'RApi {"kind":"have","digests":""}\n'


def channel(*, sent: bool = True) -> HostChannel:
    """Return a channel, to which the job was sent unless told otherwise."""
    host_channel = HostChannel("web1", JOB, {"a" * 64: b"package", "b" * 64: b"modules"}.__getitem__)
    if sent:
        host_channel.receive(HAVE)
        host_channel.take()
    return host_channel


def frame(kind: str, **body: Any) -> bytes:
    """Return the bytes of a frame."""
    return protocol.encode_plain(kind, body)


def log(text: str) -> bytes:
    """Return the bytes of an event."""
    return frame("event", document={"type": "log", "message": text})


def nested(levels: int) -> Any:
    """Return a list in a list, and so on."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def last(host_channel: HostChannel, data: bytes) -> Mapping[str, Any]:
    """Return the last document that comes of these bytes."""
    return host_channel.receive(data)[-1].document


def test_the_job_follows_the_archives_that_are_asked_for() -> None:
    """In the order in which they are asked for, each with its length; then nothing until the host has all."""
    created = channel(sent=False)
    assert created.receive(b"Welcome!\n" + frame("need", digests=f"{'b' * 64} {'a' * 64}")) == []
    assert created.take() == [b"7\n", b"modules", b"7\n", b"package"]
    assert not created.sent
    created.receive(HAVE)
    assert created.take() == [jobs.encode(JOB)]
    assert created.sent


BAD: Final = {
    "a frame 'end' at the wrong time": (False, frame("end", code=0)),
    "a frame 'have' at the wrong time": (True, HAVE),
    "it asks for archives that are not for it": (False, frame("need", digests="c" * 64)),
    "no exit code": (True, frame("end", code=256)),
    "a document of an unknown type": (True, frame("result", document={"type": "log"})),
    "a frame of more than 1 MiB": (True, log("x" * (1 << 20))),
    "a frame of more than 16 MiB": (True, frame("result", document={"type": "result", "document": "x" * (16 << 20)})),
    "a frame of an unknown kind": (True, frame("call")),
    "Infinity is no JSON": (True, b'RApi {"kind":"event","document":{"type":"log","seconds":Infinity}}\n'),
    "a document of more than 250 levels": (True, frame("event", document={"type": "log", "message": nested(250)})),
    "an empty part of a frame": (True, b"RApi+ {\nRApi+ \n"),
    "more than 1 MiB of lines that are no frames": (False, b"x" * 70_000 + b"\n" + (b"y" * 1000 + b"\n") * 1000),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_is_no_event_is_the_end_of_its_host(reason: str) -> None:
    """In doubt once the job was sent; nothing was done before that."""
    sent, data = BAD[reason]
    status = LOST if sent else UNREACHABLE
    created = channel(sent=sent)
    assert last(created, data) == {
        "type": "end",
        "status": status,
        "code": None,
        "error": f"it sent what is no event: {reason}",
    }
    assert created.receive(log("more")) == created.close("closed") == []


def test_archives_are_sent_once() -> None:
    """A host that asks again and again gets nothing more."""
    created = channel(sent=False)
    created.receive(frame("need", digests="a" * 64))
    assert last(created, frame("need", digests="a" * 64))["status"] == UNREACHABLE


def test_an_archive_that_is_requested_twice_at_once_is_refused() -> None:
    """No bytes are sent: a request could name it a thousand times."""
    created = channel(sent=False)
    assert last(created, frame("need", digests=f"{'a' * 64} {'a' * 64}"))["status"] == UNREACHABLE
    assert created.take() == []


def test_events_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one after the last ends the host."""
    monkeypatch.setattr("resource_api.fleet.channel.MAX_EVENTS", 3)
    result = channel().receive(log("again") * 5)
    assert [event.document["type"] for event in result] == ["log", "log", "log", "end"]
    assert result[-1].document["error"] == "it sent what is no event: more than 3 events"


def test_a_job_that_was_interrupted_before_is_not_sent() -> None:
    """Nothing was done; later the host is asked to stop."""
    created = channel(sent=False)
    created.interrupt()
    assert last(created, HAVE) == {
        "type": "end",
        "status": UNREACHABLE,
        "code": None,
        "error": "interrupted before the job was sent",
    }
    assert created.take() == []
    running = channel()
    running.interrupt()
    assert running.take() == [b'RApi {"kind":"interrupt"}\n']


@pytest.mark.parametrize(("code", "status"), [(64, "refused"), (65, "refused"), (75, "refused"), (1, "ended")])
def test_a_refusal_is_one_by_its_document_and_its_code(code: int, status: str) -> None:
    """The code alone is the end of a run."""
    refused = frame("event", document={"type": "refused", "exit_code": code, "problems": []})
    assert last(channel(), refused + frame("end", code=code))["status"] == status
    assert last(channel(), frame("end", code=code)) == {"type": "end", "status": "ended", "code": code, "error": None}


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
)
lines = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: b"RApi " + data),
    st.sampled_from([HAVE, log("hi"), frame("end", code=0), frame("need", digests="a" * 64), b"RApi+ {", b"\n"]),
    values.map(lambda value: b"RApi " + json.dumps({"kind": "event", "document": value}).encode() + b"\n"),
)


@settings(max_examples=times(3))
@given(sent=st.booleans(), data=st.lists(lines, max_size=12).map(b"".join), size=st.integers(1, 50))
def test_any_bytes_are_events_of_one_host_and_one_end(*, sent: bool, data: bytes, size: int) -> None:
    """However they are cut; nothing is raised, and nothing comes after the end."""
    created = channel(sent=sent)
    result = [event for at in range(0, len(data), size) for event in created.receive(data[at : at + size])]
    result += created.close("closed")
    assert {event.host for event in result} == {"web1"}
    assert [event.document["type"] for event in result].index("end") == len(result) - 1
    assert all(event.document["type"] in TYPES for event in result[:-1])
    whole = channel(sent=sent)
    assert [*whole.receive(data), *whole.close("closed")] == result


def test_an_answer_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host says so instead."""
    monkeypatch.setattr(jobs, "MAX_RESULT", 1 << 20)
    reader, writer = os.pipe()
    try:
        with pytest.raises(ResourceAPIError, match=r"^the answer is larger than 1 MiB; ask for less at once$"):
            Sender(writer).result({"type": "result", "document": "x" * (1 << 20)})
    finally:
        os.close(reader)
        os.close(writer)


def test_a_signal_in_the_middle_of_a_frame_sends_its_document_after_it() -> None:
    """The pipe is full when the handler of an interrupt writes its warning; both documents arrive whole."""
    reader, writer = os.pipe()
    sender, signalled, received = Sender(writer), threading.Event(), bytearray()

    def handle(*_: object) -> None:
        signalled.set()
        sender.event({"type": "log", "message": "interrupted"})

    def read() -> None:
        while fcntl.ioctl(reader, termios.FIONREAD, bytes(4)) != _FULL:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
        signalled.wait()
        while data := os.read(reader, 1 << 16):
            received.extend(data)

    before = signal.signal(signal.SIGUSR1, handle)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        sender.event({"type": "log", "message": "x" * 500_000})
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(writer)
        thread.join()
        os.close(reader)
    documents = [event.document for event in channel().receive(bytes(received))]
    assert [len(str(document.get("message"))) for document in documents] == [500_000, len("interrupted")]


def test_a_document_with_a_long_list_arrives_cut(tmp_path: Path) -> None:
    """The list of a change becomes a text with its length, and the host is not given up."""
    change = {"attribute": "blocked", "is": [], "should": list(range(300_000))}
    with (tmp_path / "sent").open("w+b") as file:
        Sender(file.fileno()).event({"type": "step_end", "changes": [change]})
        file.seek(0)
        (event,) = channel().receive(file.read())
    (sent,) = event.document["changes"]
    assert (sent["attribute"], sent["is"]) == ("blocked", [])
    assert sent["should"].startswith("[0, 1, 2, ")
    assert sent["should"].endswith("… (2288890 characters)")


@pytest.mark.parametrize("side", ["x" * 900, list(range(100)), {"a": nested(40)}], ids=["texts", "lists", "nested"])
def test_a_document_with_many_members_of_middling_size_arrives_cut(tmp_path: Path, side: object) -> None:
    """No single part of it is long; it is cut until the controller takes it, with its type and its resource."""
    change = {"attribute": "a", "is": {f"k{number}": side for number in range(900)}, "should": [[side] * 5] * 900}
    with (tmp_path / "sent").open("w+b") as file:
        Sender(file.fileno()).event({"type": "step_end", "reference": "File[/etc/motd]", "changes": [change]})
        file.seek(0)
        (event,) = channel().receive(file.read())
    assert (event.document["type"], event.document["reference"]) == ("step_end", "File[/etc/motd]")


def test_the_deepest_document_can_be_shown() -> None:
    """Whatever a channel lets through, the report can group and return."""
    deepest = {"type": "log", "level": "notice", "message": nested(249)}
    (event,) = channel().receive(frame("event", document=deepest))
    merge, host = Merge(), Host("web1")
    merge.begin(host)
    merge.add("web1", event.document)
    merge.end(host, {"status": LOST}, 1.0, 1)
    assert [group.documents() for group in merge.groups] == [[deepest]]
