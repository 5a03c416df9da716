"""Many hosts: inventories, names of hosts, and whatever a host may answer."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from hypothesis import strategies as st

from resource_api.fleet import inventory
from resource_api.fleet.channel import TYPES, HostChannel
from resource_api.fleet.connections import Host
from resource_api.fleet.host_names import address, expand, fold, select, split
from resource_api.fleet.job import HostJob, with_id
from resource_api.fleet.merge import Merge
from resource_api.manifest.read import READERS
from resource_api.model.values.text import escape
from resource_api.render import fleet as render
from tests.fuzz.target import target

#: Hosts of an inventory, or names of a selection, of which each is looked at.
FEW: Final = 50
PATTERNS: Final = st.one_of(
    st.sampled_from(["web[1:50]", "r[01:20]n[1:4,7]", "db[a:c]", "[0:9]", "a", "10.0.0.[1:9]", "::1", "u@h:22"]),
    st.from_regex(r"[a-c0]{0,3}(\[[0-9a-c:,]{0,6}\])?[0-9]{0,3}", fullmatch=True),
    st.text(max_size=6),
)
ITEMS: Final = st.builds(
    "{}{}{}".format, st.sampled_from(["", "!", "@"]), PATTERNS, st.sampled_from(["", "&!b", "&web"])
)
ODD: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=5) | st.just("h1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
FIELDS: Final = (
    "type level subject message reference file line column hint severity problems document summary outputs host"
    " created updated deleted failed unchanged resources valid refreshed found attribute is should step_start status"
)
DOCUMENTS: Final = st.builds(
    lambda kind, body: {**body, "type": kind},
    st.sampled_from(sorted(TYPES)) | ODD,
    st.dictionaries(st.sampled_from(FIELDS.split()), ODD, max_size=6),
)


def _frame(kind: str, body: Any) -> bytes:
    return b"RApi " + json.dumps({"kind": kind, **body}).encode() + b"\n"


FRAMES: Final = st.one_of(
    st.builds(lambda document: _frame("event", {"document": document}), DOCUMENTS | ODD),
    st.builds(lambda document: _frame("result", {"document": document}), DOCUMENTS | ODD),
    st.builds(lambda code: _frame("end", {"code": code}), st.integers(-1, 300) | ODD),
    st.builds(lambda digests: _frame("need", {"digests": digests}), ODD),
    st.binary(max_size=20),
)


@target(
    generate=st.lists(FRAMES, max_size=6).map(b"".join),
    words=f"{FIELDS} RApi RApi+ kind event result end need have digests code 0 255 {{ }} [ ] null NaN",
    readings=3,
)
def host_answers(data: bytes) -> None:
    """Whatever a host says to a run over many hosts: taken, merged, shown."""
    host = Host("web1", "10.0.0.1")
    channel, merge = HostChannel(host.name, with_id(HostJob("apply", "1", payload="0" * 64)), lambda _: b""), Merge()
    channel.receive(_frame("have", {}))
    merge.begin(host)
    body = data if data.startswith(b"RApi") else b"RApi " + data + b"\n"
    events = [*channel.receive(body), *channel.close("the stream has ended")]
    assert [event.document["type"] for event in events].count("end") == 1, "not exactly one end"
    for event in events[:-1]:
        assert event.host == host.name, "a host speaks for another one"
        merge.add(host.name, event.document)
    report = merge.end(host, events[-1].document, 1.0, 1)
    assert merge.reports == {host.name: report}, "not exactly one report"
    (group,) = merge.groups
    for document in group.documents():
        json.dumps(document)
        lines = list(render.document_lines(document))
        for command in (*render.VERBS, "output", "state"):
            lines += render.result_lines(command, document.get("document"))
        assert all(escape(line) == line for line in lines), "an answer reaches the terminal unescaped"
    assert escape(render.error(group.reason())) == render.error(group.reason())


@target(
    generate=st.builds(
        lambda names, body: json.dumps({"hosts": dict.fromkeys(names, body)}).encode(),
        st.lists(PATTERNS, max_size=4),
        ODD,
    ),
    readings=2,
    words="defaults: hosts: groups: inputs: user: port: 22 address: become: sudo via: web[1:50] db[a:c] { } [ ] , : #",
)
def host_inventory(data: bytes) -> None:
    """Inventories of hosts: read, and the connection settings of each host."""
    result = inventory.build(READERS[".yaml"](data, "hosts.yaml"))
    for name in list(result.hosts)[:FEW]:
        assert result.host(name).name == name, "a host is another one"


@target(
    generate=st.lists(ITEMS, max_size=4).map(lambda item: ",".join(item).encode("utf-8", "surrogatepass")),
    words="web[1:50] db[a:c] r[01:20] ! & @ , [ ] : group 10.0.0.1 user@host:22 ::1",
    readings=2,
)
def host_names(data: bytes) -> None:
    """Selections of hosts: `--on`, its ranges and sets; folded names are the same names."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        names = select(split(text), expand, [])
        folded = fold(names)
        assert sorted(name for item in folded for name in expand(item)) == sorted(names), "folded into others"
        for name in names[:FEW]:
            address(name)
