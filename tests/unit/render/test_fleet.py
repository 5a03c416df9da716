"""A run over many hosts as text and as a page: what a host says is harmless there, and the crowd hides no exception."""

from __future__ import annotations

from typing import Any

from resource_api.render import fleet, junit_and_metrics
from resource_api.render.html import pages as html
from resource_api.render.junit_and_metrics import metrics
from tests.unit.render.test_html import HOSTILE, Elements


def group(status: str, hosts: list[str], count: int, **more: Any) -> dict[str, Any]:
    """Return a folded group of a document."""
    return {"status": status, "hosts": hosts, "count": count, "error": None, "lines": [], "more": 0, **more}


def document(count: int, text: str = "disk full") -> dict[str, Any]:
    """Return the document of a run over so many hosts, of which the last two failed and were left out."""
    summary = dict.fromkeys(("created", "updated", "unchanged", "failed", "skipped"), 0)
    host = {"status": "changed", "summary": {**summary, "updated": 1}, "error": "", "code": 0, "seconds": 1.5}
    hosts = [{**host, "name": f"web{n}", "batch": 1 + (n > 0)} for n in range(count)]
    hosts[-2] |= {"status": "failed", "error": text, "code": 1}
    hosts[-1] |= {"status": "untouched", "error": text, "summary": None, "seconds": 0.0}
    groups = [
        group("changed", [f"web[0:{count - 3}]"], count - 2, lines=[text]),
        group("failed", [text], 1, error=text, more=3),
    ]
    counts = {"changed": count - 2, "unchanged": 0, "failed": 1, "unreachable": 0, "refused": 0, "untouched": 1}
    return {
        "kind": "fleet", "tool_version": "0.1.0", "command": "apply", "run": "b1a8cc4ed5e40819",
        "started": 1795398516.8, "ended": 1795398616.9, "seconds": 100.1, "stop": text, "project": "web",
        "stack": "default", "counts": counts,
        "summary": {**summary, "updated": count - 2, "noop": False, "exit_code": 1},
        "groups": groups, "hosts": hosts,
    }  # fmt: skip


def test_a_page_has_the_exceptions_first_and_every_host() -> None:
    """Of ten thousand hosts each has one row, each id is used once, and the page stays below 3 MB."""
    page = html.fleet(document(10_000))
    elements = Elements(page)
    assert elements.text.index("Failed") < elements.text.index("Changed")
    assert "apply on 10,000 hosts" in elements.text
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len([item for item in ids if str(item).startswith("r")]) == 10_000
    assert len(page) < 3_000_000


def test_what_hosts_say_is_text_on_a_page() -> None:
    """No element, no attribute and no script comes from it."""
    plain = Elements(html.fleet(document(3)))
    for text in HOSTILE:
        elements = Elements(html.fleet(document(3, text)))
        assert [tag for tag, _ in elements.found] == [tag for tag, _ in plain.found]
        assert elements.scripts == plain.scripts


def test_a_run_over_hosts_has_metrics_and_a_test_case_for_each_host() -> None:
    """What failed and what was left out are told apart."""
    gauges, run = metrics(document(5)), fleet.as_run(document(5))
    labels = 'project="web",stack="default",command="apply"'
    assert f"resource_api_run_changes{{{labels}}} 3" in gauges
    assert f'resource_api_run_hosts{{{labels},status="failed"}} 1' in gauges
    written = junit_and_metrics.junit(run)
    assert 'tests="5"' in written
    assert 'failures="1" skipped="1"' in written


def test_a_host_that_is_unchanged_is_a_test_case_that_has_passed() -> None:
    """Every host is in the report."""
    result = document(5)
    result["hosts"][0]["status"] = "unchanged"
    written = junit_and_metrics.junit(fleet.as_run(result))
    assert 'failures="1" skipped="1" tests="5"' in written
    assert '<testcase name="web0" classname="web0" time="1.500" />' in written


def test_a_group_is_its_folded_names_and_its_lines() -> None:
    """A long list of names is cut, and the number of hosts is still there."""
    assert list(fleet.group(["web[1:3]"], 3, ["Notice: a", ""])) == ["web[1:3] (3 hosts):", "  Notice: a", ""]
    assert list(fleet.group(["web1"], 1, [fleet.error("x\ny")])) == ["web1:", "  Error: x\\ny"]
    (head,) = fleet.group([f"a{'b' * n}" for n in range(1, 90)], 89, [])
    assert head.endswith("… (89 hosts):")
    assert len(head) < 450
    (head,) = fleet.group([f"web[{','.join(map(str, range(1, 2000, 2)))}]"], 1000, [])
    assert head.endswith("… (1,000 hosts):")


def test_lines_of_documents_are_escaped_and_of_any_form() -> None:
    """Whatever types the members have."""
    assert list(fleet.document_lines({"type": "log", "level": "err", "subject": "a", "message": "\x1b[2J"})) == [
        "Error: a: \\x1b[2J"
    ]
    problem = {"type": "diagnostic", "message": "no", "file": "a.yaml", "line": 3, "column": 1, "severity": "warning"}
    assert list(fleet.document_lines(problem)) == ["a.yaml:3:1: Warning: no"]
    assert list(fleet.document_lines({"type": "diagnostic", "message": ["x"], "line": "7"})) == ["Error: ['x']"]
    for command in (*fleet.VERBS, "output", "resource", "state"):
        for row in (None, 3, [], {}, [3], {"refreshed": None}, {"valid": True, "resources": []}):
            assert isinstance(list(fleet.result_lines(command, row)), list)


def test_counts_and_progress_are_one_line() -> None:
    """What is rare is left out where no host has it."""
    counts = {"changed": 49, "unchanged": 0, "failed": 0, "unreachable": 1, "refused": 0, "untouched": 0}
    assert fleet.summary("apply", counts, 14.23) == (
        "Applied to 50 hosts in 14.2 s: 49 changed, 0 unchanged, 0 failed, 1 unreachable, 0 untouched."
    )
    assert "2 refused" in fleet.summary("plan", {**counts, "refused": 2}, 1.0, noop=True)
    assert fleet.progress(50, 46, 37, 0, 4.6) == "37/50 done, 9 running, 0 failed, 4 s"
    assert fleet.hosts_in_progress((), {"web7": 4.5, "web\x1b": 2}) == "; slowest: web7 4 s, web\\x1b 2 s"
    assert not fleet.hosts_in_progress((), {})
    assert fleet.batch(1, 2, {"changed": 1}, 49) == "Batch 1 of 2: 1 host, 1 changed. 49 hosts follow."
    assert fleet.batch(1, 2, {"failed": 1}, 1) == "Batch 1 of 2: 1 host, 1 failed. 1 host follows."
