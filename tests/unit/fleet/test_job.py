"""A job is a value: it has a digest, and it arrives as it was sent."""

from __future__ import annotations

import pytest

from resource_api import Sensitive
from resource_api.fleet.connections import HostEvent, end_event
from resource_api.fleet.job import HostJob, decode, encode, for_host, with_id
from resource_api.plugins.worker import protocol

KEY = b"k" * 32


def job(*, key: bytes = KEY, **arguments: object) -> HostJob:
    """Return a job with every field, some of them replaced."""
    fields = {
        "run": "3",
        "payload": "p",
        "modules": "m",
        "documents": ({"file": "site.yaml", "data": {"resources": {}}},),
        "files": {"motd": b"\xff\n"},
        "inputs": {"password": Sensitive("hunter2"), "size": 3},
        "host": {"name": "web1", "groups": ["web"], "address": "10.0.0.1"},
        "options": {"noop": True},
        "traceparent": "00-1-2-01",
    }
    return with_id(HostJob("apply", **{**fields, **arguments}), key)  # type: ignore[arg-type] - a test's own fields


def received(sent: bytes) -> HostJob:
    """Return the job that arrives for these bytes."""
    (frame,) = protocol.Decoder().feed(sent)
    return decode(frame)


def test_a_job_arrives_as_it_was_sent() -> None:
    """Every field survives the way, a secret as a secret."""
    result = received(encode(job()))
    assert result == job()
    assert isinstance(result.inputs["password"], Sensitive)


def test_the_manifest_is_encoded_once_for_all_hosts() -> None:
    """Jobs of one manifest have it as each alone would have it; another manifest is not mistaken for it."""
    shared, second = job(), job(documents=({"file": "other.yaml", "data": {}},))
    jobs = [for_host(shared, {"name": name}, {"size": 4}, {}, KEY) for name in ("web1", "web2")]
    for item in (*jobs, second, jobs[0]):
        assert encode(item) == protocol.encode("job", item._asdict())


def test_the_id_is_that_of_the_whole_content() -> None:
    """The same content has the same id whatever the order of its keys; every other content another one."""
    host = {"address": "10.0.0.1", "groups": ["web"], "name": "web1"}
    inputs = {"size": 3, "password": Sensitive("hunter2")}
    assert job(inputs=inputs).id == job().id
    rest = [
        job(run="4"),
        job(payload="q"),
        job(modules=None),
        job(documents=()),
        job(files={"motd": b"\xfe\n"}),
        job(inputs={**inputs, "size": 4}),
        job(inputs={**inputs, "password": Sensitive("hunter3")}),
        job(inputs={**inputs, "password": "hunter2"}),
        job(host={**host, "name": "web2"}),
        job(options={}),
        job(traceparent=None),
        job(key=b""),
    ]
    assert len({item.id for item in (job(), *rest)}) == len(rest) + 1


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (protocol.Frame("ready", {}), "this is no job"),
        (protocol.Frame("job", {"id": "1"}), "this is no job"),
        (protocol.Frame("job", job()._replace(command="format")._asdict()), "a job for the unknown command 'format'"),
    ],
)
def test_what_is_no_job_is_refused(frame: protocol.Frame, reason: str) -> None:
    """A frame of another kind, with other fields, or for another command is no job."""
    with pytest.raises(ValueError, match=f"^{reason}$"):
        decode(frame)


def test_an_end_has_all_its_fields() -> None:
    """The last event of a host says what became of its run."""
    document = {"type": "end", "status": "lost", "code": None, "error": "reset"}
    assert end_event("web1", "lost", error="reset") == HostEvent("web1", document)
