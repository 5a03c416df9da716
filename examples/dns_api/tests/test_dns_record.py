"""The records of a real service: the laws of providers, and the runs of a user."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from resource_api import Registry, Runtime
from resource_api.testing import ProviderCompliance

HOME = Path(__file__).resolve().parents[1]
TOKEN = "ra-test-token"


class TestDnsRecord(ProviderCompliance):
    """The laws, with a service that fails now and then."""

    type_name = "dns_record"
    module_path = (HOME,)
    listing_size = 45
    slowest_get = 0.5

    @pytest.fixture
    def server(self, serve):
        return serve(trouble=17)

    @pytest.fixture
    def config(self, server):
        return {"url": server.url, "token": TOKEN}

    @pytest.fixture
    def present(self):
        return {
            "name": "RA-test-a.example.org.",
            "kind": "AAAA",
            "values": ["2001:DB8:0::2", "2001:db8::1"],
            "ttl": 300,
            "view": "internal",
            "update_key": "ra-test-secret-key",
        }

    @pytest.fixture
    def updated(self, present):
        return {**present, "values": ["2001:db8::3"], "ttl": 600, "update_key": "ra-test-other-key"}

    @pytest.fixture
    def others(self, present):
        return [{**present, "name": f"ra-test-{letter}.example.org"} for letter in "bc"]

    @pytest.fixture
    def neighbours(self):
        return "it reads no file"


@pytest.fixture
def runtime(tmp_path):
    """Return a runtime with a state of its own."""
    return Runtime(Registry.from_path(HOME), state=f"sqlite:{tmp_path}/state.db")


def manifest(server, records, token=TOKEN, **extra):
    """Return a manifest that declares records by their titles."""
    config = {"url": server.url, "token": token, **extra}
    resources = {f"Dns_record[{title}]": declared for title, declared in records.items()}
    return {"project": "dns", "providers": {"dns_record": {"config": config}}, "resources": resources}


def errors(report):
    """Return the reasons of failures by reference."""
    return {step.reference: step.error for step in report.steps if step.status == "failed"}


def test_a_record_is_created_kept_corrected_and_deleted(serve, runtime):
    """The service has the declared records after each run, a change by others is drift, noop sends only GET."""
    server = serve()
    declared = manifest(server, {"WWW.example.org A": {"values": ["192.0.2.2", "192.0.2.1"], "ttl": 300}})
    assert runtime.apply(declared, noop=True).summary.created == 1
    assert {request.partition(" ")[0] for request in server.requests} == {"GET"}
    assert runtime.apply(declared).summary.created == 1
    [record] = server.account.records.values()
    assert (record["name"], record["values"], record["zone"]) == (
        "www.example.org",
        ["192.0.2.1", "192.0.2.2"],
        "example.org",
    )

    server.requests.clear()
    assert runtime.apply(declared).summary.changed == 0
    assert [request.partition("?")[0] for request in server.requests] == [
        "GET /zones",
        "GET /zones/example.org/records",
    ]

    server.account.update(record["id"], {"ttl": 60})
    [drift] = runtime.plan(declared).drift
    assert [change.attribute for change in drift.changes] == ["ttl"]
    assert runtime.apply(declared).summary.updated == 1
    assert runtime.destroy(declared).summary.deleted == 1
    assert server.account.records == {}


def test_the_zone_is_the_longest_one(serve, runtime):
    """A record belongs to the zone nearest to its name; a name in no zone is an error of that record alone."""
    server = serve()
    titles = ["a.sub.example.org TXT", "a.example.net TXT", "a.example.com TXT"]
    report = runtime.apply(manifest(server, {title: {"values": ["x"]} for title in titles}))
    assert errors(report).keys() == {"Dns_record[a.example.com TXT]"}
    assert {record["zone"] for record in server.account.records.values()} == {"sub.example.org", "example.net"}


def test_a_changed_view_replaces_the_record(serve, runtime):
    """The service refuses to change a view, so the provider plans a replacement."""
    server = serve()
    runtime.apply(manifest(server, {"a.example.org TXT": {"values": ["x"], "view": "public"}}))
    declared = manifest(server, {"a.example.org TXT": {"values": ["x"], "view": "internal"}})
    assert runtime.apply(declared).summary.replaced == 1
    [record] = server.account.records.values()
    assert record["view"] == "internal"


def test_a_record_that_somebody_has_created_is_a_conflict(serve, runtime):
    """The reason of the service is reported for that record; the others are created."""
    server = serve()
    create = server.account.create

    def race(zone, fields, key):
        if fields["name"] == "b.example.org" and not server.account.records:
            create(zone, {**fields, "values": ["theirs"]})
        return create(zone, fields, key)

    server.account.create = race
    names = ["b.example.org TXT", "c.example.org TXT"]
    report = runtime.apply(manifest(server, {name: {"values": ["ours"]} for name in names}))
    values = {record["name"]: record["values"] for record in server.account.records.values()}
    assert "b.example.org has TXT records already" in errors(report)["Dns_record[b.example.org TXT]"]
    assert values["c.example.org"] == ["ours"]


def test_a_listing_is_a_manifest_that_changes_nothing(serve, runtime, monkeypatch, tmp_path):
    """Fifty records on three pages are listed with the environment's service; there is nothing to do."""
    server = serve(trouble=13)
    for number in range(50):
        server.account.create("example.org", {"name": f"n{number}.example.org", "kind": "TXT", "values": ["x"]})
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("DNS_API_URL", server.url)
    monkeypatch.setenv("DNS_API_TOKEN_FILE", str(tmp_path / "token"))
    listed = {}
    for row in runtime.resources("dns_record"):
        record = {name: value for name, value in row.items() if name not in {"id", "update_key"} and value is not None}
        listed[f"Dns_record[{record['name']} {record['kind']}]"] = record
    assert len(listed) == 50
    again = runtime.apply({"project": "dns", "resources": listed})
    assert (again.exit_code, again.summary.changed) == (0, 0)


def test_forty_records_take_a_second_with_parallel_calls(serve, runtime):
    """With 50 ms for each request, twenty calls at a time are far quicker than one after the other."""
    server = serve(latency=0.05)
    declared = manifest(server, {f"n{number}.example.org TXT": {"values": ["x"]} for number in range(40)})
    began = time.monotonic()
    assert runtime.apply(declared, parallel=20).summary.created == 40
    assert time.monotonic() - began < 40 * 0.05 * 1.5
    server.requests.clear()
    assert runtime.apply(declared).summary.changed == 0
    assert len(server.requests) <= 4


@pytest.mark.parametrize(
    ("token", "trouble", "reason"),
    [("mistaken-token", 0, "401 "), (TOKEN, 1, "503 ")],
)
def test_a_service_that_refuses_to_answer_has_no_absent_records(serve, runtime, token, trouble, reason):
    """Nothing is created, and the error has the status and no token."""
    server = serve(trouble=trouble)
    declared = manifest(server, {"a.example.org TXT": {"values": ["x"]}}, token=token, attempts=2)
    error = errors(runtime.apply(declared))["Dns_record[a.example.org TXT]"]
    assert error.startswith(f"GET {server.url}/zones: {reason}")
    assert token not in error
    assert server.account.records == {}


@pytest.mark.parametrize(
    ("title", "declared", "message"),
    [
        ("a.example.org A", {"values": ["2001:db8::1"]}, "'2001:db8::1' must be an IPv4 address"),
        ("a.example.org CNAME", {"values": ["b", "c"]}, "a name has only one CNAME"),
        ("a.example.org", {"values": ["b"]}, "kind"),
    ],
)
def test_wrong_records_are_errors_of_the_manifest(serve, runtime, title, declared, message):
    """They are found before any request changes anything."""
    server = serve()
    with pytest.raises(Exception, match=message):
        runtime.apply(manifest(server, {title: declared}))


def test_a_token_is_never_sent_in_clear(runtime):
    """A service that is not on this machine needs https."""
    config = {"url": "http://dns.example.net", "token": TOKEN}
    declared = {"providers": {"dns_record": {"config": config}}, "resources": {}, "project": "dns"}
    with pytest.raises(Exception, match=r"the token would be readable on the way to dns\.example\.net: use https"):
        runtime.apply(declared)


def test_records_of_version_1_are_converted():
    """A single ``value`` becomes a list."""
    provider = Registry.from_path(HOME).provider("dns_record")()
    assert provider.upgrade(1, {"value": "x", "ttl": 60}) == {"values": ["x"], "ttl": 60}


def test_the_manifest_of_the_example_applies(serve, runtime):
    """``site.yaml`` creates its records, calls its function, and then changes nothing."""
    server = serve()
    inputs = {"url": server.url, "token": TOKEN}
    report = runtime.apply(HOME / "site.yaml", inputs)
    assert (report.summary.created, report.outputs["zone"]) == (3, "example.org")
    assert runtime.apply(HOME / "site.yaml", inputs).summary.changed == 0
    assert runtime.destroy(HOME / "site.yaml", inputs).summary.deleted == 3
