"""The page of the overviews of many hosts: what needs attention first, each host once, and every text is text."""

from __future__ import annotations

from typing import Any

import pytest

from resource_api.fleet import host_names
from resource_api.render import run_text
from resource_api.render.html import overview as html
from resource_api.render.run_text import HostOverview
from resource_api.system import document_schema
from tests.pages import NOW, overviews
from tests.unit.render.test_html import HOSTILE, Elements


def overview(text: str = "x", **fields: Any) -> Any:
    """Return the overview that a host may send, with a text of its own everywhere."""
    run = {
        "run": text, "project": text, "stack": text, "command": text, "ended": 5.0, "seconds": 1.0, "exit_code": 1,
        "changes": 1, "failed": 1,
    }  # fmt: skip
    return {
        "kind": "overview", "format_version": 1, "since": 0.0, "until": 10.0, "status": "failing", "runs": 1,
        "failed_runs": 1, "changes": 1, "drifted": 1, "longest": 1.0, "last": run,
        "last_change": {**run, "resources": [{"reference": text, "action": "update"}]},
        "failing": [{"reference": text, "error": text, "file": text, "line": 1, "project": text, "stack": text,
                     "since": 5.0}],
        "drift": [{"reference": text, "runs": 1, "last": 5.0, "attributes": [text]}],
        "slow": [{"method": text, "first": text, "resources": 2, "seconds": 1.0}],
        **fields,
    }  # fmt: skip


def page(hosts: list[HostOverview]) -> str:
    """Return the page of a day."""
    return html.page(hosts, host_names.fold, NOW, 86400, "3.2.0")


@pytest.mark.parametrize("text", HOSTILE)
def test_the_texts_of_a_host_are_text(text: str) -> None:
    """No element, no attribute and no script comes from them, nor a control character of a terminal."""
    hostile = Elements(page([_host(text), HostOverview("web2", "unreachable", text)]))
    harmless = Elements(page([_host("x"), HostOverview("web2", "unreachable", "x")]))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in harmless.found]
    assert [attributes.keys() for _, attributes in hostile.found] == [names.keys() for _, names in harmless.found]
    assert hostile.scripts == harmless.scripts
    assert all(line.isprintable() for line in run_text.overview_lines(overview(text)))


def _host(text: str) -> HostOverview:
    return HostOverview("web1", "failing", overview=overview(text))


def test_an_overview_of_another_form_is_none() -> None:
    """Whatever part differs."""
    schema = document_schema.load("overview")
    assert document_schema.accepts(schema, overview())
    wrong: list[Any] = [None, [], {}, overview(status="<script>"), overview(failing=[{"reference": 1}])]
    wrong += [overview(until=float("nan")), overview(longest=-1), overview(since=float("inf")), overview(runs=True)]
    wrong += [overview(more=1), overview(last_change={**overview()["last_change"], "resources": [{"action": "x"}]})]
    assert [document_schema.accepts(schema, document) for document in wrong] == [False] * len(wrong)


def test_each_host_has_one_row_and_one_cell() -> None:
    """Each id is there once, and each link leads to one; what needs attention comes first."""
    elements = Elements(page(overviews(300)))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {f"#{id_}" for id_ in ids} >= elements.attributes("href")
    rows = [id_ for id_ in ids if str(id_)[0] == "r" and str(id_)[1:].isdecimal()]
    cells = [name for _, attributes in elements.found if (name := attributes.get("title"))]
    assert (len(rows), len(cells)) == (300, 300)
    sections = [attributes["id"] for tag, attributes in elements.found if tag == "section"]
    assert sections == ["all-at-a-glance", "unreachable", "refused", "failing", "without-a-run", "drift",
                        "last-changes", "slow-calls", "hosts"]  # fmt: skip


def test_equal_failures_are_one_row() -> None:
    """With the number of hosts; that of most hosts is the first."""
    hosts = [_host("a" if number else "b")._replace(name=f"web{number}") for number in range(12)]
    text = Elements(page(hosts)).text
    assert text.index("a11 hosts") < text.index("b1 host")


def test_the_page_of_ten_thousand_hosts_is_not_large() -> None:
    """Below 10 MB: a list of one kind ends where nobody would read on."""
    result = page(overviews(10_000))
    assert len(result) < 10_000_000
    assert "10,000 hosts in the last 24 h" in result
