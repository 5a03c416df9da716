"""``report --on --since``: the recent runs of all hosts as one table and one page (real hosts, each with its state)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.fleet.ssh_fleet import SshFleet
from tests.fleet.test_hosted_commands import Fleet
from tests.fleet.test_hosted_commands import shared as shared  # noqa: PLC0414 - a fixture
from tests.unit.render.test_html import HOSTILE, Elements
from tests.unit.render.test_overview import overview

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ADDRESSES = {
    "web1": "127.35.0.1",
    "web2": "127.35.0.2",
    "web3": "127.35.0.3",
    "db1": "127.35.0.4",
    "new1": "127.35.0.5",
}
SITE = """\
project: web
resources:
  File[/hosts/${host.address}/motd]: {content: hi, mode: "0644"}
  Exec[check]: {command: "test ! -e /hosts/${host.address}/full", shell: true}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, server: Server) -> SshFleet:
    """Return hosts that are in order, drifted, failing, unreachable and new."""
    home = tmp_path_factory.mktemp("overviews")
    (home / ".ssh").mkdir(mode=0o700)
    server.known_hosts(home / ".ssh" / "known_hosts")
    result = SshFleet(home / "site", home, server, ADDRESSES)
    result.write(SITE)
    inventory = json.loads((result.site / "hosts.yaml").read_text())
    inventory["hosts"]["gone1"] = {"address": "127.35.0.6", "port": 1}
    (result.site / "hosts.yaml").write_text(json.dumps(inventory))
    applied = ("apply", "site.yaml", "--on", "all&!new1&!gone1")
    assert result.run(*applied).code == 0
    server.path(f"/hosts/{ADDRESSES['web2']}/motd").write_text("drifted")
    server.path(f"/hosts/{ADDRESSES['db1']}/full").touch()
    assert result.run(*applied).code == 1
    return result


def test_the_hosts_are_one_table(fleet: SshFleet) -> None:
    """Equal ones are one row; what gave no answer is an error on stderr, and the exit code is 1."""
    result = fleet.run("report", "--on", "all", "--since", "24h")
    lines = [re.sub(r"\d+ s ago", "N s ago", line) for line in result.out.splitlines()]
    assert [line.split() for line in lines] == [
        ["host", "status", "last", "run", "runs", "changes", "drifted", "failing"],
        ["web[1,3]", "changed", "N", "s", "ago", "2", "3", "0", "0"],
        ["web2", "drifted", "N", "s", "ago", "2", "4", "1", "0"],
        ["db1", "failing", "N", "s", "ago", "2", "2", "0", "1"],
        ["new1", "silent", "never", "0", "0", "0", "0"],
        ["gone1", "unreachable"],
        [
            "6",
            "hosts:",
            "1",
            "unreachable,",
            "1",
            "failing,",
            "1",
            "without",
            "a",
            "run,",
            "1",
            "drifted,",
            "2",
            "changed",
        ],
    ]
    assert (result.code, result.err.startswith("Error: gone1: unreachable: ")) == (1, True)


def test_the_hosts_are_one_page(fleet: SshFleet) -> None:
    """With every host, the failing and the drifted resource, and the last changes; nothing else is on stdout."""
    result = fleet.run("report", "--on", "all", "--since", "24h", "--format", "html")
    assert result.code == 1
    page = Elements(result.out)
    assert page.text.count("6 hosts in the last 24 h") == 2
    sections = [attributes["id"] for tag, attributes in page.found if tag == "section"]
    assert sections == [
        *("all-at-a-glance", "unreachable", "failing", "without-a-run", "drift", "last-changes", "slow-calls", "hosts"),
    ]
    titles = {str(attributes["title"]) for _, attributes in page.found if "title" in attributes}
    assert {title.partition(":")[0] for title in titles} == {*ADDRESSES, "gone1"}
    assert "Exec[check]" in page.text


def test_the_documents_of_hosts_are_a_stream(fleet: SshFleet) -> None:
    """Each as its schema says, with the host."""
    events = fleet.run("report", "--on", "web2,db1", "--since", "24h", "--json").events("result")
    documents = {event["host"]: event["document"] for event in events}
    assert {host: document["status"] for host, document in documents.items()} == {"web2": "drifted", "db1": "failing"}
    (failing,) = documents["db1"]["failing"]
    assert (failing["reference"], failing["file"], failing["line"]) == ("Exec[check]", "site.yaml", 4)
    (drift,) = documents["web2"]["drift"]
    assert (drift["reference"], drift["runs"]) == (f"File[/hosts/{ADDRESSES['web2']}/motd]", 1)


def test_the_answers_of_hosts_are_data(tmp_path: Path, shared: Path) -> None:
    """One of another form fails its host alone; hostile texts are text, on a page and on a terminal."""
    fleet = Fleet(tmp_path, shared)
    page, shown = ("--format", "html"), ("-v",)
    lies = json.dumps([{"type": "result", "document": {**overview(), "more": 1}}])
    result = fleet.run("report", "--on", "liar1,web1", "--since", "1h", *page, LIES=lies)
    assert "liar1: it sent an overview of another form" in result.err
    assert "1 without an answer, 1 without a run" in result.out
    lies = json.dumps([{"type": "result", "document": overview("".join(HOSTILE[:-1]) + "\x1b[31m")}])
    result = fleet.run("report", "--on", "liar1", "--since", "1h", *page, LIES=lies)
    assert {"script", "img", "base", "b"} & {tag for tag, _ in Elements(result.out).found} == {"script"}
    assert "alert(1)" not in Elements(result.out).scripts
    result = fleet.run("report", "--on", "liar1", "--since", "1h", *shown, LIES=lies)
    assert "\x1b" not in result.out + result.err


def test_what_excludes_each_other_is_refused(fleet: SshFleet) -> None:
    """Wrong usage, before any host is reached; 'all' without an inventory is none."""
    both = fleet.run("report", "last", "--on", "web1", "--since", "1h")
    assert (both.code, "RUN and --since exclude each other" in both.err) == (64, True)
    form = fleet.run("report", "--on", "web1", "--since", "1h", "--format", "json")
    assert (form.code, "with --on the documents are those of --json" in form.err) == (64, True)
    (fleet.site / "empty.yaml").write_text("hosts: {}\n")
    none = fleet.run("report", "--on", "all", "--since", "1h", "--hosts", "empty.yaml")
    assert (none.code, "'all' means all hosts of an inventory, and there is none" in none.err) == (64, True)
